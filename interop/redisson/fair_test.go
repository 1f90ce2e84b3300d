package redisson

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

func fairLock(t *testing.T, f *both) {
	for _, test := range []struct {
		title string
		run   func(*testing.T, *both, string)
	}{
		{"Order", fairOrder},
		{"WeBreakTheLockOfJava", weBreakFair},
	} {
		for _, name := range []string{"orders", "{orders}/42"} {
			step(t, test.title+"/"+strings.ReplaceAll(name, "/", "-"), func(t *testing.T) { test.run(t, f, name) })
		}
	}
}

// queues makes somebody ask for a fair lock, with a lease beyond the end of the test.
func (b *both) queues(t *testing.T, name, who string) *someone {
	t.Helper()
	return b.come(t, thing{"fair", name}, who, forever)
}

// keyOf is the name of a key or a channel of Redisson that belongs to a lock.
func keyOf(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// places are those that wait for a lock, in their order.
func (w *world) places(name string) (all []string) {
	for _, place := range w.nodeOf(name).Do("LRANGE", keyOf("redisson_lock_queue", name), "0", "-1").([]any) {
		all = append(all, place.(string))
	}
	return all
}

// awaitPlaces waits until so many have a place, and returns the last one.
func (w *world) awaitPlaces(t *testing.T, name string, n int) (last string) {
	t.Helper()
	waittest.Until(t, "places", func() bool {
		all := w.places(name)
		if len(all) > 0 {
			last = all[len(all)-1]
		}
		return len(all) == n
	})
	return last
}

// awaitHearing waits until the program that has a place hears of a release by Java.
func (w *world) awaitHearing(t *testing.T, name, place string) {
	t.Helper()
	w.awaitSubscribers(t, keyOf("redisson_lock__channel", name)+":"+place, 1)
}

// fairOrder has one of either side hold the lock, and three wait for it in all mixtures.
func fairOrder(t *testing.T, f *both, name string) {
	for mixture := range 1 << 4 {
		side := func(i int) string { return "jg"[mixture>>i&1:][:1] + strconv.Itoa(i) }
		holder := f.queues(t, name, side(0))
		holder.gets(t)
		var all []*someone
		java := side(0)[0] == 'j' // is ahead
		for i := 1; i <= 3; i++ {
			all = append(all, f.queues(t, name, side(i)))
			place := f.awaitPlaces(t, name, i)
			if java = java || side(i)[0] == 'j'; java {
				f.awaitHearing(t, name, place)
			}
		}
		f.wouldLast(t, name)
		holder.leaves(t)
		for i, next := range all {
			next.gets(t)
			for _, later := range all[i+1:] {
				later.waits(t)
			}
			waittest.Until(t, "one place less", func() bool { return len(f.places(name)) == len(all)-i-1 })
			next.leaves(t)
		}
	}
	f.gone(t, name)
}

// gone checks that nothing is left of a lock.
func (b *both) gone(t *testing.T, name string) {
	t.Helper()
	for _, key := range []string{name, keyOf("redisson_lock_queue", name), keyOf("redisson_lock_timeout", name)} {
		want(t, "EXISTS "+key, b.nodeOf(name).Do("EXISTS", key), any(int64(0)))
	}
}

// fairGiveUp has waiters of both sides go away, from the front and from the middle of the queue.
func fairGiveUp(t *testing.T, f *both) {
	const name = "orders"
	holder := f.queues(t, name, "j0")
	holder.gets(t)
	ctx, cancel := context.WithCancel(t.Context())
	ours := f.ours.FairLock(name).AcquireAsync(ctx)
	f.awaitPlaces(t, name, 1)
	lock := f.java.lock("fair", name, "j1")
	theirs := lock.send("tryLock", 4*time.Second, forever) // until all are in the queue
	f.awaitPlaces(t, name, 2)
	third := f.queues(t, name, "g2")
	f.awaitPlaces(t, name, 3)
	fourth := f.queues(t, name, "j3")
	f.awaitHearing(t, name, f.awaitPlaces(t, name, 4))
	cancel()
	want(t, "a grant of ours", errors.Is(receive(t, ours).Err(), context.Canceled), true)
	want(t, "tryLock", value(t, theirs), "false")
	f.awaitPlaces(t, name, 2)
	holder.leaves(t)
	third.gets(t)
	fourth.waits(t)
	third.leaves(t)
	fourth.gets(t)
	fourth.leaves(t)
	f.gone(t, name)
}

// javaForcesFair has Java force our lock, which tells nobody of ours. The waiter of ours, and the one of Java behind
// it, get the lock.
func javaForcesFair(t *testing.T, f *both) {
	const name = "orders"
	g := hold(t, f.others.FairLock(name))
	ours, theirs := f.queues(t, name, "g1"), (*someone)(nil)
	f.awaitPlaces(t, name, 1)
	theirs = f.queues(t, name, "j2")
	f.awaitHearing(t, name, f.awaitPlaces(t, name, 2))
	want(t, "forceUnlock", f.java.lock("fair", name, "j9").forceUnlock(t), true)
	ours.gets(t)
	theirs.waits(t)
	want(t, "our hold is lost", errors.Is(g.Release(t.Context()), lockagent.ErrLost), true)
	ours.leaves(t)
	theirs.gets(t)
	theirs.leaves(t)
	f.gone(t, name)
}

// weBreakFair breaks a lock of Java, as a fair lock and as a plain one, which looks the same.
func weBreakFair(t *testing.T, f *both, name string) {
	for _, lock := range []*channelapi.Lock{f.ours.FairLock(name), f.others.Lock(name)} {
		holder := f.queues(t, name, "j0")
		holder.gets(t)
		theirs := f.queues(t, name, "j1")
		f.awaitHearing(t, name, f.awaitPlaces(t, name, 1))
		ours := f.queues(t, name, "g2")
		f.awaitPlaces(t, name, 2)
		f.java.awaitSleep(t, "j1")
		broken, err := lock.Break(t.Context(), "operator")
		must(t, err)
		want(t, "broken", broken, true)
		theirs.gets(t)
		ours.waits(t)
		if a := receive(t, holder.java.send("unlock")); a.err == nil {
			t.Error("Java released a lock that was broken")
		}
		theirs.leaves(t)
		ours.gets(t)
		ours.leaves(t)
		f.gone(t, name)
	}
}
