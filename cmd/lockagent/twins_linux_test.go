//go:build linux

package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// served starts a daemon, and does not wait until it is ready.
func served(t *testing.T, path, state string, redis *redistest.Server) *process {
	t.Helper()
	return launch(t, exec.Command(program(t), serveFlags(path, []string{"--state-dir", state, "--redis", redis.URL()})...))
}

// refusedAsTwin waits for the end of a daemon whose identity another one has, and returns the command that it says to
// try.
func (p *process) refusedAsTwin(t *testing.T, state string) (try string) {
	t.Helper()
	p.stderr.await(
		t, "that another daemon has its identity", says("another daemon that is alive has the identity of this one"),
	)
	waittest.Receive(t, "the end of the process", p.stderr.ended)
	text := p.stderr.String()
	if code := p.ProcessState.ExitCode(); code != cli.ExitFailed {
		t.Errorf("it ended with %d: %s", code, text)
	}
	if try = strings.TrimSpace(
		text[strings.LastIndex(text, "Try: ")+len("Try: "):],
	); try != "mv "+state+" "+state+".copy" {
		t.Errorf("it says to try %q", try)
	}
	return try
}

// copied copies a state directory. The event log stays behind: while its daemon runs, files of it come and go.
func copied(t *testing.T, from, to string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `mkdir -m 700 "$2" && cp -a "$1/journal" "$2"`, "sh", from, to)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// tries tries a lock, and reports whether that was granted.
func tries(t *testing.T, path, name string) bool {
	t.Helper()
	w := lockProcess(t, path, "-n", name, "--", "true")
	waittest.Receive(t, "the end of the process", w.stderr.ended)
	code := w.ProcessState.ExitCode()
	if code != cli.ExitOK && code != cli.ExitFailed {
		t.Fatalf("lock -n ended with %d: %s", code, w.stderr.String())
	}
	return code == cli.ExitOK
}

// The state directory of a daemon is copied while a command has a lock, as with a machine that is cloned. The daemon
// of the copy does not start, leaves the lock alone, and says what to do. Afterwards it is a daemon of its own.
func TestACopiedStateDirectory(t *testing.T) {
	t.Parallel()
	for what, twice := range map[string]bool{"of a daemon that goes on": false, "of a daemon that starts again": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			path, other := socketPath(t), socketPath(t)
			first := serveProcess(t, path, nil, "--redis", redis.URL())
			holder := lockProcess(t, path, "door", "--", "sh", "-c", "echo held >&2; read line || true")
			// A try before it would leave it the short lease of a lock that rests.
			holder.stderr.await(t, "the command", says("held"))
			if twice {
				first.signal(t, syscall.SIGTERM)
				waittest.Receive(t, "the end of the process", first.stderr.ended)
			}
			copied(t, path+".state", other+".state")
			if twice {
				first = serveProcess(t, path, nil, "--redis", redis.URL())
			}

			try := served(t, other, other+".state", redis).refusedAsTwin(t, other+".state")
			if tries(t, path, "door") {
				t.Error("the lock was granted again, although a command has it")
			}
			first.stderr.await(
				t, "that another process has its identity", says("another process has the identity of this agent"),
			)

			if text, err := exec.Command("sh", "-c", try).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", try, err, text)
			}
			serveProcess(t, other, nil, "--redis", redis.URL())
			if tries(t, other, "door") {
				t.Error("the lock was granted to the other daemon, although a command of this one has it")
			}
			holder.ended(t, "")
			waittest.Until(t, "the lock is free for the other daemon", func() bool { return tries(t, other, "door") })
		})
	}
}

// Two daemons with one identity wait for Redis. When it is there, one of them serves, and the other one does not.
func TestTwinsWaitForRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	path, other := socketPath(t), socketPath(t)
	first := serveProcess(t, path, nil, "--redis", redis.URL())
	first.signal(t, syscall.SIGTERM)
	waittest.Receive(t, "the end of the process", first.stderr.ended)
	copied(t, path+".state", other+".state")
	redis.Kill()
	both := []*process{served(t, path, path+".state", redis), served(t, other, other+".state", redis)}
	for _, p := range both {
		p.stderr.await(t, "that it waits", says("Redis is away, and the daemon waits for it"))
	}
	redis.Restart()
	select {
	case <-both[0].stderr.ended:
		both[0].refusedAsTwin(t, path+".state")
		both[1].stderr.await(t, "that it is ready", says("Ready: "))
	case <-both[1].stderr.ended:
		both[1].refusedAsTwin(t, other+".state")
		both[0].stderr.await(t, "that it is ready", says("Ready: "))
	case <-waittest.Context(t).Done():
		t.Fatal("both daemons go on")
	}
}

// Two daemons with one identity have served side by side, because the first one did not run when the second one
// asked. When it runs again, one of them ends, and tells its clients.
func TestATwinIsNoticedLater(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	path, other := socketPath(t), socketPath(t)
	first := serveProcess(t, path, nil, "--redis", redis.URL())
	copied(t, path+".state", other+".state")
	first.stop(t)
	second := serveProcess(t, other, nil, "--redis", redis.URL())
	holder := lockProcess(t, other, "door", "--", "sh", "-c", "echo held >&2; read line || true")
	holder.stderr.await(t, "the command", says("held"))
	first.signal(t, syscall.SIGCONT)
	second.refusedAsTwin(t, other+".state")
	waittest.Receive(t, "the end of the process", holder.stderr.ended)
	if code := holder.ProcessState.ExitCode(); code != cli.ExitLost {
		t.Errorf("the command ended with %d: %s", code, holder.stderr.String())
	}
}
