package redisson

import (
	"testing"
	"time"

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
func latchAlone(t *testing.T, redis *redistest.Server, java *process) {
	a, b := java.latch("start", "a"), java.latch("start", "b")
	want(t, "trySetCount", a.trySetCount(t, 2), true)
	want(t, "trySetCount again", b.trySetCount(t, 9), false)
	want(t, "await for a while", b.await(t, 20*time.Millisecond), false)
	awaited := b.waits(t, redis)
	a.countDown(t)
	want(t, "count", a.getCount(t), 1)
	pending(t, awaited)
	a.countDown(t)
	want(t, "the wait's end", value(t, awaited), "true")
	want(t, "await of an open latch", b.await(t, forever), true)
	want(t, "delete of a latch that is gone", a.delete(t), false)
}
