package redisson

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// spinLock has both sides exclude each other, and get the lock without a message.
func spinLock(t *testing.T, b *both) {
	w, java, ours := b.world, b.java, b.ours
	for _, name := range names {
		step(t, name, func(t *testing.T) {
			j := java.lock("spin", name, "main")
			j.lock(t, forever)
			j.lock(t, forever)
			status, err := ours.SpinLock(name).Status(t.Context())
			must(t, err)
			want(t, "holds of Java", status.HoldCount, 2)
			_, err = ours.SpinLock(name).TryAcquire(t.Context())
			want(t, "our try is refused", errors.Is(err, lockagent.ErrHeld), true)
			grant := ours.SpinLock(name).AcquireAsync(t.Context())
			j.unlock(t)
			pending(t, grant)
			j.unlock(t)
			g := receive(t, grant)
			must(t, g.Err())
			want(t, "tryLock", j.tryLock(t, 50*time.Millisecond, forever), false)
			locked := j.send("lock", forever)
			pending(t, locked)
			release(t, g)
			value(t, locked)
			broken, err := ours.SpinLock(name).Break(t.Context(), "")
			must(t, err)
			want(t, "we broke it", broken, true)
			want(t, "isLocked", j.isLocked(t), false)
			g = hold(t, ours.SpinLock(name))
			want(t, "Java forces it", j.forceUnlock(t), true)
			want(t, "tryLock of the free lock", j.tryLock(t, 0, forever), true)
			j.unlock(t)
			_ = g.Release(t.Context())
		})
	}
	t.Run("NoMessages", func(t *testing.T) {
		node := w.nodeOf("quiet")
		waits := make([]<-chan lockagent.Grant, 3)
		g := hold(t, ours.SpinLock("quiet"))
		for i := range waits {
			waits[i] = ours.SpinLock("quiet").AcquireAsync(t.Context())
		}
		for _, count := range w.counts {
			channels := strings.Replace(count, "NUMSUB", "CHANNELS", 1)
			if got, _ := node.Do("PUBSUB", channels, "*quiet*").([]any); len(got) > 0 {
				t.Errorf("there are subscribers: %q", got)
			}
		}
		release(t, g)
		for _, c := range waits {
			g := receive(t, c)
			must(t, g.Err())
			release(t, g)
		}
	})
}
