package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/waittest"
)

// A wrapper that was stopped for longer than a lease has its lock all the time, because the daemon renews it. So its
// command goes on.
func TestAStoppedWrapperKeepsItsLock(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	path := socketPath(t)
	serving(t, path, "--lease", lease.String())
	for name, command := range map[string][]string{
		"with a command": {"--", "sh", "-c", "echo it runs >&2; cat; echo done"},
	} {
		t.Run(name, func(t *testing.T) {
			holder := lockProcess(t, path, append([]string{"door"}, command...)...)
			holder.stderr.await(t, "the command", says("it runs"))
			holder.signal(t, syscall.SIGSTOP)
			stopped := bootclock.Now()
			waittest.Until(
				t, "the lease is over that the wrapper knows of", func() bool { return bootclock.Now() > stopped+2*lease },
			)
			holder.signal(t, syscall.SIGCONT)
			holder.ended(t, "done\n")
		})
	}
}
