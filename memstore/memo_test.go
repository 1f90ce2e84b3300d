package memstore

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/storetest"
)

const agent lockagent.AgentID = "a2b4f6f8-0f6c-4f0e-9d38-6f5d6f6f3f11"

func tenure(number uint64) lockagent.Tenure {
	return lockagent.Tenure{Agent: agent, Number: number}
}

// acquire asks for a tenure and expects to be granted it.
func acquire(t *testing.T, s *Store, name lockagent.Name, tenure lockagent.Tenure, lease time.Duration) lockagent.AcquireReply {
	t.Helper()
	reply, err := storetest.Acquire(t, s, lockagent.AcquireRequest{Name: name, Tenure: tenure, Lease: lease, Tokens: 1})
	if err != nil || !reply.Granted {
		t.Fatalf("Acquire(%q, %s) = %+v, %v", name, tenure, reply, err)
	}
	return reply
}

func release(t *testing.T, s *Store, name lockagent.Name, tenure lockagent.Tenure) lockagent.ReleaseReply {
	t.Helper()
	reply, err := storetest.Release(t, s, lockagent.ReleaseRequest{Name: name, Tenure: tenure})
	if err != nil {
		t.Fatalf("Release(%q, %s): %v", name, tenure, err)
	}
	return reply
}

// busy is a lock that is in use all the time.
type busy struct {
	store *Store
	last  lockagent.Tenure
}

func newBusy(s *Store) *busy {
	return &busy{store: s, last: lockagent.Tenure{Agent: lockagent.NewAgentID()}}
}

// use has the lock for so many tenures: two calls each, and the memory is swept
// along with them.
func (b *busy) use(t *testing.T, tenures int) {
	t.Helper()
	for range tenures {
		b.last.Number++
		acquire(t, b.store, "busy", b.last, time.Second)
		release(t, b.store, "busy", b.last)
	}
}

// remembers expects the memory to know of so many locks and memos.
func remembers(t *testing.T, s *Store, locks, memos int) {
	t.Helper()
	m := s.memory
	if len(m.locks) != locks || len(m.memos) != memos || m.byAge.Len() != memos {
		t.Errorf("%d locks, and %d memos of which %d have an age; want %d and %d", len(m.locks), len(m.memos), m.byAge.Len(), locks, memos)
	}
}

func TestNamesUsedOnceAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const names = 100_000
		store := New()
		other := newBusy(store)
		other.use(t, 1)
		for i := range names {
			name := lockagent.Name(fmt.Sprintf("once/%d", i))
			switch i % 4 {
			case 0: // held and released
				acquire(t, store, name, tenure(1), time.Minute)
				release(t, store, name, tenure(1))
			case 1: // never released
				acquire(t, store, name, tenure(1), time.Minute)
			case 2: // withdrawn before it was held
				release(t, store, name, tenure(1))
			case 3: // broken
				acquire(t, store, name, tenure(1), time.Minute)
				if broken, err := storetest.Break(t, store, name); err != nil || !broken {
					t.Fatalf("Break(%q) = %t, %v", name, broken, err)
				}
			}
		}
		other.use(t, 1000)
		remembers(t, store, names+1, names+1)
		time.Sleep(Retention / 2)
		other.use(t, 1)
		time.Sleep(Retention / 2)
		other.use(t, names/sweepPerCall/2+1)
		remembers(t, store, 1, 1)
	})
}

func TestNothingIsRememberedOfLooking(t *testing.T) {
	store := New()
	if _, err := storetest.Inspect(t, store, "free"); err != nil {
		t.Error(err)
	}
	if _, err := storetest.Renew(t, store, lockagent.RenewRequest{Name: "free", Tenure: tenure(1), Lease: time.Minute}); err != nil {
		t.Error(err)
	}
	if _, err := storetest.Break(t, store, "free"); err != nil {
		t.Error(err)
	}
	_, err := storetest.Acquire(t, store, lockagent.AcquireRequest{Name: "free", Tenure: tenure(1), Lease: time.Minute, Tokens: 1, Floor: lockagent.MaxToken - 1})
	if err != nil {
		t.Error(err)
	}
	_, err = storetest.Acquire(t, store, lockagent.AcquireRequest{Name: "other", Tenure: tenure(1), Lease: time.Minute, Tokens: 2, Floor: lockagent.MaxToken - 1})
	if !errors.Is(err, lockagent.ErrBadOption) {
		t.Error(err)
	}
	remembers(t, store, 1, 1) // of the one that was granted
}

func TestTenureIsRememberedForRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := New()
		other := newBusy(store)
		first := release(t, store, "orders/42", tenure(7))
		time.Sleep(Retention - 1)
		other.use(t, 10)
		late := lockagent.AcquireRequest{Name: "orders/42", Tenure: tenure(7), Lease: time.Minute, Tokens: 1}
		if reply, err := storetest.Acquire(t, store, late); !errors.Is(err, lockagent.ErrWithdrawn) {
			t.Errorf("Acquire just before the end of retention = %+v, %v; want ErrWithdrawn", reply, err)
		}
		if again := release(t, store, "orders/42", tenure(7)); again != first {
			t.Errorf("Release = %+v, repeated just before the end of retention %+v", first, again)
		}
		time.Sleep(time.Nanosecond)
		acquire(t, store, "orders/42", tenure(7), time.Minute)
	})
}

func TestHeldLockIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := New()
		other := newBusy(store)
		acquire(t, store, "held", tenure(1), lockagent.MaxLease)
		store.PlantHolder("foreign", "somebody", 1, 0)
		store.PlantValue("value")
		for range 5 {
			time.Sleep(Retention)
			other.use(t, 10)
		}
		remembers(t, store, 4, 4)
		if reply := release(t, store, "held", tenure(1)); !reply.Released {
			t.Errorf("Release = %+v", reply)
		}
		if broken, err := storetest.Break(t, store, "foreign"); err != nil || !broken {
			t.Errorf("Break = %t, %v", broken, err)
		}
		if _, err := storetest.Inspect(t, store, "value"); !errors.Is(err, lockagent.ErrWrongType) {
			t.Errorf("Inspect: %v", err)
		}
		time.Sleep(Retention)
		other.use(t, 10)
		remembers(t, store, 2, 2)
		store.Reset()
		remembers(t, store, 0, 0)
	})
}

func TestAgentsOfALockInUseAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const agents = 1000
		store := New()
		other := newBusy(store)
		acquire(t, store, "orders/42", tenure(1), lockagent.MaxLease)
		for range agents {
			release(t, store, "orders/42", lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1})
		}
		remembers(t, store, 1, agents+1)
		time.Sleep(Retention)
		other.use(t, agents)
		remembers(t, store, 2, 2)
		if seen, err := storetest.Inspect(t, store, "orders/42"); err != nil || seen.Holder != tenure(1).String() {
			t.Errorf("Inspect = %+v, %v", seen, err)
		}
	})
}

// A lock is forgotten when the clock makes greater tokens than it had, and not
// before.
func TestTokensAheadOfTheClockAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tokens = int(3 * Retention / time.Microsecond)
		store := New()
		other := newBusy(store)
		first, err := storetest.Acquire(t, store, lockagent.AcquireRequest{Name: "orders/42", Tenure: tenure(1), Lease: time.Minute, Tokens: tokens})
		if err != nil {
			t.Fatal(err)
		}
		last := first.Token + lockagent.Token(tokens) - 1
		release(t, store, "orders/42", tenure(1))

		time.Sleep(3*Retention - time.Microsecond)
		other.use(t, 10)
		remembers(t, store, 2, 2)
		if reply := acquire(t, store, "orders/42", tenure(2), time.Second); reply.Token != last+1 {
			t.Errorf("token %d after %d", reply.Token, last)
		}
		release(t, store, "orders/42", tenure(2))

		time.Sleep(Retention)
		other.use(t, 10)
		remembers(t, store, 1, 1)
		if reply := acquire(t, store, "orders/42", tenure(1), time.Second); reply.Token <= last+1 {
			t.Errorf("token %d of a lock that was forgotten, after %d", reply.Token, last+1)
		}
	})
}

func TestSubscriptionsAreForgotten(t *testing.T) {
	store := New()
	other := store.Share()
	for range 3 {
		cancel := store.Subscribe("orders/42", func(*lockagent.Pass) {})
		cancelReset := store.OnReset(func(lockagent.Reset) {})
		other.Subscribe("orders/42", func(*lockagent.Pass) {})
		other.OnReset(func(lockagent.Reset) {})
		for range 2 {
			cancel()
			cancelReset()
		}
	}
	if m := store.memory; len(m.subscriptions["orders/42"]) != 3 || len(m.hooks) != 3 {
		t.Errorf("%d subscriptions and %d hooks, want 3 and 3", len(m.subscriptions["orders/42"]), len(m.hooks))
	}
	for range 2 {
		if err := other.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	other.Subscribe("orders/42", func(*lockagent.Pass) { t.Error("a closed store woke somebody") })()
	other.OnReset(func(lockagent.Reset) {})
	if m := store.memory; len(m.subscriptions) != 0 || len(m.hooks) != 0 {
		t.Errorf("%d names with subscriptions and %d hooks, want none", len(m.subscriptions), len(m.hooks))
	}
}

func TestSubscribersMayCancelWhenTheyAreCalled(t *testing.T) {
	const subscribers = 3
	store := New()
	var cancels []func()
	cancelAll := func() {
		for _, cancel := range cancels {
			cancel()
		}
	}
	told := 0
	for range subscribers {
		cancels = append(cancels, store.OnReset(func(lockagent.Reset) {
			told++
			cancelAll()
		}))
	}
	store.Reset()
	store.Reset()
	if told != subscribers {
		t.Errorf("told %d times of a reset, want %d", told, subscribers)
	}

	cancels = nil
	woken := 0
	for range subscribers {
		cancels = append(cancels, store.Subscribe("orders/42", func(*lockagent.Pass) {
			if woken++; woken > subscribers { // not for the first time, as they stand
				cancelAll()
			}
		}))
	}
	for number := uint64(1); number <= 2; number++ {
		acquire(t, store, "orders/42", tenure(number), time.Minute)
		release(t, store, "orders/42", tenure(number))
	}
	if woken != 2*subscribers {
		t.Errorf("woken %d times, want %d", woken, 2*subscribers)
	}
}
