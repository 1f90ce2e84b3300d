package actor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// graceful is a store with grace periods, as far as the agent sees them.
type graceful struct {
	*tap

	mu    sync.Mutex
	reset func(lockagent.Reset)
	grace func(lockagent.GracePeriod)
	came  []string // the incarnations to which the agent has come back
	left  bool
}

func (s *graceful) OnReset(f func(lockagent.Reset)) (cancel func()) {
	s.reset = f
	return func() {}
}

func (s *graceful) OnGrace(f func(lockagent.GracePeriod)) (cancel func()) {
	s.grace = f
	return func() {}
}

func (s *graceful) Reasserted(incarnation string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.came = append(s.came, incarnation)
}

func (s *graceful) Left() { s.left = true }

// now is the incarnation to which a new agent comes back at once: it has nothing.
const now = lockagent.PresentIncarnation

// has fails the test unless the agent has come back to those incarnations, and to no other.
func (s *graceful) has(t *testing.T, when string, incarnations ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.came, incarnations) {
		t.Errorf("%s: the agent has come back to %q, want %q", when, s.came, incarnations)
	}
}

// An agent has come back when each hold was renewed, or is over. The renewals tell the last token.
func TestAnAgentComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &graceful{tap: newTap(memstore.New())}
		a := start(t, Config{Store: s})
		first := granted(t, a.Acquire(background, "first", who("ann")))
		second := granted(t, a.Acquire(background, "second", who("bob")))
		released(t, granted(t, a.Acquire(background, "third", who("eve"))))
		var renewals []*op
		s.on("renew", func(o *op) { renewals = append(renewals, o) })
		s.reset(lockagent.Reset{From: "1.a.1", To: "2.a.2", Reason: "emptied"})
		s.has(t, "before the renewals", now)
		if len(renewals) != 2 {
			t.Fatalf("%d renewals", len(renewals))
		}
		for _, o := range renewals {
			want := first.Token()
			if o.name == "second" {
				want = second.Token()
			}
			if o.last != want {
				t.Errorf("%s: the last token is %d, want %d", o.name, o.last, want)
			}
		}
		renewals[0].run()
		s.has(t, "after one renewal", now)
		s.reset(lockagent.Reset{From: "2.a.2", To: "3.a.3", Reason: "emptied"}) // once more
		renewals[1].run()
		s.has(t, "after the renewals of the time before", now)
		for _, o := range renewals[2:] {
			o.run()
		}
		s.has(t, "after all renewals", now, "2.a.2", "3.a.3")
		released(t, first)
		s.reset(lockagent.Reset{From: "3.a.3", To: "4.a.4", Reason: "emptied"})
		released(t, second)
		s.has(t, "after the release of the last hold", now, "2.a.2", "3.a.3", "4.a.4")
		s.reset(lockagent.Reset{From: "4.a.4", To: "5.a.5", Reason: "emptied"})
		s.has(t, "without a hold", now, "2.a.2", "3.a.3", "4.a.4", "5.a.5")
		if err := closing(t, a); err != nil {
			t.Error(err)
		}
		if !s.left {
			t.Error("the agent has not left")
		}
	})
}

// A reset while the locks are told of the one before: the agent has come back to both when all were told of the second.
func TestAResetWhileTheLocksAreTold(t *testing.T) {
	s := &graceful{}
	r := returns{grace: s}
	r.begin("2.a.2")
	first := r.present()
	r.add(first)
	r.begin("3.a.3")
	r.add(first) // the broadcast of the first reset goes on
	for range 3 {
		r.done(first)
	}
	second := r.present()
	r.add(second)
	r.done(second)
	if len(s.came) > 0 {
		t.Errorf("the agent has come back to %q before the second broadcast was over", s.came)
	}
	r.done(second)
	if want := []string{"2.a.2", "3.a.3"}; !slices.Equal(s.came, want) {
		t.Errorf("the agent has come back to %q, want %q", s.came, want)
	}
}

