package actor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// unaware is a tap on a store that does not tell its agent of twins.
func unaware(store *memstore.Store) *tap {
	s := newTap(store.Share())
	s.news = func(hear func(lockagent.Message), m lockagent.Message) { hear(m) }
	return s
}

// twins starts two agents with one identity that nobody tells of each other: with an ID that both were given, or as when
// the state of an agent was copied.
func twins(t *testing.T, store *memstore.Store, copied bool) (one, two *Agent) {
	t.Helper()
	if !copied {
		id := lockagent.NewAgentID()
		return start(t, Config{Store: unaware(store), ID: id}), start(t, Config{Store: unaware(store), ID: id})
	}
	a := start(t, Config{Store: store.Share()})
	released(t, granted(t, a.Acquire(background, "door", who("ann"))))
	n := carried(t, a.Detach())
	return resuming(t, Config{Store: unaware(store)}, n), resuming(t, Config{Store: unaware(store)}, n)
}

// The store never takes the tenure of an agent for that of another one with the same identity. And neither agent ends the
// tenure of the other one as a ghost.
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
