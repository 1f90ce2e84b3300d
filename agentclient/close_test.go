//go:build linux

package agentclient

import (
	"os"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/internal/waittest"
)

// sockets is how many sockets this process has.
func sockets(t *testing.T) (n int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if to, _ := os.Readlink("/proc/self/fd/" + f.Name()); strings.HasPrefix(to, "socket:") { // or it is closed by now
			n++
		}
	}
	return n
}

// A client that is closed leaves no connection, while the daemon goes on.
func TestCloseEndsTheConnection(t *testing.T) {
	r := run(t, socketPath(t))
	before := sockets(t)
	for range 10 {
		locks := dial(t, r.path)
		g, err := locks.Lock("door").Acquire(waittest.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Release(waittest.Context(t)); err != nil {
			t.Error(err)
		}
		if err := locks.Close(); err != nil {
			t.Error(err)
		}
	}
	waittest.Until(t, "the connections end", func() bool { return sockets(t) <= before })
}