// Two resets may come before the broadcast of the first one begins. Then both broadcasts are of one round.
func TestTwoBroadcastsOfOneRound(t *testing.T) {
	s := &graceful{}
	r := returns{grace: s}
	r.begin("2.a.2")
	r.begin("3.a.3")
	for again := range 2 {
		round, first := r.take()
		r.add(round)    // a lock that stays in doubt
		if again == 1 { // and that is told once more
			r.done(round)
		}
		if first {
			r.done(round)
		}
	}
	if len(s.came) > 0 {
		t.Errorf("the agent has come back to %q, and a lock is in doubt", s.came)
	}
}

// An agent that goes on with permits knows how many they are, and of how many.
func TestPermitsOfAResumedAgentComeBack(t *testing.T) {
	for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
		synctest.Test(t, func(t *testing.T) {
			s := &graceful{tap: newTap(memstore.New())}
			a := start(t, Config{Store: s, Journal: newChronicle()})
			set := lockagent.PermitsRequest{Name: "orders", Kind: kind, Op: lockagent.TrySetPermits, N: 5}
			if r := await(t, "set", a.Permits(background, set)); r.Err != nil {
				t.Fatal(r.Err)
			}
			granted(t, a.Acquire(background, "orders", Request{Owner: "ann", Kind: kind, Permits: 3}))
			b := resuming(t, Config{Store: s}, detached(t, a))
			hold := claimed(t, b, "orders")
			var renewal *op
			s.on("renew", func(o *op) { renewal = o; o.run() })
			s.reset(lockagent.Reset{From: "1.a.1", To: "2.a.2", Reason: "emptied"})
			synctest.Wait()
			if renewal == nil || renewal.permits != [2]int{3, 5} {
				t.Errorf("%s: the renewal is %+v", kind, renewal)
			}
			released(t, hold)
		})
	}
}

// The actor of a lock may be busy when the store is reset. The agent has not come back before that actor knows.
func TestABusyActorComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &graceful{tap: newTap(memstore.New())}
		var stuck atomic.Bool
		goOn := make(chan struct{})
		a := start(t, Config{Store: s, Recorder: recorderFunc(func(_ context.Context, e lockagent.Event) {
			if e.Lock == "orders" && stuck.Load() {
				<-goOn
			}
		})})
		hold := granted(t, a.Acquire(background, "orders", who("ann")))
		s.on("renew", func(o *op) { time.AfterFunc(time.Second, o.run) })
		stuck.Store(true)
		go a.Acquire(background, "orders", Request{Owner: "bob", Try: true}) // the event keeps the actor busy
		synctest.Wait()
		s.reset(lockagent.Reset{From: "1.a.1", To: "2.a.2", Reason: "emptied"})
		s.has(t, "while the actor is busy", now)
		stuck.Store(false)
		close(goOn)
		s.has(t, "before the renewal", now)
		time.Sleep(2 * time.Second)
		s.has(t, "after the renewal", now, "2.a.2")
		released(t, hold)
	})
}

// The store may be reset once more while the agent still tells its locks of the reset before. Then all locks have to
// come back to the later incarnation, also those that were told first.
func TestAnAgentComesBackToTheLatestIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &graceful{tap: newTap(memstore.New())}
		a := start(t, Config{Store: s})
		held := map[lockagent.Name]bool{}
		for _, name := range []lockagent.Name{"first", "second", "third"} {
			granted(t, a.Acquire(background, name, who("ann")))
			held[name] = true
		}
		var late []*op
		again := false
		s.on("renew", func(o *op) {
			if !again { // the agent is in the middle of telling
				again = true
				s.reset(lockagent.Reset{From: "2.a.2", To: "3.a.3", Reason: "emptied"})
				delete(held, o.name)
			}
			if held[o.name] {
				o.run()
			} else {
				late = append(late, o)
			}
		})
		s.reset(lockagent.Reset{From: "1.a.1", To: "2.a.2", Reason: "emptied"})
		s.has(t, "while a lock is in doubt", now)
		for len(late) > 0 {
			o := late[0]
			late = late[1:]
			o.run()
			synctest.Wait()
		}
		s.has(t, "after all renewals", now, "2.a.2", "3.a.3")
	})
}

