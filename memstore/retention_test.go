package memstore

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
)

// remembers expects the memory to know of so many locks and withdrawn tenures, at most.
func remembers(t *testing.T, m *memory, most int) {
	t.Helper()
	if n := len(m.locks) + len(m.withdrawn); n > most {
		t.Errorf("%d things are remembered; want %d at most", n, most)
	}
}

func TestNamesUsedOnceAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuests(t, 1)[0]
		m := g.store.memory
		for i := range 5_000 {
			name := lockagent.Name(fmt.Sprintf("once/%d", i))
			switch i % 6 {
			case 0: // held and released
				g.acquire(name, 1)
				g.release(name, 1)
			case 1: // never released
				g.acquire(name, 1)
			case 2: // withdrawn before it was held
				g.end(lockagent.ReleaseRequest{Name: name, Tenure: g.tenure(1), Unanswered: true})
			case 3: // broken
				g.acquire(name, 1)
				g.breaks(name)
			case 4: // looked at
				g.release(name, 1)
			case 5: // waited for by one that does not listen
				g.acquire(name, 1)
				dead := lockagent.Tenure{Agent: "dead", Number: 1}
				reply, err := g.ask(lockagent.AcquireRequest{Name: name, Tenure: dead, Lease: time.Minute, Queue: true})
				if err != nil || !reply.Queued {
					t.Fatalf("Acquire = %+v, %v", reply, err)
				}
				g.breaks(name)
			}
			time.Sleep(time.Minute / 100)
			remembers(t, m, 200)
		}
	})
}

func TestNothingIsRememberedOfLooking(t *testing.T) {
	g := newGuests(t, 1)[0]
	g.store.Inspect(t.Context(), orders, lockagent.PlainLock, func(lockagent.Inspection, error) {})
	g.store.Renew(t.Context(), lockagent.RenewRequest{Name: orders, Tenure: g.tenure(1), Lease: time.Minute},
		func(lockagent.RenewReply, error) {})
	g.breaks(orders)
	g.release(orders, 1)
	remembers(t, g.store.memory, 0)
}

func TestWithdrawnForRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuests(t, 1)[0]
		late := lockagent.AcquireRequest{Name: orders, Tenure: g.tenure(7), Lease: time.Minute}
		g.end(lockagent.ReleaseRequest{Name: orders, Tenure: g.tenure(7), Unanswered: true})
		time.Sleep(Retention - 1)
		if reply, err := g.ask(late); !errors.Is(err, lockagent.ErrWithdrawn) {
			t.Errorf("Acquire just before the end of retention = %+v, %v; want ErrWithdrawn", reply, err)
		}
		time.Sleep(time.Nanosecond)
		g.acquire(orders, 7)
	})
}

func TestWhatMattersIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guests := newGuests(t, 2)
		g, other := guests[0], guests[1]
		g.acquire(orders, 1)
		other.queue(1)
		g.store.PlantHolder("foreign", "somebody", 1, 0)
		g.store.PlantValue("value")
		g.end(lockagent.ReleaseRequest{Name: "orders/43", Tenure: g.tenure(1), Unanswered: true})
		g.store.memory.tidy(time.Now())
		if m := g.store.memory; len(m.locks) != 3 || len(m.withdrawn) != 1 {
			t.Errorf("%d locks and %d withdrawn tenures, want 3 and 1", len(m.locks), len(m.withdrawn))
		}
		g.breaks(orders) // the place is there still
		g.store.memory.tidy(time.Now())
		g.acquire(orders, 2)
		if reply := g.release(orders, 2); !reply.Passed {
			t.Errorf("Release = %+v; want the lock passed", reply)
		}
		// So is the outsiders' turn.
		g.queue(3)
		defer g.store.PlantOutsider(orders, func() {})()
		other.release(orders, 1)
		g.release(orders, 3)
		g.store.memory.tidy(time.Now())
		if reply, err := g.ask(lockagent.AcquireRequest{Name: orders, Tenure: g.tenure(4), Lease: time.Minute}); err != nil ||
			reply.Granted {
			t.Errorf("Acquire = %+v, %v; want the lock kept for outsiders", reply, err)
		}
		g.store.Reset()
		remembers(t, g.store.memory, 0)
	})
}

func TestSubscriptionsAreForgotten(t *testing.T) {
	store := New()
	other := store.Share()
	for range 3 {
		cancel := store.Subscribe(orders, lockagent.PlainLock, func() {})
		cancelHear := store.Listen("agent", func(lockagent.Message) {})
		cancelReset := store.OnReset(func(lockagent.Reset) {})
		other.Subscribe(orders, lockagent.PlainLock, func() {})
		other.Listen("other", func(lockagent.Message) {})
		other.OnReset(func(lockagent.Reset) {})
		for range 2 {
			cancel()
			cancelHear()
			cancelReset()
		}
	}
	m := store.memory
	if len(m.subscriptions[orders]) != 3 || len(m.hooks) != 3 || len(m.listeners) != 1 || len(m.listeners["other"]) != 3 {
		t.Errorf("%d subscriptions, %d hooks, %d listeners", len(m.subscriptions[orders]), len(m.hooks),
			len(m.listeners["other"]))
	}
	for range 2 {
		if err := other.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	woken := 0
	other.Subscribe(orders, lockagent.PlainLock, func() { woken++ })()
	if woken != 1 {
		t.Errorf("a closed store woke a subscriber %d times, want once", woken)
	}
	other.Listen("other", func(lockagent.Message) {})()
	other.OnReset(func(lockagent.Reset) {})()
	if len(m.subscriptions)+len(m.hooks)+len(m.listeners) != 0 {
		t.Errorf("%d names with subscriptions, %d hooks and %d listeners, want none", len(m.subscriptions), len(m.hooks),
			len(m.listeners))
	}
}

func TestSubscribersMayCancelWhenTheyAreCalled(t *testing.T) {
	const subscribers = 3
	g := newGuests(t, 1)[0]
	var cancels []func()
	cancelAll := func() {
		for _, cancel := range cancels {
			cancel()
		}
	}
	told := 0
	for range subscribers {
		cancels = append(cancels, g.store.OnReset(func(lockagent.Reset) {
			told++
			cancelAll()
		}))
	}
	g.store.Reset()
	g.store.Reset()
	if told != subscribers {
		t.Errorf("told %d times of a reset, want %d", told, subscribers)
	}

	cancels = nil
	woken := 0
	for range subscribers {
		cancels = append(cancels, g.store.Subscribe(orders, lockagent.PlainLock, func() {
			if woken++; woken > subscribers { // not for the first time, as they stand
				cancelAll()
			}
		}))
	}
	for number := uint64(1); number <= 2; number++ {
		g.acquire(orders, number)
		g.release(orders, number)
	}
	if woken != 2*subscribers {
		t.Errorf("woken %d times, want %d", woken, 2*subscribers)
	}
}
