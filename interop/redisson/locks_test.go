package redisson

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/redistest"
)

// javaLock is a lock of Redisson. A lease that is kept is one that its watchdog renews.
type javaLock struct{ object }

// lock is what a thread has of a lock: see Locks.java for the kinds.
func (p *process) lock(kind, name, thread string) javaLock {
	return javaLock{object{p, thread, kind, name}}
}

func (l javaLock) lock(t *testing.T, lease time.Duration) { t.Helper(); l.do(t, "lock", lease) }

// waits has the thread ask for a lock that is held. Every attempt that meets a holder asks for its lease.
func (l javaLock) waits(t *testing.T, redis *redistest.Server, lease time.Duration) <-chan answer {
	t.Helper()
	return l.object.waits(t, redis, "pttl", "lock", lease)
}

func (l javaLock) tryLock(t *testing.T, wait, lease time.Duration) bool {
	t.Helper()
	return l.is(t, "tryLock", wait, lease)
}

// tryLockOnce tries without a wait, which is not the same to a fair lock as one of 0.
func (l javaLock) tryLockOnce(t *testing.T) bool { t.Helper(); return l.is(t, "tryLockOnce") }
func (l javaLock) unlock(t *testing.T)           { t.Helper(); l.do(t, "unlock") }
func (l javaLock) forceUnlock(t *testing.T) bool { t.Helper(); return l.is(t, "forceUnlock") }
func (l javaLock) isLocked(t *testing.T) bool    { t.Helper(); return l.is(t, "isLocked") }
func (l javaLock) holdCount(t *testing.T) int    { t.Helper(); return l.number(t, "holdCount") }
func (l javaLock) remaining(t *testing.T) time.Duration {
	t.Helper()
	return time.Duration(l.number(t, "remaining")) * time.Millisecond
}

// javaFenced is a lock whose holds have tokens.
type javaFenced struct{ javaLock }

func (p *process) fenced(name, thread string) javaFenced {
	return javaFenced{p.lock("fenced", name, thread)}
}

// lockAndGetToken passes on a lease that Redisson ignores.
func (l javaFenced) lockAndGetToken(t *testing.T, lease time.Duration) (token int) {
	t.Helper()
	return l.number(t, "lockAndGetToken", lease)
}

// tryLockAndGetToken says whether the lock was granted.
func (l javaFenced) tryLockAndGetToken(t *testing.T, wait, lease time.Duration) (token int, granted bool) {
	t.Helper()
	if answer := l.do(t, "tryLockAndGetToken", wait, lease); answer != "" {
		token, err := strconv.Atoi(answer)
		must(t, err)
		return token, true
	}
	return 0, false
}

func (l javaFenced) getToken(t *testing.T) int { t.Helper(); return l.number(t, "getToken") }

// locksAlone has two threads of Java share locks of each kind that has one holder at a time.
func locksAlone(t *testing.T, w *world, java *process) {
	for _, kind := range []string{
		"plain", "fair", "write", "fenced", "spin", "multi", "nonReentrant", "nonReentrantFair",
	} {
		t.Run(kind, func(t *testing.T) {
			re := !strings.HasPrefix(kind, "nonReentrant")
			if !re && os.Getenv(profileVariable) != "" {
				t.Skip("Redisson has this kind since 4.4.0")
			}
			name := "orders/" + kind
			redis := w.nodeOf(name)
			if kind == "multi" {
				name += ",orders/another"
			}
			a, b := java.lock(kind, name, "a"), java.lock(kind, name, "b")
			a.lock(t, forever)
			if re {
				a.lock(t, forever)
				a.unlock(t)
			} else if got := receive(t, a.send("lock", forever)); got.err == nil {
				t.Error("a lock that is not re-entrant was locked twice")
			}
			want(t, "tryLock of another thread", b.tryLock(t, 0, forever), false)
			want(t, "tryLock for a while", b.tryLock(t, 20*time.Millisecond, forever), false)
			want(t, "tryLock without a wait", b.tryLockOnce(t), false)
			if got := receive(t, b.send("unlock")); got.err == nil {
				t.Error("another thread than the holder released the lock")
			}
			granted := b.waits(t, redis, forever)
			a.unlock(t)
			value(t, granted)
			want(t, "tryLock after the release", a.tryLock(t, 0, forever), false)
			if kind != "multi" { // which Redisson does not know these of
				want(t, "isLocked", a.isLocked(t), true)
				want(t, "holds", b.holdCount(t), 1)
				want(t, "holds of another thread", a.holdCount(t), 0)
				if left := a.remaining(t); left < forever/2 {
					t.Errorf("%v are left of the lease", left)
				}
				want(t, "forceUnlock", a.forceUnlock(t), true)
				want(t, "isLocked", b.isLocked(t), false)
			} else {
				b.unlock(t)
			}
			want(t, "tryLock of a free lock", a.tryLockOnce(t), true)
			a.unlock(t)
		})
	}
	t.Run("read", func(t *testing.T) { readersAlone(t, w, java) })
	t.Run("tokens", func(t *testing.T) { tokensAlone(t, java) })
	t.Run("line", func(t *testing.T) { lineAlone(t, w, java) })
	t.Run("interrupted", func(t *testing.T) { interruptedAlone(t, w, java) })
}

