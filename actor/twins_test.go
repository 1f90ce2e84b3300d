package actor

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// unaware is a tap on a store that does not tell its agent of twins.
func unaware(store *memstore.Store) *tap {
	s := newTap(store.Share())
	s.news = func(hear func(lockagent.Message), m lockagent.Message) {
		if m.Kind == lockagent.MessageTwin {
			m.Kind = lockagent.MessageAlone
		}
		hear(m)
	}
	return s
}

// twins starts two agents with one identity that nobody tells of each other: with an ID that both were given, or as
// when the state of an agent was copied.
func twins(t *testing.T, store *memstore.Store, copied bool) (one, two *Agent) {
	t.Helper()
	if !copied {
		id := lockagent.NewAgentID()
		return start(t, Config{Store: unaware(store), ID: id}), start(t, Config{Store: unaware(store), ID: id})
	}
	a := leaving(t, Config{Store: store.Share()})
	released(t, granted(t, a.Acquire(background, "door", who("ann"))))
	n := detached(t, a)
	return resuming(t, Config{Store: unaware(store)}, n), resuming(t, Config{Store: unaware(store)}, n)
}

// The store never takes the tenure of an agent for that of another one with the same identity. And neither agent ends
// the tenure of the other one as a ghost.
func TestTwinsShareNoLock(t *testing.T) {
	for what, copied := range map[string]bool{"one ID": false, "one state": true} {
		for _, kind := range []lockagent.LockKind{
			lockagent.PlainLock, lockagent.FairLock, lockagent.ReadWriteLock, lockagent.FencedLock, lockagent.SpinLock,
		} {
			t.Run(what+"/"+string(kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memstore.New()
					one, two := twins(t, store, copied)
					other := start(t, Config{Store: store.Share()})
					as := func(o lockagent.Owner, try bool) Request { return Request{Owner: o, Kind: kind, Try: try} }
					g := granted(t, one.Acquire(background, "door", as("ann", false)))
					refused(t, two.Acquire(background, "door", as("bob", true)), lockagent.ErrHeld)
					waits := two.Acquire(background, "door", as("cid", false))
					wants := other.Acquire(background, "door", as("dan", false))
					time.Sleep(time.Minute)
					silent(t, "whoever waits in the other twin", waits)
					silent(t, "whoever waits in another agent", wants)
					if g.Err() != nil {
						t.Errorf("the hold is over: %v", g.Err())
					}
					released(t, g)
					for range 2 {
						select {
						case g = <-waits:
							waits = nil
						case g = <-wants:
							wants = nil
						}
						if g.Err() != nil {
							t.Fatal(g.Err())
						}
						refused(t, one.Acquire(background, "door", as("eve", true)), lockagent.ErrHeld)
						released(t, g)
					}
				})
			})
		}
	}
}

// An agent leaves the tenure of a copy of its state alone, also if the copy's number is below those that the agent goes
// on from: the original has started more often since.
func TestTwinBelowTheLastNumber(t *testing.T) {
	for _, kind := range []lockagent.LockKind{lockagent.PlainLock, lockagent.FairLock} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				n := detached(t, leaving(t, Config{Store: store.Share()}))
				cut := store.Share()
				two := resuming(t, Config{Store: cut}, n)
				as := func(o lockagent.Owner) Request { return Request{Owner: o, Kind: kind} }
				g := granted(t, two.Acquire(background, "door", as("bob")))
				cut.SetOutage(lockagent.ErrStoreUnavailable)
				for starts := 0; starts < 2 || n.Last <= two.fresh.Load(); starts++ {
					n = detached(t, resuming(t, Config{Store: store.Share()}, n))
				}
				one := resuming(t, Config{Store: store.Share()}, n)
				other := start(t, Config{Store: store.Share()})
				wants := other.Acquire(background, "door", as("cid")) // the store tells agent one
				time.Sleep(time.Second)
				silent(t, "whoever waits in another agent", wants)
				waits := one.Acquire(background, "door", as("ann"))
				time.Sleep(time.Second)
				silent(t, "whoever waits in the original", waits)
				if g.Err() != nil {
					t.Errorf("the hold is over: %v", g.Err())
				}
			})
		})
	}
}

