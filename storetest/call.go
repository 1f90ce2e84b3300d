package storetest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
)

// Patience is how long the blocking calls of this package wait for a reply, a wake-up or a
// state before they fail the test. A sound store never takes that long.
const Patience = 30 * time.Second

// ErrUnanswered is returned by a blocking call that had no answer within [Patience]. The test
// has failed then.
var ErrUnanswered = errors.New("storetest: the store did not answer")

var errNoLayer = errors.New("storetest: the store does not have the layer of this call")

// TB is the part of a test that the blocking calls need. *testing.T and *rapid.T have it.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Acquire calls [lockagent.Store.Acquire] and waits for the reply. It may be
// called from any goroutine of the test.
func Acquire(t TB, s lockagent.Store, req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
	t.Helper()
	return startAcquire(t, s, req).await()
}

// Renew calls [lockagent.Store.Renew] and waits for the reply. It may be called
// from any goroutine of the test.
func Renew(t TB, s lockagent.Store, req lockagent.RenewRequest) (lockagent.RenewReply, error) {
	t.Helper()
	return startRenew(t, s, req).await()
}

// Release calls [lockagent.Store.Release] and waits for the reply. It may be
// called from any goroutine of the test.
func Release(t TB, s lockagent.Store, req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
	t.Helper()
	return startRelease(t, s, req).await()
}

// Break calls [lockagent.Operator].Break for a plain lock and no operator, and waits for the reply. It may
// be called from any goroutine of the test.
func Break(t TB, s lockagent.Store, name lockagent.Name) (bool, error) {
	t.Helper()
	return breakLock(t, s, lockagent.BreakRequest{Name: name})
}

func breakLock(t TB, s lockagent.Store, req lockagent.BreakRequest) (bool, error) {
	t.Helper()
	reply, err := startBreak(t, s, req).await()
	return reply.Broken, err
}

// Inspect calls [lockagent.Operator].Inspect for a plain lock and waits for the reply. If the store has no Operator,
// Inspect tries to acquire the lock, and gives it back. It may be called from any goroutine of the test.
func Inspect(t TB, s lockagent.Store, name lockagent.Name) (lockagent.Inspection, error) {
	t.Helper()
	return inspect(t, s, name, lockagent.PlainLock)
}

func inspect(t TB, s lockagent.Store, name lockagent.Name, kind lockagent.LockKind) (lockagent.Inspection, error) {
	t.Helper()
	return startInspect(t, s, name, kind).await()
}

// Time calls [lockagent.History].Time and waits for the reply. It may be called from any goroutine
// of the test.
func Time(t TB, s lockagent.Store) (lockagent.StoreTime, error) {
	t.Helper()
	return startTime(t, s).await()
}

// awaitFree waits until a lock is free, for example because its lease has run out. It reports whether the lock became
// free; if not, the test has failed.
func awaitFree(t TB, s lockagent.Store, name lockagent.Name, kind lockagent.LockKind) bool {
	t.Helper()
	var seen lockagent.Inspection
	var err error
	free := poll(func() (again time.Duration, done bool) {
		seen, err = inspect(t, s, name, kind)
		return seen.Remaining, err != nil || !seen.Held
	})
	switch {
	case err != nil:
		t.Errorf("Inspect(%q): %v", name, err)
		return false
	case !free:
		t.Errorf("lock %q is still held by %q, %v after it was waited for", name, seen.Holder, Patience)
	}
	return free
}

// poll asks a store until that is done, and reports false if it is not after [Patience]. The store's answer
// says when to ask again. To ask all the time would keep the virtual time of a bubble from passing, and keep
// a server busy. So poll asks less and less often.
func poll(ask func() (again time.Duration, done bool)) bool {
	overdue := time.NewTimer(Patience)
	defer overdue.Stop()
	for least := time.Millisecond; ; least += time.Millisecond {
		wait, done := ask()
		if done {
			return true
		}
		again := time.NewTimer(max(wait, least))
		select {
		case <-again.C:
		case <-overdue.C:
			again.Stop()
			return false
		}
	}
}

