package actor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

// turnstile is a recorder that finds out if two actors of one lock are at work at
// once, or if a lock is granted while it is held.
type turnstile struct {
	t     *testing.T
	locks sync.Map // lockagent.Name -> *turn
}

type turn struct {
	inside  atomic.Int32
	granted atomic.Uint64 // the request that holds the lock
}

func (r *turnstile) Record(_ context.Context, e lockagent.Event) {
	v, _ := r.locks.LoadOrStore(e.Lock, new(turn))
	l := v.(*turn)
	if e.Lock == "" {
		return
	}
	if l.inside.Add(1) != 1 {
		r.t.Errorf("%q: two actors at once", e.Lock)
	}
	switch {
	case e.Kind == lockagent.EventGranted:
		if !l.granted.CompareAndSwap(0, e.Request) {
			r.t.Errorf("%q: granted to request %d while %d holds it", e.Lock, e.Request, l.granted.Load())
		}
	case e.Kind.EndsHold():
		if !l.granted.CompareAndSwap(e.Request, 0) {
			r.t.Errorf("%q: %v of request %d while %d holds it", e.Lock, e.Kind, e.Request, l.granted.Load())
		}
	}
	if l.inside.Add(-1) != 0 {
		r.t.Errorf("%q: two actors at once", e.Lock)
	}
}

// Actors retire whenever nobody looks, and come back all the time. No request may
// get lost between two of them.
func TestRetirementLosesNothing(t *testing.T) {
	for _, size := range []struct{ names, callers, rounds int }{
		{1, 2, 500}, {1, 64, 10}, {3, 64, 20}, {50, 96, 20}, {1000, 96, 20},
	} {
		names, callers, rounds := size.names, size.callers, size.rounds
		t.Run(fmt.Sprintf("%d names and %d callers", names, callers), func(t *testing.T) {
			store := newTap(memstore.New())
			r := &turnstile{t: t}
			a := start(t, Config{Store: store, Recorder: r, Idle: time.Nanosecond, HandOffTime: time.Nanosecond})
			a.restingConfig.Linger = time.Nanosecond // otherwise an actor stays for a second when others have wanted its lock
			var actors, answers, holds atomic.Int64
			make := a.registry.make
			a.registry.make = func(e *entry) *lock { actors.Add(1); return make(e) }
			holders := new(sync.Map)
			var wg sync.WaitGroup
			visit := func(i int, rnd *rand.Rand) {
				name := lockagent.Name(fmt.Sprint("door", rnd.IntN(names)))
				if rnd.IntN(8) == 0 {
					await(t, "status", a.Status(name, lockagent.PlainLock))
				}
				if rnd.IntN(8) == 0 {
					err := await(t, "release", a.Release(background, name, "stranger"))
					if !errors.Is(err, lockagent.ErrNotHeld) && !errors.Is(err, lockagent.ErrNotOwner) {
						t.Errorf("release: %v", err)
					}
				}
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				owner := lockagent.Owner(fmt.Sprint("owner", i))
				c := a.Acquire(ctx, name, Request{Owner: owner, Try: rnd.IntN(4) == 0})
				if rnd.IntN(4) == 0 {
					go cancel()
				}
				g := await(t, "grant", c)
				answers.Add(1)
				exhausted(t, c)
				if err := g.Err(); err != nil {
					if !errors.Is(err, lockagent.ErrHeld) && !errors.Is(err, context.Canceled) &&
						!errors.Is(err, lockagent.ErrNotGranted) {
						t.Errorf("refused: %v", err)
					}
					return
				}
				holds.Add(1)
				if other, loaded := holders.LoadOrStore(name, i); loaded {
					t.Errorf("%q: granted to %d while %v holds it", name, i, other)
				}
				if rnd.IntN(2) == 0 {
					yieldNow()
				}
				holders.Delete(name)
				if err := await(t, "release", g.ReleaseAsync(background)); err != nil {
					t.Errorf("release: %v", err)
				}
			}
			runs := 0
			waittest.Until(t, "actors take the place of others", func() bool {
				runs++
				for i := range callers {
					wg.Go(func() {
						rnd := rand.New(rand.NewPCG(uint64(runs), uint64(i)))
						for range rounds {
							visit(i, rnd)
						}
					})
				}
				wg.Wait()
				return t.Failed() || actors.Load() >= int64(names+10)
			})
			if n := answers.Load(); n != int64(runs*callers*rounds) {
				t.Errorf("%d of %d requests answered", n, runs*callers*rounds)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			if n := a.entries(); n != 0 {
				t.Errorf("%d actors left", n)
			}
			if n := store.subscriptions(); n != 0 {
				t.Errorf("%d subscriptions left", n)
			}
			for i := range names {
				if inspect(t, store.whole, lockagent.Name(fmt.Sprint("door", i))).Held {
					t.Fatal("the store holds a lock in the end")
				}
			}
			if o := store.overlaps(); len(o) != 0 {
				t.Error(o)
			}
			t.Logf("%d runs: %d holds, %d actors for %d names", runs, holds.Load(), actors.Load(), names)
		})
	}
}

func TestIdleActorsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newTap(store.Share())
		a, b := start(t, Config{Store: s, Idle: time.Minute}), start(t, Config{Store: store})
		for i := range 100 {
			released(t, granted(t, a.Acquire(background, lockagent.Name(fmt.Sprint("door", i)), who("ann"))))
		}
		held := granted(t, a.Acquire(background, "held", who("ann")))
		far := granted(t, b.Acquire(background, "far", who("bob")))
		waiting := a.Acquire(background, "far", who("ann"))
		time.Sleep(time.Minute - 1)
		if n := a.entries(); n != 102 {
			t.Errorf("%d actors before Idle has passed", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := a.entries(); n != 2 {
			t.Errorf("%d actors when Idle has passed, want the one that is held and the one that is waited for", n)
		}
		time.Sleep(time.Hour)
		released(t, held)
		released(t, far)
		released(t, granted(t, waiting))
		time.Sleep(time.Minute + linger)
		synctest.Wait()
		if n := a.entries(); n != 0 {
			t.Errorf("%d actors in the end", n)
		}
		if n := s.subscriptions(); n != 0 {
			t.Errorf("%d subscriptions in the end", n)
		}
	})
}

