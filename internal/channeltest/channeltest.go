// Package channeltest has what the locks of package channelapi promise, whoever grants them: an agent in the process or
// a daemon. The tests run in real time, and wait for nothing that takes long.
package channeltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

// Opener opens locks of one store, for a test. The test does not have to close them.
type Opener func(t *testing.T) *channelapi.Locks

// Run runs the tests. share returns an Opener for a store of its own.
func Run(t *testing.T, share func(t *testing.T) Opener) {
	for _, test := range []struct {
		name string
		run  func(s *suite)
	}{
		{"a grant is a hold until its release", (*suite).grants},
		{"a request that does not wait is told of the holder", (*suite).tries},
		{"a wait ends", (*suite).waits},
		{"each request that waits has a wait of its own", (*suite).boundsWaits},
		{"a release hands the lock to the next", (*suite).handsOver},
		{"nobody gets a grant that the caller left", (*suite).leaves},
		{"wrong names and options are errors", (*suite).refuses},
		{"a session re-enters", (*suite).reenters},
		{"the holds of a session have one lease", (*suite).sharesLease},
		{"a closed session has nothing", (*suite).closesSessions},
		{"readers share, and a writer is alone", (*suite).reads},
		{"each kind of lock is granted", (*suite).kinds},
		{"a name is of one kind", (*suite).mistakesKinds},
		{"a fixed lease runs out, unless it is extended", (*suite).leases},
		{"a holder learns that others want its lock", (*suite).wants},
		{"a broken lock is lost", (*suite).breaks},
		{"a semaphore counts", (*suite).counts},
		{"permits have ids", (*suite).identifies},
		{"a latch opens", (*suite).latches},
		{"First, All and Turns", (*suite).combines},
		{"closed locks hold nothing", (*suite).closes},
		{"holders leave in a shutdown", (*suite).shutsDown},
		{"a hold that outlives its locks stays, however it began", (*suite).outlives},
		{"one holder at a time", (*suite).excludes},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			open := share(t)
			test.run(&suite{t, open, open(t), open(t), waittest.Context(t)})
		})
	}
}

// suite is one test.
type suite struct {
	*testing.T
	open Opener
	a, b *channelapi.Locks
	ctx  context.Context
}

const name = "orders/42"

func (s *suite) hold(l channelapi.AnyLock) channelapi.Grant {
	s.Helper()
	g, err := l.Acquire(s.ctx)
	if err != nil {
		s.Fatalf("Acquire: %v", err)
	}
	return g
}

func (s *suite) ok(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

func (s *suite) want(what string, err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("%s: %v, want %v", what, err, want)
	}
}

// lost waits until a hold is lost, and checks how.
func (s *suite) lost(g channelapi.Grant, why channelapi.LossReason) {
	s.Helper()
	waittest.Receive(s, "the end of the hold", g.Done())
	for what, err := range map[string]error{"Cause": g.Cause(), "Release": g.Release(s.ctx)} {
		e, ok := errors.AsType[*channelapi.LostError](err)
		if !ok || e.Reason != why || e.Name != g.Name() || e.Owner != g.Owner() || e.Token != g.Token() {
			s.Errorf(
				"%s: %v, want a loss of %q by %q with token %d, reason %v", what, err, g.Name(), g.Owner(), g.Token(),
				why,
			)
		}
	}
	if g.Held() {
		s.Error("a lost grant is held")
	}
}

// queued waits until n requests of the locks wait.
func (s *suite) queued(l *channelapi.Locks, n int) {
	s.Helper()
	waittest.Until(s, fmt.Sprint("so many requests wait: ", n), func() bool {
		st, err := l.Lock(name).Status(s.ctx)
		s.ok("Status", err)
		return st.Waiters == n
	})
}