// An agent ends the ghosts of the agent that it goes on from: those of its last life, and every tenure that it was
// handed.
func TestGhostsOfTheLastLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := leaving(t, Config{Store: store.Share()})
		granted(t, a.Acquire(background, "door", who("ann")))
		tenure := inspect(t, store, "door").Holder
		n := detached(t, a)
		for range 2 { // the tenure goes on, and is older than what the journal says of the numbers
			a = resuming(t, Config{Store: store.Share()}, n)
			claimed(t, a, "door")
			n = detached(t, a)
		}
		a = resuming(t, Config{Store: store.Share()}, n)
		of, _ := lockagent.ParseTenure(tenure)
		number := of.Number
		if !a.hasUsed(number) || a.hasUsed(number+1) || a.hasUsed(number-1) {
			t.Errorf("tenure %d: %v, and beside it %v %v",
				number, a.hasUsed(number), a.hasUsed(number+1), a.hasUsed(number-1))
		}
		if !a.hasUsed(n.Last) || a.hasUsed(n.First) {
			t.Errorf("the last life had the numbers from %d to %d", n.First, n.Last)
		}
	})
}

// However often an agent starts, its numbers are new and in bounds.
func TestFirstNumber(t *testing.T) {
	before, used := uint64(0), make(map[uint64]bool)
	for range 3000 {
		one, two := firstNumber(before), firstNumber(before)
		if one < before || one > lockagent.MaxTenure || used[one] || used[two] || one == two {
			t.Fatalf("%d and %d after %d", one, two, before)
		}
		used[one], used[two], before = true, true, one
	}
	if left := lockagent.MaxTenure - before; left < 1<<40 {
		t.Errorf("%d numbers are left", left)
	}
}

// judged is a tap that says how the store judges the identity of its agent, in place of the store.
func judged(store *memstore.Store) (s *tap, judge func(lockagent.MessageKind)) {
	s = newTap(store.Share())
	var hears func(lockagent.Message)
	s.news = func(hear func(lockagent.Message), m lockagent.Message) {
		hears = hear
		if m.Kind != lockagent.MessageAlone && m.Kind != lockagent.MessageTwin {
			hear(m)
		}
	}
	return s, func(kind lockagent.MessageKind) { hears(lockagent.Message{Kind: kind}) }
}

// Where the store knows at once that an identity is in use, the agent does not start. The other one goes on.
func TestIdentityInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		one := start(t, Config{Store: store})
		g := granted(t, one.Acquire(background, "door", who("ann")))
		two, err := New(Config{Store: store.Share(), ID: one.ID()})
		if two != nil || !errors.Is(err, lockagent.ErrIdentityInUse) || !errors.Is(err, lockagent.ErrClosed) {
			t.Fatalf("a second agent: %v, %v", two, err)
		}
		again, err := New(Config{Store: store, ID: one.ID()}) // and of the same Store
		if again != nil || !errors.Is(err, lockagent.ErrIdentityInUse) {
			t.Fatalf("a third agent: %v, %v", again, err)
		}
		released(t, g)
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
		start(t, Config{Store: store, ID: one.ID()})
	})
}

