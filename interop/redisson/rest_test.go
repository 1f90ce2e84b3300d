package redisson

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
)

func TestJavaGetsALockThatRests(t *testing.T) {
	t.Parallel()
	javaRecalls(t, single(t))
}

func TestJavaGetsALockThatRestsInACluster(t *testing.T) {
	t.Parallel()
	javaRecalls(t, cluster(t))
}

// tenureCount is a store that counts the tenures which begin.
type tenureCount struct {
	lockagent.Store
	begun atomic.Int64
}

func (c *tenureCount) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	c.Store.Acquire(ctx, req, func(reply lockagent.AcquireReply, err error) {
		if err == nil && reply.Granted {
			c.begun.Add(1)
		}
		done(reply, err)
	})
}

// javaRecalls has one goroutine of ours use a lock without a pause, so that its tenures rest. It says nothing to those who wait, but
// its tenure ends soon. Then Java has its turn: no further tenure rests.
func javaRecalls(t *testing.T, w *world) {
	java := w.startJava(t, 30*time.Second)
	for ours, theirs := range map[string]string{"plain": "plain", "read": "write", "write": "read"} {
		t.Run(ours, func(t *testing.T) {
			store := &tenureCount{Store: w.store(t)}
			locks, err := channelapi.New(channelapi.Config{Store: store})
			must(t, err)
			name := "resting " + w.mode + " " + ours
			ctx, stop := context.WithCancel(t.Context())
			var holds atomic.Int64
			ended := make(chan error)
			go func() {
				lock := lockOf(locks, ours)(name)
				for ctx.Err() == nil {
					err := lock.Do(t.Context(), func(context.Context, channelapi.Grant) error { return nil })
					if err != nil {
						ended <- err
						return
					}
					holds.Add(1)
				}
				ended <- nil
			}()
			// Ten tenures rest in a second. Java most often gets the lock after the first that ends. But it may be slow to ask.
			const turns, most = 10, 20
			for range turns {
				tenures, before := store.begun.Load(), holds.Load()
				redistest.Eventually(t, "tenures that rest", func() bool {
					served := holds.Load() - before
					return served > 100 && served > 20*(store.begun.Load()-tenures)
				})
				tenures = store.begun.Load()
				lock := java.lock(theirs, name, "j1")
				lock.lock(t, kept)
				if n := store.begun.Load() - tenures; n > most {
					t.Errorf("%d tenures began while Java waited", n)
				}
				lock.unlock(t)
			}
			stop()
			must(t, <-ended)
			must(t, locks.Close())
		})
	}
}
