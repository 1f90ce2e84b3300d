package main

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/lockagent/lockagent/agentclient"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// A daemon is killed while a lock rests in it. Nobody holds the lock, so its lease is short: another host has it within
// 2 s, and so has the next daemon of the same host.
func TestADaemonIsKilledWhileALockRests(t *testing.T) {
	t.Parallel()
	for who, sameHost := range map[string]bool{"another host": false, "the same host": true} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			path, next := socketPath(t), socketPath(t)
			if sameHost {
				next = path
			}
			d := serveProcess(t, path, nil, "--redis", server.URL())
			locks := dial(t, path)
			var last channelapi.Token
			waittest.Until(t, "the daemon is stopped while the lock rests", func() bool {
				for rests := false; !rests; {
					last = use(t, locks)
					status, err := locks.Lock("door").Status(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					rests = status.Resting
				}
				d.stop(t)
				if server.Do("EXISTS", "door") == int64(1) {
					return true
				}
				d.signal(t, syscall.SIGCONT) // the rest has ended meanwhile
				return false
			})
			d.signal(t, syscall.SIGKILL)
			waittest.Receive(t, "the end of the process", d.stderr.ended)
			if left := server.Do("PTTL", "door").(int64); left > (2 * time.Second).Milliseconds() {
				t.Errorf("others would wait for %d ms", left)
			}
			if sameHost { // the daemon does not wait for the lease, but gives back what its predecessor had
				server.Do("PEXPIRE", "door", strconv.FormatInt(time.Hour.Milliseconds(), 10))
			}
			serveProcess(t, next, nil, "--redis", server.URL())
			if token := use(t, dial(t, next)); token <= last {
				t.Errorf("the token after %d is %d", last, token)
			}
		})
	}
}

func dial(t *testing.T, path string) *channelapi.Locks {
	t.Helper()
	locks, err := agentclient.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := locks.Close(); err != nil {
			t.Error(err)
		}
	})
	return locks
}

// use locks and unlocks.
func use(t *testing.T, locks *channelapi.Locks) channelapi.Token {
	t.Helper()
	g, err := locks.Lock("door").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g.Token()
}
