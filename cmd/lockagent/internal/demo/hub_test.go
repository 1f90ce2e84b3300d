package demo

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/tracing"
)

func testHub(t *testing.T, fenced bool, names ...lockagent.Name) *hub {
	t.Helper()
	h, err := openHub(newResource(names, fenced), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.close(); err != nil {
			t.Errorf("close the hub: %v", err)
		}
		if _, err := os.Stat(h.dir); !os.IsNotExist(err) {
			t.Errorf("the directory of the hub is still there: %v", err)
		}
	})
	return h
}

func TestLinkRefusesOldTokens(t *testing.T) {
	h := testHub(t, true, counter)
	l := newLink(h.path, 0)
	defer l.client.CloseIdleConnections()
	perform(t, l, fencedSteps)
}

// A process never outlives the demonstration: it ends when its input does, whether
// it has begun or not.
func TestJoinEndsWithItsInput(t *testing.T) {
	for name, begin := range map[string]bool{"before it began": false, "at work": true} {
		t.Run(name, func(t *testing.T) {
			work := Work{Workers: 2, Locks: 1, NoLocks: true}
			h := testHub(t, false, work.names()...)
			in, out := io.Pipe()
			joined := make(chan error, 1)
			go func() { joined <- Join(context.Background(), in, testLogger(t), tracing.Config{}) }()
			if err := json.NewEncoder(out).Encode(invitation{Work: work, Hub: h.path}); err != nil {
				t.Fatal(err)
			}
			<-h.seats[0].ready
			if begin {
				close(h.seats[0].begin)
				for h.resource.state()[work.names()[0]].Writes == 0 {
					runtime.Gosched()
				}
			}
			out.Close()
			if err := <-joined; err != nil {
				t.Errorf("Join: %v", err)
			}
		})
	}
}

func TestJoinWithoutInvitation(t *testing.T) {
	in, out := io.Pipe()
	out.Close()
	if err := Join(context.Background(), in, testLogger(t), tracing.Config{}); err == nil {
		t.Error("Join did without an invitation")
	}
}
