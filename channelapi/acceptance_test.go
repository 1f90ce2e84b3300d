package channelapi_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

// The scenarios of this file come from Redisson's own tests of its lock, in the words of this
// package: a thread is an owner, and a client is an agent.

// agents opens several agents over one memory.
func agents(t testing.TB, n int) []*channelapi.Locks {
	t.Helper()
	store := memstore.New()
	all := make([]*channelapi.Locks, n)
	for i := range all {
		all[i] = openOver(t, store)
	}
	return all
}

func TestA02ManyOwnersOfFewLocksWaitShortly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		for _, locks := range agents(t, 2) {
			for _, n := range []string{"a", "b"} {
				wg.Go(func() {
					for range 2 {
						guarded(t, locks.Lock(n, channelapi.Wait(100*time.Millisecond)), func(lockagent.Grant) {})
					}
				})
			}
		}
		wg.Wait()
	})
}

func TestA03NobodyRenewsALockWhoseRequestWasCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := agents(t, 2)
		ctx, change := changing(t)
		grant := both[0].Lock(name, channelapi.Try()).AcquireAsync(ctx)
		time.Sleep(5 * time.Millisecond)
		change()
		time.Sleep(45 * time.Second)
		wantClosed(t, grant)
		wantFree(t, both[1].Lock(name))
	})
}

func TestA06WaitForALockThatAnotherAgentHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := agents(t, 2)
		hold(t, both[0].Lock(name))
		start := time.Now()
		_, err := both[1].Lock(name, channelapi.Wait(3*time.Second)).Acquire(t.Context())
		wantErr(t, "Acquire", err, lockagent.ErrTimeout)
		if waited := time.Since(start); waited != 3*time.Second {
			t.Errorf("waited %v, want 3s", waited)
		}
	})
}

func TestA07AWaitThatNothingInterrupts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := open(t)
		first := hold(t, locks.Lock(name, channelapi.Lease(10*time.Minute)))
		ctx, change := changing(t)
		grant := locks.Lock(name).AcquireAsync(context.WithoutCancel(ctx))
		change()
		time.Sleep(2 * time.Second)
		pending(t, grant)
		unlock(t, first)
		second := <-grant
		wantErr(t, "Err", second.Err(), nil)
		unlock(t, second)
	})
}

func TestA08Break(t *testing.T) {
	both := agents(t, 2)
	l := both[0].Lock(name)
	hold(t, l)
	if _, err := l.Break(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	wantFree(t, l)
	wantFree(t, both[0].Lock(name))
	wantFree(t, both[1].Lock(name))
}

func TestA10RemainingTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := open(t)
		l := locks.Lock(name)
		g := hold(t, locks.Lock(name, channelapi.Lease(time.Hour)))
		if s := inspect(t, l); s.Remaining != time.Hour {
			t.Errorf("%v remain of a lease of an hour", s.Remaining)
		}
		unlock(t, g)
		if s := inspect(t, l); s.Remaining != 0 {
			t.Errorf("%v remain of a free lock", s.Remaining)
		}
		g = hold(t, l)
		if s := inspect(t, l); s.Remaining != 30*time.Second {
			t.Errorf("%v remain of a kept lease, want 30s", s.Remaining)
		}
		unlock(t, g)
	})
}

func TestA12TheLockOfADeadHolderIsFreeAfterItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		mortal := store.Share()
		locks, other := openWith(t, channelapi.Config{Store: mortal}), openOver(t, store)
		g := hold(t, locks.Lock(name))
		next := other.Lock(name).AcquireAsync(t.Context())
		time.Sleep(15 * time.Second)
		if !g.Held() {
			t.Fatalf("lost while the holder lived: %v", g.Cause())
		}
		died := time.Now()
		_ = mortal.Close() // no call of the holder arrives any more
		n := <-next
		wantErr(t, "the next owner", n.Err(), nil)
		const scatter = 101 * time.Millisecond // of those who wait for the end of a lease
		if waited := time.Since(died); waited > 30*time.Second+scatter {
			t.Errorf("free after %v, want after at most a lease", waited)
		}
		// The holder was not dead after all, but learns that its hold is over.
		wantLost(t, g.Cause(), g, lockagent.LostDeadline)
		if n.Token() <= g.Token() {
			t.Errorf("token %d came after %d", n.Token(), g.Token())
		}
		unlock(t, n)
	})
}

func TestA13HoldCount(t *testing.T) {
	l := openSession(t, open(t), "alice").Lock(name)
	count := func(want int) {
		t.Helper()
		if s := inspect(t, l); s.HoldCount != want {
			t.Errorf("hold count %d, want %d", s.HoldCount, want)
		}
	}
	release := func() { wantErr(t, "Release", l.Release(t.Context()), nil) }
	count(0)
	hold(t, l)
	count(1)
	release()
	count(0)
	hold(t, l)
	hold(t, l)
	count(2)
	release()
	count(1)
	release()
	count(0)
}

func TestA14AnotherOwnerDoesNotHold(t *testing.T) {
	locks := open(t)
	openSession(t, locks, "bob")
	l := openSession(t, locks, "alice").Lock(name)
	g := hold(t, l)
	if inspect(t, l).HeldBy("bob") {
		t.Error("bob holds what alice locked")
	}
	unlock(t, g)
	if inspect(t, l).HeldBy("carol") {
		t.Error("carol holds what nobody locked")
	}
}