func (s *suite) grants() {
	g := s.hold(s.a.Lock(name))
	if !g.Held() || g.Token() == 0 || g.Name() != name || g.Owner() == "" || g.HoldCount() != 1 || g.Remaining() <= 0 ||
		g.Cause() != nil {
		s.Errorf("not what was asked for: %+v", g)
	}
	st, err := s.a.Lock(name).Status(s.ctx)
	s.ok("Status", err)
	if !st.Locked || !st.HeldBy(g.Owner()) || st.Token != g.Token() || st.HoldCount != 1 || st.Remaining <= 0 ||
		st.Holder == "" {
		s.Errorf("Status of the holder's locks: %+v", st)
	}
	under := g.Context(s.ctx)
	s.ok("Release", g.Release(s.ctx))
	<-under.Done()
	s.want("the cause of the context", context.Cause(under), channelapi.ErrReleased)
	s.want("Cause", g.Cause(), channelapi.ErrReleased)
	s.want("second Release", g.Release(s.ctx), channelapi.ErrNotHeld)
	if st, err = s.b.Lock(name).Status(s.ctx); err != nil || st.Locked {
		s.Errorf("Status after the release: %+v, %v", st, err)
	}
	later := s.hold(s.b.Lock(name))
	if later.Token() <= g.Token() {
		s.Errorf("token %d after %d", later.Token(), g.Token())
	}
	s.ok("Release", later.Release(s.ctx))
}

func (s *suite) tries() {
	g := s.hold(s.a.Lock(name))
	for _, l := range []*channelapi.Locks{s.a, s.b} {
		_, err := l.Lock(name).TryAcquire(s.ctx)
		e, ok := errors.AsType[*channelapi.HeldError](err)
		if !ok || e.Name != name || e.Holder == "" {
			s.Errorf("TryAcquire: %v", err)
		}
		if l == s.a && ok && e.Holder != string(g.Owner()) {
			s.Errorf("the holder is %q, want %q", e.Holder, g.Owner())
		}
	}
	s.ok("Release", g.Release(s.ctx))
	g, err := s.b.Lock(name).TryAcquire(s.ctx)
	s.ok("TryAcquire of a free lock", err)
	s.ok("Release", g.Release(s.ctx))
}

var errChanged = errors.New("changed my mind")

func (s *suite) waits() {
	g := s.hold(s.a.Lock(name))
	_, err := s.b.Lock(name, channelapi.Wait(time.Millisecond)).Acquire(s.ctx)
	e, ok := errors.AsType[*channelapi.WaitError](err)
	if !ok || !e.TimedOut || e.Name != name || e.Waited <= 0 || e.Silent != 0 {
		s.Errorf("Acquire with a wait that passes: %#v", err)
	}
	s.want("it", err, channelapi.ErrTimeout)
	s.want("it", err, context.DeadlineExceeded)

	ctx, cancel := context.WithCancelCause(s.ctx)
	waiting := s.b.Lock(name).AcquireAsync(ctx)
	s.queued(s.b, 1)
	cancel(errChanged)
	err = (<-waiting).Err()
	s.want("a request whose context ended", err, errChanged)
	if e, ok := errors.AsType[*channelapi.WaitError](err); !ok || e.TimedOut {
		s.Errorf("it is %#v", err)
	}
	if _, err := s.b.Lock(name).Acquire(ctx); !errors.Is(err, errChanged) {
		s.Errorf("a context that had ended: %v", err)
	}
	_, err = s.b.Lock(name, channelapi.Wait(-1)).Acquire(s.ctx)
	s.want("a wait that has passed", err, channelapi.ErrTimeout)
	s.ok("Release", g.Release(s.ctx))
	s.ok("Release", s.hold(s.b.Lock(name)).Release(s.ctx))
}