// An agent whose tenures stay in the store does not leave the roll.
func TestAnAgentThatDoesNotLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &graceful{tap: newTap(memstore.New())}
		a := start(t, Config{Store: s})
		granted(t, a.Acquire(background, "orders", Request{Owner: "ann", Lease: time.Hour, Outlive: true}))
		if err := closing(t, a); err != nil {
			t.Error(err)
		}
		if s.left {
			t.Error("the agent has left")
		}
	})
}

// What the store tells of its grace periods is in the events.
func TestEventsOfGracePeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &graceful{tap: newTap(memstore.New())}
		var kinds []lockagent.EventKind
		a := start(t, Config{Store: s, Recorder: recorderFunc(func(_ context.Context, e lockagent.Event) {
			if e.Grace != nil && e.Grace.Incarnation == "2.a.2" {
				kinds = append(kinds, e.Kind)
			}
		})})
		s.grace(lockagent.GracePeriod{Incarnation: "2.a.2", Began: 2})
		s.grace(lockagent.GracePeriod{Incarnation: "2.a.2", Began: 2, Ended: 3})
		if want := []lockagent.EventKind{lockagent.EventGraceBegan, lockagent.EventGraceEnded}; !slices.Equal(kinds, want) {
			t.Errorf("events %v, want %v", kinds, want)
		}
		if err := closing(t, a); err != nil {
			t.Error(err)
		}
		s.grace(lockagent.GracePeriod{Incarnation: "2.a.2", Began: 4})
		if len(kinds) != 2 {
			t.Error("an event after the last one")
		}
	})
}

// An agent that goes on with the holds of another process has come back when the store has confirmed them.
func TestAnAgentThatGoesOnComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goesOn(t, func(s *graceful) lockagent.Store { return s })
	})
}

// goesOn has an agent go on with a hold. The agent has come back after the renewal. seen is the store as the agent has
// it.
func goesOn(t *testing.T, seen func(*graceful) lockagent.Store) {
	t.Helper()
	store := memstore.New()
	before := leaving(t, Config{Store: store.Share()})
	granted(t, before.Acquire(background, "orders", who("ann")))
	s := &graceful{tap: newTap(store.Share())}
	var renewals []*op
	s.on("renew", func(o *op) { renewals = append(renewals, o) })
	resuming(t, Config{Store: seen(s)}, detached(t, before))
	s.has(t, "before the renewal")
	if len(renewals) != 1 {
		t.Fatalf("%d renewals", len(renewals))
	}
	s.handle(nil)
	renewals[0].run()
	s.has(t, "after the renewal", now)
}

// stepping is a store whose clock is set while an agent begins.
type stepping struct{ *graceful }

func (s stepping) OnReset(f func(lockagent.Reset)) (cancel func()) {
	f(lockagent.Reset{From: "1.a.1", To: "1.a.1", Reason: "clock stepped", Step: time.Hour})
	return s.graceful.OnReset(f)
}

// A step of the clock is told to all locks, and is no return: an agent that goes on has come back when the store has
// confirmed its holds.
func TestAStepOfTheClockIsNoReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goesOn(t, func(s *graceful) lockagent.Store { return stepping{s} })
	})
}

