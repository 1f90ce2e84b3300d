package redisson

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
)

// javaLatch is a count-down latch of Redisson.
type javaLatch struct{ object }

func (p *process) latch(name, thread string) javaLatch {
	return javaLatch{object{p, thread, "latch", name}}
}

func (l javaLatch) trySetCount(t *testing.T, n int) bool {
	t.Helper()
	return l.is(t, "trySetCount", n)
}

func (l javaLatch) countDown(t *testing.T)    { t.Helper(); l.do(t, "countDown") }
func (l javaLatch) getCount(t *testing.T) int { t.Helper(); return l.number(t, "getCount") }

// await returns whether the latch was open in time.
func (l javaLatch) await(t *testing.T, timeout time.Duration) bool {
	t.Helper()
	return l.is(t, "await", timeout)
}

// waits has the thread wait for a closed latch.
func (l javaLatch) waits(t *testing.T, redis *redistest.Server) <-chan answer {
	t.Helper()
	return l.object.waits(t, redis, "get", "await", forever)
}

func (l javaLatch) delete(t *testing.T) bool { t.Helper(); return l.is(t, "delete") }

// latchAlone has a thread of Java wait for another.
func latchAlone(t *testing.T, w *world, java *process) {
	const name = "orders/start"
	a, b := java.latch(name, "a"), java.latch(name, "b")
	want(t, "trySetCount", a.trySetCount(t, 2), true)
	want(t, "trySetCount again", b.trySetCount(t, 9), false)
	want(t, "await for a while", b.await(t, 20*time.Millisecond), false)
	awaited := b.waits(t, w.nodeOf(name))
	a.countDown(t)
	want(t, "count", a.getCount(t), 1)
	pending(t, awaited)
	a.countDown(t)
	want(t, "the wait's end", value(t, awaited), "true")
	want(t, "await of an open latch", b.await(t, forever), true)
	want(t, "delete of a latch that is gone", a.delete(t), false)
}

// sharedLatch has each side set a latch, count it down, and wait for it.
func sharedLatch(t *testing.T, b *both) {
	w, java, locks := b.world, b.java, b.ours
	for _, name := range []string{"start", "заказ/🔒"} {
		ours, theirs := locks.Latch(name), java.latch(name, "main")
		redis := w.nodeOf(name)
		count := func(want int) {
			t.Helper()
			n, err := ours.Count(t.Context())
			must(t, err)
			if theirs := theirs.getCount(t); n != int64(want) || theirs != want {
				t.Errorf("we read the count %d, and Java %d; want %d", n, theirs, want)
			}
		}
		down := func() {
			t.Helper()
			_, err := ours.CountDown(t.Context())
			must(t, err)
		}

		must(t, ours.Set(t.Context(), 2))
		want(t, "trySetCount of a latch of ours", theirs.trySetCount(t, 5), false)
		count(2)
		awaited := java.latch(name, "waiter").waits(t, redis)
		opened := ours.AwaitAsync(t.Context())
		w.awaitSubscribers(t, "redisson_countdownlatch__channel__{"+name+"}", 2)
		theirs.countDown(t)
		count(1)
		pending(t, awaited)
		pending(t, opened)
		down() // ours is the last count: both wait for a message, and nothing else would wake Java
		want(t, "the wait of Java", value(t, awaited), "true")
		must(t, receive(t, opened))
		count(0)

		ear := b.hears.of(name)
		// waits has ours wait, and returns when it has found the latch closed while it listened.
		waits := func() (opened <-chan error) {
			t.Helper()
			ear.awaitLook(t, func() { opened = ours.AwaitAsync(t.Context()) })
			return opened
		}
		want(t, "trySetCount", theirs.trySetCount(t, 1), true)
		if err := ours.Set(t.Context(), 5); !errors.Is(err, channelapi.ErrLatchSet) {
			t.Errorf("set a latch of Java: %v", err)
		}
		awaited = java.latch(name, "waiter").waits(t, redis)
		opened = waits()
		ear.needsMessage(t)
		theirs.countDown(t) // Java's is the last count
		want(t, "the wait of Java", value(t, awaited), "true")
		must(t, receive(t, opened))

		// Whoever deletes the latch, ours learn of it, and Java waits until the latch is set again and counted down.
		for round, remove := range []func() bool{
			func() bool { return theirs.delete(t) },
			func() bool { deleted, err := ours.Delete(t.Context()); must(t, err); return deleted },
		} {
			want(t, "trySetCount", theirs.trySetCount(t, 1), true)
			awaited = java.latch(name, "waiter "+strconv.Itoa(round)).waits(t, redis)
			opened = waits()
			want(t, "deleted", remove(), true)
			if err := receive(t, opened); !errors.Is(err, channelapi.ErrLatchGone) {
				t.Errorf("our wait for a latch that was deleted: %v", err)
			}
			count(0)
			pending(t, awaited)
			must(t, ours.Set(t.Context(), 1))
			pending(t, awaited)
			down()
			want(t, "the wait of Java", value(t, awaited), "true")
		}
	}
}