func (s *suite) handsOver() {
	g := s.hold(s.a.Lock(name))
	waiting := s.b.Lock(name).AcquireAsync(s.ctx)
	if cap(waiting) != 1 {
		s.Errorf("the channel has capacity %d", cap(waiting))
	}
	s.queued(s.b, 1)
	s.ok("Release", g.Release(s.ctx))
	next := <-waiting
	s.ok("the next grant", next.Err())
	if next.Token() <= g.Token() {
		s.Errorf("token %d after %d", next.Token(), g.Token())
	}
	if _, open := <-waiting; open {
		s.Error("the channel is open")
	}
	s.ok("Release", next.Release(s.ctx))
}

func (s *suite) leaves() {
	ctx, cancel := context.WithCancel(s.ctx)
	lying := s.a.Lock(name).AcquireAsync(ctx)
	waittest.Until(s, "the grant lies in its channel", func() bool { return len(lying) > 0 })
	next := s.b.Lock(name).AcquireAsync(s.ctx)
	cancel()
	g := <-next
	s.ok("the next grant", g.Err())
	left, open := <-lying
	if open || left.Held() {
		s.Error("the grant that was left is in its channel")
	}
	s.ok("Release", g.Release(s.ctx))
}

func (s *suite) refuses() {
	for what, want := range map[string]struct {
		lock channelapi.AnyLock
		err  error
	}{
		"an empty name":           {s.a.Lock(""), channelapi.ErrBadName},
		"braces":                  {s.a.Lock("a}b"), channelapi.ErrBadName},
		"a lease of 0":            {s.a.Lock(name, channelapi.Lease(0)), channelapi.ErrBadOption},
		"Outlive without Lease":   {s.a.Lock(name, channelapi.Outlive()), channelapi.ErrBadOption},
		"Try and Wait":            {s.a.Lock(name, channelapi.Try(), channelapi.Wait(1)), channelapi.ErrBadOption},
		"NoReentry of no session": {s.a.Lock(name, channelapi.NoReentry()), channelapi.ErrBadOption},
	} {
		_, err := want.lock.Acquire(s.ctx)
		s.want(what, err, want.err)
	}
	_, err := s.a.Permits(name).Acquire(s.ctx, 1_000_000)
	s.want("too many permits", err, channelapi.ErrBadOption)
	_, err = s.a.Lock("").Status(s.ctx)
	s.want("Status of no name", err, channelapi.ErrBadName)
}

func (s *suite) session(l *channelapi.Locks, owner string) *channelapi.Session {
	s.Helper()
	session, err := l.Session(owner)
	s.ok("Session", err)
	return session
}

func (s *suite) reenters() {
	alice, other := s.session(s.a, "alice"), s.session(s.b, "alice")
	l := alice.Lock(name)
	first, second := s.hold(l), s.hold(l)
	if second.HoldCount() != 2 || second.Token() != first.Token() || second.Owner() != "alice" || !alice.Holds(name) {
		s.Errorf("not a re-entry: %+v after %+v", second, first)
	}
	_, err := alice.Lock(name, channelapi.NoReentry()).Acquire(s.ctx)
	s.want("a request that is no re-entry", err, channelapi.ErrReentry)
	_, err = other.Lock(name).TryAcquire(s.ctx)
	s.want("a session of the same name elsewhere", err, channelapi.ErrHeld)
	_, err = s.session(s.a, "bob").Lock(name).TryAcquire(s.ctx)
	s.want("another session", err, channelapi.ErrHeld)
	s.want("the release of another session", s.session(s.a, "carol").Lock(name).Release(s.ctx), channelapi.ErrNotOwner)
	s.ok("Release", l.Release(s.ctx))
	if !first.Held() || second.Held() {
		s.Error("the release did not end the youngest grant")
	}
	s.ok("Release", l.Release(s.ctx))
	s.want("a third release", l.Release(s.ctx), channelapi.ErrNotHeld)
	s.ok("Release", s.hold(other.Lock(name)).Release(s.ctx))
}

