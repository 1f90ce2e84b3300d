//go:build linux

package main

import (
	"os/exec"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/redistest"
)

// While Redis waits for the holders of before, a request that does not wait is told to come again, and one that waits
// has not had the lock in time.
func TestAFirstStart(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	path := socketPath(t)
	serving(t, path, "--redis", redis.URL(), "--redis-grace-first", "1h")
	const told = "waits for up to 59m"
	apart(t, "lock", "--socket", path, "-n", "door", "true").expect(t, cli.ExitUnavailable, nil, []string{told})
	apart(t, "acquire", "--socket", path, "--ttl", "1m", "-n", "door").expect(t, cli.ExitUnavailable, nil, []string{told})
	apart(t, "lock", "--socket", path, "-w", "3s", "door", "true").expect(
		t, cli.ExitFailed, nil, []string{told, "timed out"},
	)

	// Another database of the same server has a period of its own.
	other := socketPath(t)
	serving(t, other, "--redis", redis.URL()+"/1")
	apart(t, "lock", "--socket", other, "-n", "door", "true").expect(t, cli.ExitOK, nil, nil)
}

// A command goes on under its lock when Redis comes back empty, and nobody else gets the lock meanwhile.
func TestACommandOutlastsAForgetfulRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	path, other := socketPath(t), socketPath(t)
	serving(t, path, "--redis", redis.URL())
	serving(t, other, "--redis", redis.URL())
	apart(t, "lock", "--socket", other, "-n", "window", "true").expect(t, cli.ExitOK, nil, nil) // it is on the roll
	holder := lockProcess(t, path, "door", "--", "sh", "-c", "echo it runs >&2; read line; echo it has run")
	holder.stderr.await(t, "the command", says("it runs"))
	redis.Do("FLUSHALL")
	waiter := exec.Command(program(t), "lock", "--socket", other, "-w", "30s", "window", "true")
	if out, err := waiter.CombinedOutput(); err != nil { // Redis grants again
		t.Errorf("%v: %s", err, out)
	}
	apart(t, "lock", "--socket", other, "-n", "door", "true").expect(t, cli.ExitFailed, nil, []string{"is held by"})
	holder.ended(t, "it has run\n")
	apart(t, "lock", "--socket", other, "-w", "30s", "door", "true").expect(t, cli.ExitOK, nil, nil)
}
