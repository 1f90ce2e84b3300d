package channelapi_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

// Waiters of all processes get the lock in the order in which they came.
func ExampleLocks_FairLock() {
	store := memstore.New()
	here, there := locksOver(store), locksOver(store.Share())
	defer here.Close()
	defer there.Close()
	ctx := context.Background()

	first, _ := here.FairLock("orders/42").Acquire(ctx)
	waiting := []<-chan channelapi.Grant{
		there.FairLock("orders/42").AcquireAsync(ctx),
		here.FairLock("orders/42").AcquireAsync(ctx),
		there.FairLock("orders/42").AcquireAsync(ctx),
	}
	last := first.Token()
	_ = first.Release(ctx)
	for _, next := range waiting {
		g := <-next
		fmt.Println("after the one before:", g.Token() > last)
		last = g.Token()
		_ = g.Release(ctx)
	}
	// Output:
	// after the one before: true
	// after the one before: true
	// after the one before: true
}

func TestFairLockIsGrantedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		all := []*channelapi.Locks{openOver(t, store), openOver(t, store), openOver(t, store)}
		first := hold(t, all[0].FairLock(name))
		var order []int
		var waiting []<-chan lockagent.Grant
		for i := range 12 {
			waiting = append(waiting, all[i*i%3].FairLock(name, channelapi.Lease(time.Minute)).AcquireAsync(t.Context()))
			synctest.Wait()
		}
		unlock(t, first)
		for i, grants := range waiting {
			g := <-grants
			wantErr(t, "the grant", g.Err(), nil)
			order = append(order, i)
			for _, later := range waiting[i+1:] {
				if len(later) > 0 {
					t.Errorf("another was granted beside %d", i)
				}
			}
			unlock(t, g)
			synctest.Wait()
		}
		if !slices.IsSorted(order) || len(order) != len(waiting) {
			t.Errorf("granted in the order %v", order)
		}
		wantFree(t, all[0].FairLock(name))
	})
}

func TestFairLockOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := open(t)
		s := openSession(t, locks, "alice")
		one := hold(t, s.FairLock(name))
		waits := locks.FairLock(name).AcquireAsync(t.Context())
		synctest.Wait()
		two := hold(t, s.FairLock(name))
		if two.HoldCount() != 2 || two.Token() != one.Token() {
			t.Errorf("count %d, token %d after %d", two.HoldCount(), two.Token(), one.Token())
		}
		wantErr(t, "Release", s.FairLock(name).Release(t.Context()), nil)
		unlock(t, one)
		unlock(t, <-waits)
	})
}

// A name is one kind of lock while somebody uses it.
func TestFairLockIsNoPlainLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := open(t)
		g := hold(t, locks.FairLock("fair"))
		_, err := locks.Lock("fair").TryAcquire(t.Context())
		wantErr(t, "TryAcquire", err, lockagent.ErrWrongKind)
		if err == nil || !strings.Contains(err.Error(), "fair") || !strings.Contains(err.Error(), "plain") {
			t.Errorf("the error names not both kinds: %v", err)
		}
		unlock(t, g)
		synctest.Wait()
		unlock(t, hold(t, locks.Lock("fair")))
	})
}

// A process that stops does not hold the others up for longer than a pass lasts.
func TestFairLockPassesTheFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		frozen := store.Share()
		here, there := openOver(t, store), openWith(t, channelapi.Config{Store: frozen})
		first := hold(t, here.FairLock(name))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		there.FairLock(name).AcquireAsync(ctx)
		synctest.Wait()
		next := here.FairLock(name).AcquireAsync(t.Context())
		synctest.Wait()
		resume := frozen.Hang()
		defer resume()
		began := time.Now()
		unlock(t, first)
		unlock(t, <-next)
		if waited := time.Since(began); waited > lockagent.PassLease+time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}

func locksOver(store lockagent.Store) *channelapi.Locks {
	locks, err := channelapi.New(channelapi.Config{Store: store})
	if err != nil {
		panic(err)
	}
	return locks
}