func TestA15TheOwnerHolds(t *testing.T) {
	l := openSession(t, open(t), "alice").Lock(name)
	heldBy := func(want bool) {
		t.Helper()
		if inspect(t, l).HeldBy("alice") != want {
			t.Errorf("held by alice: %t, want %t", !want, want)
		}
	}
	heldBy(false)
	g := hold(t, l)
	heldBy(true)
	unlock(t, g)
	heldBy(false)
}

func TestA16OthersSeeThatItIsLocked(t *testing.T) {
	both := agents(t, 2)
	g := hold(t, both[0].Lock(name))
	for _, locks := range both {
		if !inspect(t, openSession(t, locks, "bob").Lock(name)).Locked {
			t.Error("bob does not see the lock")
		}
	}
	unlock(t, g)
	for _, locks := range both {
		wantFree(t, openSession(t, locks, "carol").Lock(name))
	}
}

func TestA18LockedWhileHeld(t *testing.T) {
	l := open(t).Lock(name)
	wantFree(t, l)
	g := hold(t, l)
	if !inspect(t, l).Locked {
		t.Error("not locked while it is held")
	}
	unlock(t, g)
	wantFree(t, l)
}

func TestA19AStrangerCannotUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := open(t)
		g := hold(t, openSession(t, locks, "bob").Lock(name))
		stranger := openSession(t, locks, "alice").Lock(name)
		wantErr(t, "Release", stranger.Release(t.Context()), lockagent.ErrNotOwner)
		time.Sleep(time.Second)
		if !g.Held() {
			t.Errorf("bob lost the lock: %v", g.Cause())
		}
		unlock(t, g)
	})
}

func TestA20LockTwiceInARow(t *testing.T) {
	l := open(t).Lock(name)
	unlock(t, hold(t, l))
	unlock(t, hold(t, l))
}

// The agent renews the lease of a holder, however often others try meanwhile.
func TestA22TriesNeverStopTheRenewal(t *testing.T) {
	const owners = 16
	try := func(t *testing.T, locks *channelapi.Locks, work func()) (held bool) {
		g, err := locks.Lock(name).TryAcquire(t.Context())
		if err != nil {
			wantErr(t, "TryAcquire", err, lockagent.ErrHeld)
			return false
		}
		work()
		if !g.Held() {
			t.Errorf("not held before the release: %v", g.Cause())
		}
		wantErr(t, "Release", g.Release(t.Context()), nil)
		return true
	}
	t.Run("of long holds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			var wg sync.WaitGroup
			for i := range owners {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(22, uint64(i)))
					work := func() {
						if r.IntN(4) == 0 {
							time.Sleep(45 * time.Second) // beyond the lease
						}
					}
					for range 100 {
						if !try(t, locks, work) {
							time.Sleep(time.Duration(1 + r.IntN(int(10*time.Second))))
						}
					}
				})
			}
			wg.Wait()
			wantFree(t, locks.Lock(name))
		})
	})
	t.Run("in a hurry", func(t *testing.T) {
		locks := open(t)
		var wg sync.WaitGroup
		for range owners {
			wg.Go(func() {
				for range 500 {
					try(t, locks, func() {})
				}
			})
		}
		wg.Wait()
		wantFree(t, locks.Lock(name))
	})
}

func TestA23OneAgentCounts(t *testing.T) {
	locks := open(t)
	count := 0
	var wg sync.WaitGroup
	for range 15 {
		wg.Go(func() {
			guarded(t, locks.Lock(name), func(lockagent.Grant) { count++ })
		})
	}
	wg.Wait()
	if count != 15 {
		t.Errorf("counted %d, want 15", count)
	}
}

func TestA24ManyAgentsCountOftenAndSlowly(t *testing.T) {
	const n, loops = 16, 100
	synctest.Test(t, func(t *testing.T) {
		count := 0
		var last lockagent.Token
		var wg sync.WaitGroup
		for _, locks := range agents(t, n) {
			wg.Go(func() {
				for range loops {
					guarded(t, locks.Lock(name), func(g lockagent.Grant) {
						time.Sleep(10 * time.Millisecond)
						count++
						if g.Token() <= last {
							t.Errorf("token %d came after %d", g.Token(), last)
						}
						last = g.Token()
					})
				}
			})
		}
		wg.Wait()
		if count != n*loops {
			t.Errorf("counted %d, want %d", count, n*loops)
		}
	})
}

func TestA25ManyAgentsCountOnce(t *testing.T) {
	const n = 100
	count := 0
	var wg sync.WaitGroup
	for _, locks := range agents(t, n) {
		wg.Go(func() {
			guarded(t, locks.Lock(name), func(lockagent.Grant) { count++ })
		})
	}
	wg.Wait()
	if count != n {
		t.Errorf("counted %d, want %d", count, n)
	}
}

func TestB03ALostLockDoesNotSpoilTheRenewalOfLaterOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := openWith(t, channelapi.Config{Store: store, Lease: time.Second}).Lock(name)
		g := hold(t, l)
		store.Reset() // as a server that is restarted empty
		time.Sleep(2 * time.Second)
		wantLost(t, g.Release(t.Context()), g, lockagent.LostDenied)
		for range 2 {
			later := hold(t, l)
			if later.Token() <= g.Token() {
				t.Errorf("token %d came after %d", later.Token(), g.Token())
			}
			time.Sleep(2 * time.Second)
			if !later.Held() {
				t.Errorf("not renewed: %v", later.Cause())
			}
			unlock(t, later)
			time.Sleep(2 * time.Second)
			wantFree(t, l)
		}
	})
}