func (s *suite) closesSessions() {
	alice, bob := s.session(s.a, "alice"), s.session(s.a, "bob")
	g := s.hold(alice.Lock(name))
	waiting := bob.Lock(name).AcquireAsync(s.ctx)
	s.queued(s.a, 1)
	s.ok("Close of the waiter", bob.Close(s.ctx))
	s.want("its request", (<-waiting).Err(), channelapi.ErrSessionClosed)
	s.ok("Close of the holder", alice.Close(s.ctx))
	s.lost(g, channelapi.LostSessionClosed)
	_, err := alice.Lock(name).Acquire(s.ctx)
	s.want("Acquire after Close", err, channelapi.ErrSessionClosed)
	s.ok("Release", s.hold(s.b.Lock(name)).Release(s.ctx))
}

func (s *suite) reads() {
	r1, r2 := s.hold(s.a.ReadLock(name)), s.hold(s.b.ReadLock(name))
	_, err := s.a.WriteLock(name, channelapi.Try()).Acquire(s.ctx)
	s.want("a writer beside readers", err, channelapi.ErrHeld)
	s.ok("Release", r1.Release(s.ctx))
	s.ok("Release", r2.Release(s.ctx))
	alice := s.session(s.a, "alice")
	w := s.hold(alice.WriteLock(name))
	r := s.hold(alice.ReadLock(name))
	s.ok("Release of the write lock", alice.WriteLock(name).Release(s.ctx))
	if w.Held() || !r.Held() {
		s.Error("the downgrade did not leave the read lock")
	}
	s.ok("Release", s.hold(s.b.ReadLock(name)).Release(s.ctx))
	_, err = alice.WriteLock(name).Acquire(s.ctx)
	s.want("an upgrade", err, channelapi.ErrUpgrade)
	s.ok("Release", alice.ReadLock(name).Release(s.ctx))
}

func (s *suite) kinds() {
	for what, l := range map[string]channelapi.AnyLock{
		"fair": s.a.FairLock("fair"), "fenced": s.a.FencedLock("fenced"), "spin": s.a.SpinLock("spin"),
		"fair session": s.session(s.a, "alice").FairLock("fair2"),
	} {
		g := s.hold(l)
		if !g.Held() || g.Token() == 0 {
			s.Errorf("%s: %+v", what, g)
		}
		s.ok(what, g.Release(s.ctx))
	}
}

func (s *suite) mistakesKinds() {
	g := s.hold(s.a.FencedLock(name))
	_, err := s.a.FairLock(name).TryAcquire(s.ctx)
	e, ok := errors.AsType[*channelapi.KindError](err)
	if !ok || e.Name != name {
		s.Errorf("a name of another kind: %v", err)
	}
	s.ok("Release", g.Release(s.ctx))
}

func (s *suite) breaks() {
	g := s.hold(s.a.Lock(name))
	held, err := s.b.Lock(name).Break(s.ctx, "ops")
	s.ok("Break", err)
	if !held {
		s.Error("nobody held the lock")
	}
	<-g.Done()
	if e, ok := errors.AsType[*channelapi.LostError](g.Cause()); !ok || e.Reason != channelapi.LostBroken {
		s.Errorf("the cause is %v", g.Cause())
	}
	if held, err = s.b.Lock(name).Break(s.ctx, ""); err != nil || held {
		s.Errorf("Break of a free lock: %v, %v", held, err)
	}
}

