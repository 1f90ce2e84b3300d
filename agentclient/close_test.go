//go:build linux

package agentclient

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/internal/waittest"
)

// connections is how many connections a daemon has at a path, which is alone in its directory. It counts the daemon's
// ends of them. The system tells the name that their socket had when it was bound: the daemon gives it its path later.
// So those of other tests do not matter.
func connections(t *testing.T, path string) int {
	t.Helper()
	all, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	const listener = 1 // which has a name there, too
	return strings.Count(string(all), " "+filepath.Dir(path)+"/") - listener
}

// A client that is closed leaves no connection, while the daemon goes on.
func TestCloseEndsTheConnection(t *testing.T) {
	r := run(t, socketPath(t))
	ctx := waittest.Context(t)
	for range 10 {
		locks := dial(t, r.path)
		g, err := locks.Lock("door").Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if connections(t, r.path) == 0 {
			t.Error("a client has a lock, and no connection is seen")
		}
		if err := g.Release(ctx); err != nil {
			t.Error(err)
		}
		if err := locks.Close(); err != nil {
			t.Error(err)
		}
	}
	waittest.Until(t, "the connections end", func() bool { return connections(t, r.path) == 0 })
}
