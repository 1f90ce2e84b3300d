package actor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/saved"
	"github.com/lockagent/lockagent/memstore"
)

// leaving is [start] for an agent that another process is to go on with.
func leaving(t testing.TB, cfg Config) *Agent {
	t.Helper()
	cfg.Journal = newChronicle()
	return start(t, cfg)
}

// detached detaches an agent, and returns what its journal has.
func detached(t testing.TB, a *Agent) saved.Agent {
	t.Helper()
	done := make(chan bool, 1)
	go func() { a.Detach(); done <- true }()
	await(t, "detach", done)
	k := a.cfg.Journal.(*chronicle)
	k.flush()
	return k.leaves(t)
}

// resuming is [start] for an agent that goes on. It has a journal, so that yet another process can go on with it.
func resuming(t testing.TB, cfg Config, n saved.Agent) *Agent {
	t.Helper()
	if cfg.Journal == nil {
		cfg.Journal = newChronicle()
	}
	a, err := Resume(cfg, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// claimed claims the one grant of a lock that an agent has resumed.
func claimed(t testing.TB, a *Agent, name lockagent.Name) lockagent.Grant {
	t.Helper()
	for _, r := range a.Resumed() {
		if r.Name == name {
			g := granted(t, r.Grant)
			if g.Name() != r.Name || g.Owner() != r.Owner || g.Token() != r.Token {
				t.Errorf("claimed %v, listed %v", g, r)
			}
			exhausted(t, r.Grant)
			return g
		}
	}
	t.Fatalf("%q was not resumed", name)
	panic("unreachable")
}

// startedWith keeps the count of the start of an agent.
type startedWith int

func (s *startedWith) Record(_ context.Context, e lockagent.Event) {
	if e.Kind == lockagent.EventAgentStarted {
		*s = startedWith(e.Count)
	}
}

// Holds go on in another process, with the same tokens, while another agent waits.
func TestDetachAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newTap(store.Share())
		a, b := leaving(t, Config{Store: s}), start(t, Config{Store: store})
		kept := granted(t, a.Acquire(background, "kept", who("ann")))
		fixed := granted(t, a.Acquire(background, "fixed", Request{Owner: "bob", Lease: time.Hour}))
		outer := granted(t, a.Acquire(background, "session", Request{
			Owner: "eve", Session: true, Lease: 2 * time.Hour,
		}))
		inner := granted(t, a.Acquire(background, "session", Request{Owner: "eve", Session: true, Lease: time.Hour}))
		local, timed := a.Acquire(background, "kept", who("local")), locking(background, a, "fixed", Request{
			Owner: "late", Wait: time.Hour,
		})
		names := []lockagent.Name{"kept", "fixed", "session"}
		var far []<-chan lockagent.Grant
		for _, name := range names {
			far = append(far, b.Acquire(background, name, who("far")))
		}
		time.Sleep(5*time.Minute + time.Second)
		calls := s.count("")
		n := detached(t, a)
		refused(t, local, lockagent.ErrClosed)
		refused(t, timed, lockagent.ErrClosed)
		for _, g := range []lockagent.Grant{kept, fixed, outer, inner} {
			lostBecause(t, g.Cause(), lockagent.LostClosed)
			lostBecause(t, g.Release(background), lockagent.LostClosed)
		}
		closed(t, a)
		if s.count("") != calls || a.entries() != 0 || s.subscriptions() != 0 {
			t.Errorf("calls %s, %d actors, %d subscriptions", s.kinds(), a.entries(), s.subscriptions())
		}
		time.Sleep(10 * time.Second)

		var goesOn startedWith
		next := resuming(t, Config{Store: store.Share(), Recorder: &goesOn}, n)
		if goesOn != 3 {
			t.Errorf("it tells that it goes on with %d holds", goesOn)
		}
		if next.ID() != a.ID() || next.fresh.Load() < n.Last || len(next.Resumed()) != 6 {
			t.Errorf("agent %v from %d with %+v", next.ID(), next.fresh.Load(), next.Resumed())
		}
		for owner, name := range map[lockagent.Owner]lockagent.Name{"local": "kept", "late": "fixed"} {
			waits := resumedOf(t, next, owner)
			if err := await(t, "leave", next.Leave(background, name, owner)); err != nil || !waits.Waits {
				t.Errorf("%+v: %v", waits, err)
			}
			refused(t, waits.Grant, lockagent.ErrSessionClosed)
		}
		nextKept, nextFixed := claimed(t, next, "kept"), claimed(t, next, "fixed")
		if nextKept.Token() != kept.Token() || nextFixed.Token() != fixed.Token() {
			t.Errorf(
				"tokens %d and %d, want %d and %d", nextKept.Token(), nextFixed.Token(), kept.Token(), fixed.Token(),
			)
		}
		if left := nextFixed.Remaining(); left > 55*time.Minute-10*time.Second || left < 52*time.Minute {
			t.Errorf("%v of the fixed lease are left", left)
		}
		for i, r := range next.Resumed()[4:] {
			g := granted(t, r.Grant)
			if !r.Session || g.Token() != outer.Token() || g.HoldCount() != i+1 {
				t.Errorf("resumed %+v with count %d", r, g.HoldCount())
			}
			// Of the two hours of the session.
			if left := g.Remaining(); left > 115*time.Minute || left < 114*time.Minute {
				t.Errorf("%v are left of a lease of %v", left, r.Lease)
			}
		}
		time.Sleep(5 * time.Minute)
		for _, c := range far {
			silent(t, "far", c)
		}
		if !nextKept.Held() || !nextFixed.Held() {
			t.Errorf("lost: %v, %v", nextKept.Cause(), nextFixed.Cause())
		}
		released(t, nextKept)
		if err := await(t, "extension", nextFixed.ExtendAsync(background, 2*time.Hour)); err != nil ||
			nextFixed.Remaining() < time.Hour {
			t.Errorf("extended by %v: %v", nextFixed.Remaining(), err)
		}
		released(t, nextFixed)
		for range 2 {
			if err := await(t, "release", next.Release(background, "session", "eve")); err != nil {
				t.Error(err)
			}
		}
		for i, token := range []lockagent.Token{kept.Token(), fixed.Token(), outer.Token()} {
			g := granted(t, far[i])
			if g.Token() <= token {
				t.Errorf("token %d after %d", g.Token(), token)
			}
			released(t, g)
		}
		closed(t, next)
	})
}