// A lock is used more often than Idle: its actor stays.
func TestUsedActorsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Idle: time.Minute})
		var actors int
		make := a.registry.make
		a.registry.make = func(e *entry) *lock { actors++; return make(e) }
		for range 100 {
			released(t, granted(t, a.Acquire(background, "door", who("ann"))))
			time.Sleep(50 * time.Second)
		}
		if actors != 1 {
			t.Errorf("%d actors", actors)
		}
	})
}

// The numbers of tenures grow from one actor of a lock to the next, and no tenure
// is used twice.
func TestTenuresGrowOverRetirement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		a := start(t, Config{Store: s, Idle: time.Nanosecond})
		var last uint64
		s.on("acquire", func(o *op) {
			if o.tenure.Number <= last {
				t.Errorf("tenure %d after %d", o.tenure.Number, last)
			}
			last = o.tenure.Number
			o.run()
		})
		for range 100 {
			released(t, granted(t, a.Acquire(background, "door", who("ann"))))
			time.Sleep(time.Second)
			if n := a.entries(); n != 0 {
				t.Fatalf("%d actors", n)
			}
		}
	})
}

// What many names needed is given back when they are gone.
func TestRegistryGivesBackRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const names = 6000
		a := start(t, Config{Store: forgetful{}})
		held := make([]lockagent.Grant, names)
		for i := range held {
			held[i] = granted(t, a.Acquire(background, lockagent.Name(fmt.Sprint("door", i)), who("ann")))
		}
		for _, g := range held {
			released(t, g)
		}
		time.Sleep(2 * DefaultIdle)
		synctest.Wait()
		for i := range a.registry.shards {
			if s := &a.registry.shards[i]; len(s.entries) != 0 || s.most > fewEntries {
				t.Errorf("a shard has %d entries, and room for %d", len(s.entries), s.most)
			}
		}
	})
}

// An actor system goes with its actors when others have been made in another, and when
// many of its actors have come and gone.
func TestActorSystemsAreLeft(t *testing.T) {
	first := enter()
	for range spawnsPerSystem {
		enter().leave()
	}
	second := enter()
	if second == first {
		t.Error("actors are still made where the first one was")
	}
	if enter() != second {
		t.Error("actors are made where nobody else is")
	}
	for range worthLeaving {
		enter().leave()
	}
	if enter() != second {
		t.Error("a system that has actors was left")
	}
	for range 3 {
		second.leave()
	}
	if enter() == second {
		t.Error("a system without actors was not left")
	}
}
