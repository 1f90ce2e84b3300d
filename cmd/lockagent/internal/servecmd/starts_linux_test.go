package servecmd

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// A start that fails leaves the claims of the daemon before as they were, whichever part fails.
func TestAStartThatFailsAfterAnyPartKeepsTheClaims(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "la") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	// started has begun so many parts of a daemon, or all.
	started := func(parts int) *server {
		t.Helper()
		cmd := NewServe()
		cmd.SetContext(t.Context())
		cmd.SetErr(io.Discard)
		flags := []string{
			"--socket", path, "--state-dir", path + ".state", "--operator-socket", path + ".op", "--web", "127.0.0.1:0",
		}
		if err := cmd.ParseFlags(flags); err != nil {
			t.Fatal(err)
		}
		s, err := newServer(cmd)
		if err != nil {
			t.Fatal(err)
		}
		for _, begin := range s.parts()[:parts] {
			if err := begin(); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	all := len((*server).parts(nil))
	d := client.New(path)
	defer d.Close()

	first := started(all)
	claim, err := d.Locks.Acquire(t.Context(), &lockagentv1.AcquireRequest{
		Name: "door", Kind: lockagentv1.Kind_KIND_READ_WRITE, Detach: true, Ttl: durationpb.New(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	for claim.Receive() { // until the daemon has detached it
	}
	if err := claim.Close(); err != nil {
		t.Error(err)
	}
	d.Close()
	if err := first.close(); err != nil { // it leaves the claim
		t.Error(err)
	}
	for begun := 1; begun <= all; begun++ {
		if err := started(begun).close(); err != nil { // as after a part that fails
			t.Errorf("after %d parts: %v", begun, err)
		}
	}
	last := started(all)
	list, err := d.Look.List(t.Context(), &lockagentv1.ListRequest{})
	if locks := list.GetLocks(); err != nil || len(locks) != 1 || locks[0].GetName() != "door" || locks[0].GetHeld() != 1 {
		t.Errorf("%v, %v", locks, err)
	}
	d.Close()
	if err := last.close(); err != nil {
		t.Error(err)
	}
}