// An agent that learns later that its identity is in use tells everybody at once, and leaves the store alone.
func TestIdentityTakenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s, judge := judged(store)
		var log strings.Builder
		lost := make(chan lockagent.LossReason, 1)
		record := recorderFunc(func(_ context.Context, e lockagent.Event) {
			if e.Kind == lockagent.EventLost {
				lost <- e.Reason
			}
		})
		a := start(t, Config{Store: s, Logger: slog.New(slog.NewTextHandler(&log, nil)), Recorder: record})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		waits := a.Acquire(background, "door", who("bob"))
		synctest.Wait()
		tenure := inspect(t, store, "door").Holder
		calls := s.count("")
		judge(lockagent.MessageTwin)
		<-a.IdentityTaken()
		refused(t, waits, lockagent.ErrIdentityInUse)
		<-g.Done()
		lostBecause(t, g.Cause(), lockagent.LostIdentity)
		lostBecause(t, g.Release(background), lockagent.LostIdentity)
		if why := <-lost; why != lockagent.LostIdentity {
			t.Errorf("the log says %q", why)
		}
		refused(t, a.Acquire(background, "door", who("cid")), lockagent.ErrIdentityInUse)
		_ = a.Close()
		refused(t, a.Acquire(background, "another", who("cid")), lockagent.ErrIdentityInUse)
		if got := inspect(t, store, "door").Holder; got != tenure || s.count("") != calls {
			t.Errorf("the lock is held by %q after %s", got, s.kinds())
		}
		if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), string(a.ID())) {
			t.Errorf("logged %q", log.String())
		}
	})
}

// An agent that goes on with tenures does nothing with them before it knows that they are its own.
func TestResumedWaitsForTheVerdict(t *testing.T) {
	type then func(t *testing.T, a *Agent, s *tap, judge func(lockagent.MessageKind), g lockagent.Grant)
	for what, then := range map[string]then{
		"alone": func(t *testing.T, a *Agent, s *tap, judge func(lockagent.MessageKind), g lockagent.Grant) {
			judge(lockagent.MessageAlone)
			<-a.IdentityKnown()
			synctest.Wait()
			if s.kinds() != "renew renew" || g.Err() != nil {
				t.Errorf("%s, and the hold has %v", s.kinds(), g.Err())
			}
			released(t, g)
			_ = a.Close()
		},
		"a twin": func(t *testing.T, a *Agent, s *tap, judge func(lockagent.MessageKind), g lockagent.Grant) {
			judge(lockagent.MessageTwin)
			<-a.IdentityTaken()
			<-g.Done()
			lostBecause(t, g.Cause(), lockagent.LostIdentity)
			_ = a.Close()
		},
		"nothing": func(t *testing.T, a *Agent, s *tap, _ func(lockagent.MessageKind), g lockagent.Grant) {
			time.Sleep(DefaultLease)
			lostBecause(t, g.Cause(), lockagent.LostDeadline)
			_ = a.Close()
		},
		"the end": func(t *testing.T, a *Agent, s *tap, judge func(lockagent.MessageKind), g lockagent.Grant) {
			_ = a.Close()
			lostBecause(t, g.Cause(), lockagent.LostClosed)
			judge(lockagent.MessageAlone) // too late
		},
		"the next process": func(t *testing.T, a *Agent, s *tap, judge func(lockagent.MessageKind), g lockagent.Grant) {
			if n := detached(t, a); len(n.Locks) != 2 {
				t.Errorf("detached %+v", n)
			}
			_ = a.Close()
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				first := leaving(t, Config{Store: store.Share()})
				granted(t, first.Acquire(background, "door", who("ann")))
				// Nobody receives the grant, and it goes on all the same.
				_ = first.Acquire(background, "gate", who("ann"))
				synctest.Wait()
				s, judge := judged(store)
				a := resuming(t, Config{Store: s, Logger: quiet}, detached(t, first))
				g := claimed(t, a, "door")
				time.Sleep(time.Second)
				if s.count("") > 0 || g.Err() != nil {
					t.Errorf("%s before the store has told, and the hold has %v", s.kinds(), g.Err())
				}
				then(t, a, s, judge, g)
				if what != "alone" && s.count("") > 0 {
					t.Errorf("the store was called: %s", s.kinds())
				}
			})
		})
	}
}
