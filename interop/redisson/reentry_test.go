package redisson

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
)

// To the store, a lock without re-entry is a lock of its kind, for both sides. Scenarios M01 to M03, with Redisson's
// locks that are not re-entrant.
func TestNoReentry(t *testing.T) {
	t.Parallel()
	if os.Getenv(profileVariable) != "" {
		t.Skip("Redisson has these kinds since 4.4.0")
	}
	for title, servers := range map[string]func(*testing.T, ...redistest.Option) *world{"single": single, "cluster": cluster} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			b := servers(t).start(t, 30*time.Second)
			t.Run("plain", func(t *testing.T) { noReentry(t, b, "plain", "nonReentrant", (*channelapi.Session).Lock) })
			t.Run("fair", func(t *testing.T) { noReentry(t, b, "fair", "nonReentrantFair", (*channelapi.Session).FairLock) })
		})
	}
}

// noReentry has each side hold a lock, ask for it in vain, and wait for the other side.
func noReentry(t *testing.T, b *both, kind, javas string, lockOf func(*channelapi.Session, string, ...channelapi.Option) *channelapi.SessionLock) {
	s, err := b.ours.Session("ann of " + kind)
	must(t, err)
	defer func() { must(t, s.Close(context.WithoutCancel(t.Context()))) }()
	name := "once " + kind
	lock, j := lockOf(s, name, channelapi.NoReentry()), b.java.lock(javas, name, "main")

	g := hold(t, lock)
	_, err = lockOf(s, name, channelapi.NoReentry()).TryAcquire(t.Context())
	want(t, "our second request is refused", errors.Is(err, channelapi.ErrReentry), true)
	want(t, "tryLock", j.tryLock(t, 0, forever), false)
	locked := j.waits(t, b.nodeOf(name), forever)
	release(t, g)
	value(t, locked)

	if got := receive(t, j.send("lock", forever)); got.err == nil {
		t.Error("Java locked twice")
	}
	grant := lock.AcquireAsync(t.Context())
	b.awaitListening(t, thing{kind, name})
	pending(t, grant)
	j.unlock(t)
	g = receive(t, grant)
	must(t, g.Err())
	release(t, g)
}