// A release after a reset waits for the renewal that is under way. Meanwhile nobody holds the lock. Whoever
// releases learns what ended the hold. A renewal that fails then is no event: no hold is uncertain.
func TestReleaseThatWaitsForARenewal(t *testing.T) {
	for name, c := range map[string]struct {
		after func(t *testing.T, s *graceful, far *Agent, renewal *op)
		check func(t *testing.T, err error)
	}{
		"Broken": {
			after: func(t *testing.T, _ *graceful, far *Agent, renewal *op) {
				t.Cleanup(renewal.run) // or the agent could not close
				await(t, "break", far.Break("door", lockagent.PlainLock, "olga"))
			},
			check: func(t *testing.T, err error) {
				lostBecause(t, err, lockagent.LostBroken)
				if lost, _ := errors.AsType[*lockagent.LostError](err); lost.Operator != "olga" {
					t.Errorf("broken by %q, want olga", lost.Operator)
				}
			},
		},
		"Fails": {
			after: func(_ *testing.T, _ *graceful, _ *Agent, renewal *op) { renewal.fail(lockagent.ErrStoreUnavailable) },
			check: func(t *testing.T, err error) {
				if err != nil {
					t.Error(err)
				}
			},
		},
		"DeadlinePasses": {
			after: func(t *testing.T, s *graceful, _ *Agent, renewal *op) {
				t.Cleanup(renewal.run)
				s.on("release", func(o *op) { o.slow(10*time.Second, 0) }) // then the lease is over
			},
			check: func(t *testing.T, err error) {
				if !errors.Is(err, lockagent.ErrUnconfirmed) {
					t.Errorf("%v, want ErrUnconfirmed", err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				s, w := &graceful{tap: newTap(store)}, &witness{}
				a, far := start(t, Config{Store: s, Recorder: w}), start(t, Config{Store: store.Share()})
				hold := granted(t, a.Acquire(background, "door", who("ann")))
				var renewal *op
				s.on("renew", func(o *op) { renewal = o })
				s.reset(lockagent.Reset{From: "1.a.1", To: "2.a.2", Reason: "emptied"})
				synctest.Wait()
				before := len(w.all())
				answer := hold.ReleaseAsync(background)
				synctest.Wait()
				silent(t, "the release, before the renewal is answered", answer)
				if renewal == nil {
					t.Fatal("no renewal is under way")
				}
				c.after(t, s, far, renewal)
				c.check(t, await(t, "release", answer))
				synctest.Wait()
				(&witness{events: w.all()[before:]}).tells(t, "released returned")
			})
		})
	}
}

// Each permit of an agent may have a tenure of its own. A renewal that fails makes the holds of its tenure uncertain.
func TestUncertainPermits(t *testing.T) {
	for name, c := range map[string]struct {
		releases bool
		owners   string
	}{
		"Held":     {false, "ann bob"},
		"Released": {true, "ann"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w := &graceful{tap: newTap(memstore.New())}, &witness{}
				a := start(t, Config{Store: s, Recorder: w})
				set := lockagent.PermitsRequest{Name: "orders", Kind: lockagent.Semaphore, Op: lockagent.TrySetPermits, N: 2}
				if r := await(t, "set", a.Permits(background, set)); r.Err != nil {
					t.Fatal(r.Err)
				}
				tokens := make(map[lockagent.Owner]lockagent.Token)
				var latest lockagent.Grant
				for _, owner := range []lockagent.Owner{"ann", "bob"} {
					latest = granted(t, a.Acquire(background, "orders", Request{Owner: owner, Kind: set.Kind, Permits: 1}))
					tokens[owner] = latest.Token()
				}
				var renewals []*op
				s.on("renew", func(o *op) { renewals = append(renewals, o) })
				s.reset(lockagent.Reset{From: "1.a.1", To: "2.a.2", Reason: "emptied"})
				synctest.Wait()
				if c.releases {
					_ = latest.ReleaseAsync(background) // waits for the renewal
					synctest.Wait()
				}
				for _, o := range renewals {
					o.fail(lockagent.ErrStoreUnavailable)
				}
				s.handle(nil)
				synctest.Wait()
				var got []string
				for _, e := range w.of(lockagent.EventUncertain) {
					got = append(got, string(e.Owner))
					if e.Token != tokens[e.Owner] {
						t.Errorf("the token of %s is %d, want %d", e.Owner, e.Token, tokens[e.Owner])
					}
				}
				slices.Sort(got)
				if got := strings.Join(got, " "); got != c.owners {
					t.Errorf("uncertain: %q, want %q", got, c.owners)
				}
			})
		})
	}
}