func (s *suite) counts() {
	sem := s.a.Semaphore(name)
	_, err := sem.TryAcquire(s.ctx, 1)
	s.want("permits that nobody has set", err, channelapi.ErrHeld)
	if set, err := sem.TrySetPermits(s.ctx, 3); err != nil || !set {
		s.Fatalf("TrySetPermits: %v, %v", set, err)
	}
	if set, err := s.b.Semaphore(name).TrySetPermits(s.ctx, 5); err != nil || set {
		s.Fatalf("the second TrySetPermits: %v, %v", set, err)
	}
	g, err := sem.Acquire(s.ctx, 2)
	s.ok("Acquire", err)
	_, err = s.b.Semaphore(name).TryAcquire(s.ctx, 2)
	if e, ok := errors.AsType[*channelapi.HeldError](err); !ok || e.Permits != 2 {
		s.Errorf("too few permits: %v", err)
	}
	if st, err := s.b.Semaphore(name).Status(s.ctx); err != nil ||
		st != (channelapi.PermitsStatus{Exists: true, Free: 1, Taken: 2}) {
		s.Errorf("Status: %+v, %v", st, err)
	}
	if free, err := sem.AddPermits(s.ctx, -1); err != nil || free != 0 {
		s.Errorf("AddPermits: %d, %v", free, err)
	}
	s.ok("Release", g.Release(s.ctx))
	if n, err := sem.Drain(s.ctx); err != nil || n != 2 {
		s.Errorf("Drain: %d, %v", n, err)
	}
	if was, err := sem.Delete(s.ctx); err != nil || !was {
		s.Errorf("Delete: %v, %v", was, err)
	}
}

func (s *suite) identifies() {
	p := s.a.Permits(name)
	if _, err := p.TrySetPermits(s.ctx, 2); err != nil {
		s.Fatal(err)
	}
	g, err := p.Acquire(s.ctx, 2)
	s.ok("Acquire", err)
	ids := g.PermitIDs()
	if len(ids) != 2 || ids[0] == ids[1] {
		s.Fatalf("the ids are %q", ids)
	}
	s.ok("ReleaseID", s.b.Permits(name).ReleaseID(s.ctx, ids[0]))
	s.want("ReleaseID again", s.b.Permits(name).ReleaseID(s.ctx, ids[0]), channelapi.ErrNoPermit)
	s.ok("SetPermits", p.SetPermits(s.ctx, 7))
	if st, err := p.Status(s.ctx); err != nil || st.Total() != 7 {
		s.Errorf("Status: %+v, %v", st, err)
	}
}

func (s *suite) latches() {
	l, other := s.a.Latch(name), s.b.Latch(name)
	s.ok("Await of an open latch", l.Await(s.ctx))
	s.ok("Set", l.Set(s.ctx, 2))
	s.want("Set again", other.Set(s.ctx, 2), channelapi.ErrLatchSet)
	waiting := other.AwaitAsync(s.ctx)
	ctx, cancel := context.WithCancelCause(s.ctx)
	leaving := other.AwaitAsync(ctx)
	cancel(errChanged)
	err := <-leaving
	s.want("a wait whose context ended", err, errChanged)
	for want := int64(1); want >= 0; want-- {
		if left, err := l.CountDown(s.ctx); err != nil || left != want {
			s.Errorf("CountDown: %d, %v", left, err)
		}
	}
	s.ok("Await", <-waiting)
	_, err = l.CountDown(s.ctx)
	s.want("CountDown of an open latch", err, channelapi.ErrNoLatch)
	if n, err := l.Count(s.ctx); err != nil || n != 0 {
		s.Errorf("Count: %d, %v", n, err)
	}
	if was, err := l.Delete(s.ctx); err != nil || was {
		s.Errorf("Delete: %v, %v", was, err)
	}
}