// An agent goes on twice.
func TestDetachTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := leaving(t, Config{Store: store.Share()})
		granted(t, a.Acquire(background, "door", Request{Owner: "ann", Lease: time.Hour, Outlive: true}))
		n := detached(t, a)
		next := resuming(t, Config{Store: store.Share(), ID: a.ID()}, n)
		g := claimed(t, next, "door")
		again := detached(t, next)
		next.Detach() // there is nothing more to do
		held := again.Locks[0].Requests
		if len(held) != 1 || held[0].Token != g.Token() || !held[0].Outlive || again.Last < n.Last {
			t.Errorf("got  %+v\nfrom %+v", again, n)
		}
		last := resuming(t, Config{Store: store.Share()}, again)
		claimed(t, last, "door")
		closed(t, last)
		if !inspect(t, store, "door").Held {
			t.Error("the hold did not outlive its agent")
		}
	})
}

func TestDetachOfAnAgentThatIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := leaving(t, Config{Store: store.Share()})
		granted(t, a.Acquire(background, "door", who("ann")))
		closed(t, a)
		if n := detached(t, a); len(n.Locks) != 0 || inspect(t, store, "door").Held {
			t.Errorf("%+v", n)
		}
	})
}

// Holders who may finish while an agent shuts down are left to the next process.
func TestDetachDuringShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := leaving(t, Config{Store: store.Share()})
		granted(t, a.Acquire(background, "door", who("ann")))
		done := shuttingDown(background, a)
		synctest.Wait()
		n := detached(t, a)
		if err := await(t, "Shutdown", done); err != nil {
			t.Error(err)
		}
		released(t, claimed(t, resuming(t, Config{Store: store.Share()}, n), "door"))
	})
}

