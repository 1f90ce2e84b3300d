package redisson

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

func TestJavaGetsALockThatRests(t *testing.T) {
	t.Parallel()
	javaRecalls(t, single(t), 1, 0)
}

// tenureCount is a store that counts the tenures which begin.
type tenureCount struct {
	lockagent.Store
	begun     atomic.Int64
	woke      atomic.Bool  // a release has woken others
	begunThen atomic.Int64 // begun, from then on
}

// Unwrap is for [lockagent.Layer].
func (c *tenureCount) Unwrap() lockagent.Store { return c.Store }

func (c *tenureCount) Acquire(
	ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	c.Store.Acquire(ctx, req, func(reply lockagent.AcquireReply, err error) {
		if err == nil && reply.Granted {
			c.begun.Add(1)
			if c.woke.Load() {
				c.begunThen.Add(1)
			}
		}
		done(reply, err)
	})
}

func (c *tenureCount) Release(
	ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error),
) {
	c.Store.Release(ctx, req, func(reply lockagent.ReleaseReply, err error) {
		if err == nil && reply.Others > 0 {
			c.woke.Store(true)
		}
		done(reply, err)
	})
}

// useAgain has a goroutine of ours use a lock again and again, without a pause. stop ends that.
func useAgain(t *testing.T, lock *channelapi.Lock) (holds *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	holds = new(atomic.Int64)
	ended := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = lock.Do(t.Context(), func(context.Context, channelapi.Grant) error { return nil })
			holds.Add(1)
		}
		ended <- err
	}()
	return holds, func() {
		t.Helper()
		cancel()
		must(t, <-ended)
	}
}

// javaRecalls has one goroutine of ours use a lock without a pause, so that its tenures rest. Java says nothing to our
// agent when it waits. But a tenure that rests ends soon, and the release tells that it woke somebody. Our agent then
// lets Java go first: TestRest of package lockstate judges that. Most often Java gets the lock when the first release
// has woken it. It may be slow to come, so only some tenures begin before. A test that does not mind how many has a
// most of 0.
func javaRecalls(t *testing.T, w *world, turns, most int) {
	java := w.startJava(t, 30*time.Second)
	store := &tenureCount{Store: w.store(t)}
	locks, err := channelapi.New(channelapi.Config{Store: store})
	must(t, err)
	name := "resting " + w.mode
	holds, stop := useAgain(t, locks.Lock(name))
	for wakes := 0; wakes < turns; {
		tenures, before := store.begun.Load(), holds.Load()
		waittest.Until(t, "tenures that rest", func() bool {
			served := holds.Load() - before
			return served > 100 && served > 2*(store.begun.Load()-tenures)
		})
		store.woke.Store(false)
		store.begunThen.Store(0)
		lock := java.lock("plain", name, "j1")
		lock.lock(t, kept)
		if store.woke.Load() { // otherwise Java came upon a free lock, which is so for an instant, ten times a second
			wakes++
			if n := store.begunThen.Load(); most > 0 && n > int64(most) {
				t.Errorf("%d tenures began after Java was woken", n)
			}
		}
		lock.unlock(t)
	}
	stop()
	must(t, locks.Close())
}
