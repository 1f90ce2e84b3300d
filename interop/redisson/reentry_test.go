package redisson

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/lockagent/lockagent/channelapi"
)

// noReentry has each side hold a lock without re-entry. To the store, it is a lock of its kind, for both sides.
// Scenarios M01 to M03, with Redisson's locks that are not re-entrant.
func noReentry(t *testing.T, b *both) {
	if os.Getenv(profileVariable) != "" {
		t.Skip("Redisson has these kinds since 4.4.0")
	}
	t.Run("plain", func(t *testing.T) { noReentryOf(t, b, "plain", "nonReentrant", (*channelapi.Session).Lock) })
	t.Run("fair", func(t *testing.T) { noReentryOf(t, b, "fair", "nonReentrantFair", (*channelapi.Session).FairLock) })
}

// noReentryOf has each side hold a lock, ask for it in vain, and wait for the other side.
func noReentryOf(
	t *testing.T, b *both, kind, javas string,
	lockOf func(*channelapi.Session, string, ...channelapi.Option) *channelapi.SessionLock,
) {
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