// A grant that nobody has received goes on as well. Nobody can receive it in this process any more.
func TestDetachTakesBackWhatNobodyReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := leaving(t, Config{Store: store.Share()})
		c := a.Acquire(background, "door", who("ann"))
		granted(t, a.Acquire(background, "gate", again("eve")))
		inner := a.Acquire(background, "gate", again("eve"))
		synctest.Wait()
		n := detached(t, a)
		exhausted(t, c)
		exhausted(t, inner)
		if !inspect(t, store, "door").Held {
			t.Error("it was given back by the old process")
		}
		next := resuming(t, Config{Store: store.Share()}, n)
		if r := next.Resumed(); len(r) != 3 {
			t.Errorf("resumed %+v", r)
		}
		for _, r := range next.Resumed() {
			released(t, granted(t, r.Grant))
		}
	})
}

// Whoever is late at an agent that was detached is told that it is closed, and the hold goes on.
func TestDetachedAgentDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newTap(store.Share())
		heard := 0
		s.news = func(hear func(lockagent.Message), m lockagent.Message) { heard++; hear(m) }
		a, b := leaving(t, Config{Store: s}), start(t, Config{Store: store})
		granted(t, a.Acquire(background, "door", again("ann")))
		granted(t, a.Acquire(background, "gate", who("eve")))
		var renewal *op
		s.on("renew", func(o *op) { // keeps one actor from leaving
			if o.name == "door" {
				renewal = o
				return
			}
			o.run()
		})
		time.Sleep(11 * time.Second)
		n := detached(t, a)
		if renewal == nil || a.entries() != 1 {
			t.Fatalf("%d actors are left", a.entries())
		}
		calls := s.count("")
		heard = 0
		far := b.Acquire(background, "gate", who("far")) // so that it is wanted
		synctest.Wait()
		if heard != 0 {
			t.Error("it listens still")
		}
		for _, name := range []lockagent.Name{"door", "gate"} {
			for i := range n.Locks {
				if n.Locks[i].Name == name {
					tenure := lockagent.Tenure{Agent: a.ID(), Number: n.Locks[i].Tenures[0].Number}
					a.hear(lockagent.Message{Kind: lockagent.MessageWanted, Name: name, Tenure: tenure})
					a.hear(lockagent.Message{Kind: lockagent.MessagePassed, Name: name, Tenure: tenure})
				}
			}
			refused(t, a.Acquire(background, name, again("ann")), lockagent.ErrClosed)
			if r := await(t, "break", a.Break(name, lockagent.PlainLock, "")); !errors.Is(r.Err, lockagent.ErrClosed) {
				t.Errorf("break %q: %+v", name, r)
			}
			for _, c := range []<-chan error{a.Release(background, name, "ann"), a.Leave(background, name, "ann")} {
				if err := await(t, "answer", c); !errors.Is(err, lockagent.ErrClosed) {
					t.Errorf("%q: %v", name, err)
				}
			}
		}
		a.hear(lockagent.Message{Kind: lockagent.MessagesMissed})
		time.Sleep(time.Second)
		if s.count("") != calls {
			t.Errorf("made calls: %s", s.kinds())
		}
		next := resuming(t, Config{Store: store.Share()}, n)
		door, gate := claimed(t, next, "door"), claimed(t, next, "gate")
		renewal.run() // late
		closed(t, a)
		time.Sleep(time.Minute)
		released(t, door)
		silent(t, "far", far)
		released(t, gate)
		released(t, granted(t, far))
	})
}
