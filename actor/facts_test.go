package actor

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// A request that has to wait tells who has the lock.
func TestQueuedTellsTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, w := memstore.New(), &witness{}
		a := start(t, Config{Store: store.Share(), Recorder: w})
		b := start(t, Config{Store: store, ID: "b"})
		b.fresh.Store(6)
		far := granted(t, b.Acquire(background, "door", who("zoe")))
		bob := a.Acquire(background, "door", who("bob"))
		synctest.Wait()
		released(t, far)
		near := granted(t, bob)
		carl := a.Acquire(background, "door", who("carl"))
		synctest.Wait()
		released(t, near)
		released(t, granted(t, carl))
		var holders []string
		for _, e := range w.of(lockagent.EventQueued) {
			holders = append(holders, string(e.Owner)+" waits for "+e.Holder)
		}
		if want := []string{"bob waits for b:7", "carl waits for bob"}; !slices.Equal(holders, want) {
			t.Errorf("got %q, want %q", holders, want)
		}
	})
}

func TestThisProcess(t *testing.T) {
	p := thisProcess()
	if host, _ := os.Hostname(); p.Host != host || p.PID != os.Getpid() || !strings.HasPrefix(p.Program, "actor.test") {
		t.Errorf("%+v", p)
	}
}