func (s *suite) combines() {
	taken := s.hold(s.b.Lock("a"))
	g, err := channelapi.First(s.ctx, s.a.Lock("a"), s.a.Lock("b"))
	s.ok("First", err)
	if g.Name() != "b" {
		s.Errorf("First was granted %q", g.Name())
	}
	s.ok("Release", g.Release(s.ctx))
	all := channelapi.AllAsync(s.ctx, s.a.Lock("c"), s.b.Lock("b"), s.a.Lock("a"))
	s.ok("Release", taken.Release(s.ctx))
	grants := <-all
	s.ok("All", grants.Err())
	for _, g := range grants.List() {
		s.ok("Release", g.Release(s.ctx))
	}
	_, err = channelapi.All(s.ctx, s.a.Lock("b"), s.a.Lock("a", channelapi.Wait(-1)))
	s.want("All with a wait that has passed", err, channelapi.ErrTimeout)
	_, err = channelapi.All(s.ctx, s.a.Lock("a"), s.b.Lock("a"))
	s.want("All with one lock twice", err, channelapi.ErrBadOption)
	ctx, cancel := context.WithCancel(s.ctx)
	turns := s.a.Lock(name).Turns(ctx)
	last := channelapi.Token(0)
	for range 3 {
		g := <-turns
		s.ok("a turn", g.Err())
		if g.Token() <= last {
			s.Errorf("token %d after %d", g.Token(), last)
		}
		last = g.Token()
		s.ok("Release", g.Release(s.ctx))
	}
	cancel()
	for g := range turns { // the next one may have come already
		g.ReleaseAsync(s.ctx)
	}
	l := s.a.Lock(name).Locker(s.ctx)
	l.Lock()
	if _, err := s.b.Lock(name).TryAcquire(s.ctx); err == nil {
		s.Error("the lock of a Locker is free")
	}
	l.Unlock()
	s.ok("Release", s.hold(s.b.Lock(name)).Release(s.ctx)) // without Unlock it would wait for ever
}

func (s *suite) closes() {
	locks := s.open(s.T)
	session := s.session(locks, "alice")
	g := s.hold(locks.Lock(name))
	waiting := session.Lock(name).AcquireAsync(s.ctx)
	s.queued(locks, 1)
	s.ok("Close", locks.Close())
	s.want("the request that waited", (<-waiting).Err(), channelapi.ErrClosed)
	s.lost(g, channelapi.LostClosed)
	_, err := locks.Lock(name).Acquire(s.ctx)
	s.want("Acquire after Close", err, channelapi.ErrClosed)
	_, err = locks.Session("bob")
	s.want("Session after Close", err, channelapi.ErrClosed)
	<-session.Done()
	s.ok("a second Close", locks.Close())
	s.ok("Release", s.hold(s.b.Lock(name)).Release(s.ctx))
}

func (s *suite) shutsDown() {
	locks := s.open(s.T)
	g := s.hold(locks.Lock(name))
	done := make(chan error, 1)
	waiting := locks.Lock(name).AcquireAsync(s.ctx)
	go func() { done <- locks.Shutdown(s.ctx) }()
	s.want("the request that waited", (<-waiting).Err(), channelapi.ErrClosed)
	if !g.Held() {
		s.Error("the shutdown took the lock")
	}
	s.ok("Release", g.Release(s.ctx))
	s.ok("Shutdown", <-done)

	locks = s.open(s.T)
	g = s.hold(locks.Lock(name))
	ctx, cancel := context.WithCancelCause(s.ctx)
	cancel(errChanged)
	s.want("Shutdown that does not wait", locks.Shutdown(ctx), errChanged)
	s.lost(g, channelapi.LostClosed)
}

func (s *suite) excludes() {
	const each, rounds = 4, 20
	inside, last, total := 0, channelapi.Token(0), 0
	var wg sync.WaitGroup
	for _, locks := range []*channelapi.Locks{s.a, s.b} {
		for range each {
			wg.Go(func() {
				for range rounds {
					err := locks.Lock(name).Do(s.ctx, func(_ context.Context, g channelapi.Grant) error {
						inside++ // the race detector and the tokens tell whether somebody else is inside
						if inside != 1 || g.Token() <= last {
							s.Errorf("%d are inside, token %d after %d", inside, g.Token(), last)
						}
						last = g.Token()
						total++
						inside--
						return nil
					})
					if err != nil {
						s.Errorf("Do: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	if want := 2 * each * rounds; total != want {
		s.Errorf("%d rounds, want %d", total, want)
	}
}