// readersAlone has two readers exclude a writer, and a writer two readers.
func readersAlone(t *testing.T, w *world, java *process) {
	const name = "orders/pages"
	redis := w.nodeOf(name)
	a, b, c := java.lock("read", name, "a"), java.lock("read", name, "b"), java.lock("write", name, "c")
	a.lock(t, forever)
	want(t, "tryLock of another reader", b.tryLock(t, 0, forever), true)
	want(t, "tryLock of a writer", c.tryLock(t, 0, forever), false)
	written := c.waits(t, redis, forever)
	a.unlock(t)
	pending(t, written)
	b.unlock(t)
	value(t, written)
	want(t, "tryLock beside the writer", a.tryLock(t, 0, forever), false)
	readA, readB := a.waits(t, redis, forever), b.waits(t, redis, forever)
	c.unlock(t)
	value(t, readA)
	value(t, readB)
	want(t, "holds of a reader", a.holdCount(t), 1)
	a.unlock(t)
	b.unlock(t)
	want(t, "isLocked", a.isLocked(t), false)
}

func tokensAlone(t *testing.T, java *process) {
	a, b := java.fenced("orders/tokens", "a"), java.fenced("orders/tokens", "b")
	token := a.lockAndGetToken(t, kept)
	if _, granted := b.tryLockAndGetToken(t, 0, kept); granted {
		t.Error("a lock was granted twice")
	}
	a.unlock(t)
	next, granted := b.tryLockAndGetToken(t, 0, kept)
	want(t, "granted", granted, true)
	want(t, "the next token", next, token+1)
	want(t, "the token that others see", a.getToken(t), next)
	b.unlock(t)
}

// lineAlone has two threads wait for a fair lock. Redisson moves the time of the last one when the first is granted the
// lock.
func lineAlone(t *testing.T, w *world, java *process) {
	const name = "orders/line"
	holder, first, last := java.lock("fair", name, "a"), java.lock("fair", name, "b"), java.lock("fair", name, "c")
	holder.lock(t, forever)
	granted := first.waits(t, w.nodeOf(name), forever)
	grantedLast := last.send("lock", forever)
	w.awaitHearing(t, name, w.awaitPlaces(t, name, 2))
	holder.unlock(t)
	value(t, granted)
	pending(t, grantedLast)
	first.unlock(t)
	value(t, grantedLast)
	last.unlock(t)
}

// interruptedAlone shows that an interrupted thread keeps its place in the queue of a fair lock. It is the only one who
// can get the free lock, for 5 minutes and the lease that it saw.
func interruptedAlone(t *testing.T, w *world, java *process) {
	const name = "orders/counter"
	redis := w.nodeOf(name)
	a, b, c := java.lock("fair", name, "a"), java.lock("fair", name, "b"), java.lock("fair", name, "c")
	a.lock(t, forever)
	waiting := b.object.waits(t, redis, "pttl", "lockInterruptibly", forever)
	java.do(t, "b", "interrupt")
	if got := receive(t, waiting); got.err == nil {
		t.Error("an interrupted thread was granted the lock")
	}
	a.unlock(t)
	want(t, "tryLock of the free lock", c.tryLock(t, 0, forever), false)
	want(t, "tryLock of the first in the queue", b.tryLock(t, 0, forever), true)
	b.unlock(t)
}
