package redisson

import (
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/redistest"
)

// javaSemaphore is a semaphore of Redisson whose permits are a number.
type javaSemaphore struct{ object }

func (p *process) semaphore(name, thread string) javaSemaphore {
	return javaSemaphore{object{p, thread, "semaphore", name}}
}

func (s javaSemaphore) trySetPermits(t *testing.T, n int) bool {
	t.Helper()
	return s.is(t, "trySetPermits", n)
}

func (s javaSemaphore) addPermits(t *testing.T, n int) { t.Helper(); s.do(t, "addPermits", n) }
func (s javaSemaphore) acquire(t *testing.T, n int)    { t.Helper(); s.do(t, "acquire", n) }

// waits has the thread ask for more permits than there are.
func (s javaSemaphore) waits(t *testing.T, redis *redistest.Server, n int) <-chan answer {
	t.Helper()
	return s.object.waits(t, redis, "get", "acquire", n)
}

func (s javaSemaphore) tryAcquire(t *testing.T, n int, wait time.Duration) bool {
	t.Helper()
	return s.is(t, "tryAcquire", n, wait)
}

func (s javaSemaphore) release(t *testing.T, n int)   { t.Helper(); s.do(t, "release", n) }
func (s javaSemaphore) drainPermits(t *testing.T) int { t.Helper(); return s.number(t, "drainPermits") }

func (s javaSemaphore) availablePermits(t *testing.T) int {
	t.Helper()
	return s.number(t, "availablePermits")
}

func (s javaSemaphore) delete(t *testing.T) bool { t.Helper(); return s.is(t, "delete") }

// javaPermits is a semaphore of Redisson whose permits have ids and leases. One that is kept never ends.
type javaPermits struct{ object }

func (p *process) permits(name, thread string) javaPermits {
	return javaPermits{object{p, thread, "permits", name}}
}

func (p javaPermits) trySetPermits(t *testing.T, n int) bool {
	t.Helper()
	return p.is(t, "trySetPermits", n)
}

func (p javaPermits) setPermits(t *testing.T, n int) { t.Helper(); p.do(t, "setPermits", n) }
func (p javaPermits) addPermits(t *testing.T, n int) { t.Helper(); p.do(t, "addPermits", n) }

// acquire returns the ids of n permits.
func (p javaPermits) acquire(t *testing.T, n int, lease time.Duration) (ids []string) {
	t.Helper()
	return strings.Split(p.do(t, "acquire", n, lease), ",")
}

// waits has the thread ask for more permits than there are.
func (p javaPermits) waits(t *testing.T, redis *redistest.Server, n int, lease time.Duration) <-chan answer {
	t.Helper()
	return p.object.waits(t, redis, "get", "acquire", n, lease)
}

// tryAcquire returns no ids if there were too few permits.
func (p javaPermits) tryAcquire(t *testing.T, n int, wait, lease time.Duration) (ids []string) {
	t.Helper()
	if answer := p.do(t, "tryAcquire", n, wait, lease); answer != "" {
		ids = strings.Split(answer, ",")
	}
	return ids
}

func (p javaPermits) release(t *testing.T, id string) { t.Helper(); p.do(t, "release", id) }

// tryRelease returns how many were released: all or none.
func (p javaPermits) tryRelease(t *testing.T, ids ...string) int {
	t.Helper()
	return p.number(t, "tryRelease", strings.Join(ids, ","))
}

func (p javaPermits) updateLeaseTime(t *testing.T, id string, lease time.Duration) bool {
	t.Helper()
	return p.is(t, "updateLeaseTime", id, lease)
}

func (p javaPermits) availablePermits(t *testing.T) int {
	t.Helper()
	return p.number(t, "availablePermits")
}

func (p javaPermits) acquiredPermits(t *testing.T) int {
	t.Helper()
	return p.number(t, "acquiredPermits")
}

func (p javaPermits) getPermits(t *testing.T) int { t.Helper(); return p.number(t, "getPermits") }
func (p javaPermits) delete(t *testing.T) bool    { t.Helper(); return p.is(t, "delete") }

// semaphoreAlone has two threads of Java share a semaphore.
func semaphoreAlone(t *testing.T, w *world, java *process) {
	const name = "orders/tables"
	redis := w.nodeOf(name)
	a, b := java.semaphore(name, "a"), java.semaphore(name, "b")
	want(t, "trySetPermits", a.trySetPermits(t, 3), true)
	want(t, "trySetPermits again", b.trySetPermits(t, 9), false)
	a.acquire(t, 2)
	want(t, "tryAcquire of too many", b.tryAcquire(t, 2, 20*time.Millisecond), false)
	acquired := b.waits(t, redis, 2)
	a.release(t, 1)
	value(t, acquired)
	want(t, "permits that are left", a.availablePermits(t), 0)
	a.addPermits(t, 4)
	want(t, "permits that were drained", b.drainPermits(t), 4)
	want(t, "delete", a.delete(t), true)
}

// permitsAlone has two threads of Java share a semaphore with ids.
func permitsAlone(t *testing.T, w *world, java *process) {
	const name = "orders/seats"
	redis := w.nodeOf(name)
	a, b := java.permits(name, "a"), java.permits(name, "b")
	want(t, "trySetPermits", a.trySetPermits(t, 3), true)
	ids := a.acquire(t, 2, forever)
	want(t, "ids", len(ids), 2)
	want(t, "ids of too many", len(b.tryAcquire(t, 2, 20*time.Millisecond, forever)), 0)
	want(t, "updateLeaseTime", b.updateLeaseTime(t, ids[0], 2*forever), true)
	acquired := b.waits(t, redis, 2, kept)
	b2 := java.permits(name, "c") // b waits
	b2.release(t, ids[1])         // whoever knows the id may
	more := strings.Split(value(t, acquired), ",")
	want(t, "permits that are left", a.availablePermits(t), 0)
	want(t, "permits that are taken", a.acquiredPermits(t), 3)
	want(t, "tryRelease of one that was released", a.tryRelease(t, ids...), 0)
	want(t, "tryRelease", a.tryRelease(t, ids[0], more[0], more[1]), 3)
	a.setPermits(t, 5)
	a.addPermits(t, 1)
	want(t, "permits in all", b.getPermits(t), 6)
	want(t, "delete", a.delete(t), true)
}
