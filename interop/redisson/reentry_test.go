package redisson

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
)

// To the store, a lock without re-entry is a plain lock, for both sides. Scenarios M01 to M03, with
// Redisson's RLock that is not re-entrant.
func TestNoReentry(t *testing.T) {
	t.Parallel()
	if os.Getenv(profileVariable) != "" {
		t.Skip("Redisson has this kind since 4.4.0")
	}
	w := single(t)
	java, ours := w.startJava(t, 30*time.Second), w.open(t, 30*time.Second)
	s, err := ours.Session("ann")
	must(t, err)
	defer func() { must(t, s.Close(context.WithoutCancel(t.Context()))) }()
	const name = "once"
	lock, j := s.Lock(name, channelapi.NoReentry()), java.lock("nonReentrant", name, "main")

	g := hold(t, lock)
	_, err = s.Lock(name, channelapi.NoReentry()).TryAcquire(t.Context())
	want(t, "our second request is refused", errors.Is(err, channelapi.ErrReentry), true)
	want(t, "tryLock", j.tryLock(t, 0, forever), false)
	locked := j.waits(t, w.nodeOf(name), forever)
	release(t, g)
	value(t, locked)

	if got := receive(t, j.send("lock", forever)); got.err == nil {
		t.Error("Java locked twice")
	}
	grant := lock.AcquireAsync(t.Context())
	w.awaitSubscriber(t, name)
	pending(t, grant)
	j.unlock(t)
	g = receive(t, grant)
	must(t, g.Err())
	release(t, g)
}