// call is one call of a store, under way or answered.
type call[R any] struct {
	t       TB
	what    string
	answers chan answer[R]
	count   atomic.Int32
}

type answer[R any] struct {
	reply R
	err   error
}

// start makes a call. do passes done to the store, which has to call it once.
func start[R any](t TB, what string, do func(done func(R, error))) *call[R] {
	c := &call[R]{t: t, what: what, answers: make(chan answer[R], 1)}
	do(c.done)
	return c
}

func (c *call[R]) done(reply R, err error) {
	if n := c.count.Add(1); n > 1 {
		c.t.Errorf("%s: done was called %d times", c.what, n)
		return
	}
	c.answers <- answer[R]{reply, err}
}

// await waits for the answer. It is called once.
func (c *call[R]) await() (R, error) {
	c.t.Helper()
	overdue := time.NewTimer(Patience)
	defer overdue.Stop()
	select {
	case a := <-c.answers:
		return a.reply, a.err
	case <-overdue.C:
		c.t.Errorf("%s: done was not called within %v", c.what, Patience)
		var none R
		return none, ErrUnanswered
	}
}

func startAcquire(t TB, s lockagent.Store, req lockagent.AcquireRequest) *call[lockagent.AcquireReply] {
	return start(t, "Acquire",
		func(done func(lockagent.AcquireReply, error)) { s.Acquire(context.Background(), req, done) })
}

func startRenew(t TB, s lockagent.Store, req lockagent.RenewRequest) *call[lockagent.RenewReply] {
	return start(t, "Renew", func(done func(lockagent.RenewReply, error)) { s.Renew(context.Background(), req, done) })
}

func startRelease(t TB, s lockagent.Store, req lockagent.ReleaseRequest) *call[lockagent.ReleaseReply] {
	return start(t, "Release",
		func(done func(lockagent.ReleaseReply, error)) { s.Release(context.Background(), req, done) })
}

func startBreak(t TB, s lockagent.Store, req lockagent.BreakRequest) *call[lockagent.BreakReply] {
	return start(t, "Break", func(done func(lockagent.BreakReply, error)) {
		if operator, ok := lockagent.Layer[lockagent.Operator](s); ok {
			operator.Break(context.Background(), req, done)
			return
		}
		done(lockagent.BreakReply{}, errNoLayer)
	})
}

func startInspect(t TB, s lockagent.Store, name lockagent.Name, kind lockagent.LockKind) *call[lockagent.Inspection] {
	return start(t, "Inspect", func(done func(lockagent.Inspection, error)) {
		if operator, ok := lockagent.Layer[lockagent.Operator](s); ok {
			operator.Inspect(context.Background(), name, kind, done)
			return
		}
		probe(s, name, kind, done)
	})
}

// probe is Inspect for a store without an Operator. It tries to acquire the lock, and gives it back.
func probe(s lockagent.Store, name lockagent.Name, kind lockagent.LockKind, done func(lockagent.Inspection, error)) {
	ctx, tenure := context.Background(), lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}
	req := lockagent.AcquireRequest{Name: name, Kind: kind, Tenure: tenure, Lease: time.Minute}
	s.Acquire(ctx, req, func(r lockagent.AcquireReply, err error) {
		if err != nil || !r.Granted {
			done(lockagent.Inspection{Held: err == nil, Holder: r.Holder, HoldCount: 1, Remaining: r.Remaining}, err)
			return
		}
		ending := lockagent.ReleaseRequest{Name: name, Kind: kind, Tenure: tenure, Last: r.Token}
		s.Release(ctx, ending, func(_ lockagent.ReleaseReply, err error) { done(lockagent.Inspection{}, err) })
	})
}

func startTime(t TB, s lockagent.Store) *call[lockagent.StoreTime] {
	return start(t, "Time", func(done func(lockagent.StoreTime, error)) {
		if history, ok := lockagent.Layer[lockagent.History](s); ok {
			history.Time(context.Background(), done)
			return
		}
		done(0, errNoLayer)
	})
}
