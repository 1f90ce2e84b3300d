package scenarios

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

// Redisson has a semaphore inside for its waiters. We have the queue of a lock.

func TestO02AReleaseAfterTheWaiterHasLeft(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		a := w.agent()
		for range 100 {
			g := grantOf(w, a.Lock(name))
			ctx, leave := context.WithCancel(w.Context())
			waiter := a.Lock(name).AcquireAsync(ctx)
			synctest.Wait()
			go leave() // at the moment of the release
			must(w, g.Release(w.Context()))
			if got := <-waiter; got.Held() {
				must(w, got.Release(w.Context()))
			}
			leave()
			synctest.Wait()
			g = grantOf(w, a.Lock(name, channelapi.Try()))
			must(w, g.Release(w.Context()))
		}
	})
}

// grantOf returns the grant of a lock, or ends the test.
func grantOf(t testing.TB, l channelapi.AnyLock) channelapi.Grant {
	t.Helper()
	g, err := l.Acquire(t.Context())
	must(t, err)
	return g
}

func TestO03NobodyIsStrandedByAClose(t *testing.T) {
	const waiters = 300
	for _, closeAt := range []int64{0, 1, 150, 299} {
		inMemory(t, plain, func(w *world) {
			a := w.agent()
			g := grantOf(w, a.Lock(name))
			var granted atomic.Int64
			all := line(w, a, waiters, func() {
				if granted.Add(1) == closeAt {
					go func() { _ = a.Close() }()
				}
			})
			if closeAt == 0 {
				go func() { _ = a.Close() }()
			}
			_ = g.Release(w.Context())
			refused := int64(0)
			for _, done := range all {
				if err := <-done; err != nil && !errors.Is(err, channelapi.ErrLost) {
					wantErr(w, "a waiter", err, channelapi.ErrClosed)
					refused++
				}
			}
			if n := granted.Load(); n+refused != waiters || n < closeAt {
				w.Errorf("%d waiters were granted the lock, and %d refused; want %d", n, refused, waiters)
			}
		})
	}
}

func TestO04AllIsAsBeforeAfterManyWaiters(t *testing.T) {
	const waiters = 300
	inMemory(t, plain, func(w *world) {
		a := w.agent()
		l := a.Lock(name)
		g := grantOf(w, l)
		all := line(w, a, waiters, func() {})
		s, err := l.Status(w.Context())
		must(w, err)
		if s.Waiters != waiters {
			w.Errorf("%d wait, want %d", s.Waiters, waiters)
		}
		must(w, g.Release(w.Context()))
		for _, done := range all {
			must(w, <-done)
		}
		if s, err = l.Status(w.Context()); err != nil || s.Waiters != 0 || s.Locked || s.HoldCount != 0 {
			w.Errorf("%+v, %v; want that it is free and nobody waits", s, err)
		}
		must(w, grantOf(w, w.agent().Lock(name, channelapi.Try())).Release(w.Context()))
	})
}

// line has many wait for the lock. Each of them works and releases as soon as it is granted the lock.
func line(w *world, a *agent, waiters int, work func()) []<-chan error {
	all := make([]<-chan error, waiters)
	for i := range all {
		all[i] = a.Lock(name).DoAsync(w.Context(), func(context.Context, channelapi.Grant) error {
			work()
			return nil
		})
	}
	synctest.Wait()
	return all
}

// The store does not answer the release, so the lock does not come free. Those who wait ask for it seldom.
func TestO05AStalledReleaseMakesNobodySpin(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		stalled := w.memory.Share()
		near, far := &counting{Store: stalled}, &counting{Store: w.open()}
		holder, other := w.agentOver(near), w.agentOver(far)
		g := grantOf(w, holder.Lock(name))
		all := line(w, other, 50, func() { w.sleep(time.Minute) })
		seldom := func(most int64) {
			w.Helper()
			near.acquires.Store(0)
			far.acquires.Store(0)
			w.sleep(time.Minute)
			if n, m := near.acquires.Load(), far.acquires.Load(); n > most || m > most {
				w.Errorf("in a minute one agent asked %d times, the other %d times; want %d at most", n, m, most)
			}
		}
		resume := stalled.Hang()
		g.ReleaseAsync(w.Context())
		all = append(all, line(w, holder, 50, func() {})...) // after it, or they would be served by hand
		seldom(int64(time.Minute / memstore.DefaultBound))   // a call without an answer takes that long
		resume()
		stalled.SetOutage(errors.New("the server refuses connections"))
		seldom(150) // it tries again after half a second at least, and a few times sooner at first
		stalled.SetOutage(nil)
		for _, done := range all {
			must(w, <-done)
		}
	})
}

func TestO06TheOnlyWaiterIsServed(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		a := w.agent()
		l := a.Lock(name)
		g := grantOf(w, l)
		for range 100 {
			next := l.AcquireAsync(w.Context())
			synctest.Wait()
			if s, err := l.Status(w.Context()); err != nil || s.Waiters != 1 {
				w.Fatalf("%+v, %v; want one who waits", s, err)
			}
			must(w, g.Release(w.Context()))
			select {
			case g = <-next:
				must(w, g.Err())
			default:
				w.Fatal("the only waiter has not got it")
			}
		}
		must(w, g.Release(w.Context()))
	})
}

func TestO07WaitersThatTimeOutLeaveNothing(t *testing.T) {
	const waiters = 10_000
	inMemory(t, plain, func(w *world) {
		a := w.agent()
		g := grantOf(w, a.Lock(name))
		l := a.Lock(name, channelapi.Wait(time.Second))
		type mark struct{ _ [16]byte }
		type key struct{}
		var marks [waiters]weak.Pointer[mark] // each is in the context of one request
		func() {
			var all [waiters]<-chan channelapi.Grant
			for i := range all {
				m := new(mark)
				marks[i] = weak.Make(m)
				all[i] = l.AcquireAsync(context.WithValue(w.Context(), key{}, m))
			}
			if s, err := l.Status(w.Context()); err != nil || s.Waiters != waiters {
				w.Errorf("%+v, %v; want %d who wait", s, err, waiters)
			}
			for _, c := range all {
				wantErr(w, "a waiter", (<-c).Err(), channelapi.ErrTimeout)
			}
		}()
		if s, err := l.Status(w.Context()); err != nil || s.Waiters != 0 {
			w.Errorf("%+v, %v; want that nobody waits", s, err)
		}
		runtime.GC()
		left := 0
		for _, m := range marks {
			if m.Value() != nil {
				left++
			}
		}
		if left > 10 { // the last of them may be in a register, or in a message that is used again
			w.Errorf("%d of %d requests are still in memory", left, waiters)
		}
		must(w, g.Release(w.Context()))
	})
}

func TestO08ACloseAnswersThoseWhoWait(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		both := w.agents(2)
		h := both[0].lock("alice").hold(w)
		s, err := both[1].Session("bob")
		must(w, err)
		bobs := s.Lock(name).AcquireAsync(w.Context())
		others := both[1].Lock(name).AcquireAsync(w.Context())
		synctest.Wait()
		must(w, s.Close(w.Context()))
		wantErr(w, "a waiter of a closed session", (<-bobs).Err(), channelapi.ErrSessionClosed)
		must(w, both[1].Close())
		wantErr(w, "a waiter of a closed agent", (<-others).Err(), channelapi.ErrClosed)
		// Nobody has got anything by that.
		_, err = w.agent().lock("carol", channelapi.Try()).acquire(w.Context())
		wantErr(w, "carol's try", err, channelapi.ErrHeld)
		must(w, h.release(w))
	})
}

func TestO09AnObserverSeesNoMoreThanThereIs(t *testing.T) {
	const workers, loops = 8, 100
	onRedis(t, plain, func(w *world) {
		both := w.agents(2)
		var wg sync.WaitGroup
		var inside, done atomic.Int64
		const permits = 3
		pools := [2]*channelapi.Semaphore{both[0].Semaphore("pool"), both[1].Semaphore("pool")}
		set(w, pools[0], permits, true)
		for i := range workers {
			l, pool := both[i%2].Lock(name), pools[i%2]
			wg.Go(func() {
				defer done.Add(1)
				for n := range loops {
					var used error
					if n%5 == 0 {
						used = pool.Do(w.Context(), 1+i%permits, func(context.Context, channelapi.Grant) error { return nil })
					}
					err := l.Do(w.Context(), func(context.Context, channelapi.Grant) error {
						if n := inside.Add(1); n != 1 {
							w.Errorf("%d are inside", n)
						}
						inside.Add(-1)
						return nil
					})
					if err = errors.Join(used, err); err != nil {
						w.Errorf("Do: %v", err)
					}
				}
			})
		}
		for looks := 0; looks == 0 || done.Load() < workers; looks++ {
			for _, a := range both {
				s, err := a.Lock(name).Status(w.Context())
				if err != nil || s.HoldCount < 0 || s.HoldCount > 1 || s.Locked != (s.HoldCount == 1) || s.Waiters < 0 ||
					s.Waiters > workers/2 {
					w.Fatalf("%+v, %v", s, err)
				}
			}
			for _, pool := range pools {
				if s, err := pool.Status(w.Context()); err != nil || s.Free < 0 || s.Taken < 0 || s.Free+s.Taken != permits {
					w.Fatalf("%+v, %v", s, err)
				}
			}
		}
		wg.Wait()
	})
}

// An agent asks the store twice, before and after it has subscribed, however many wait. After that each release
// passes the lock on.
func TestP18ManyWaitersAskSeldom(t *testing.T) {
	const agents, waiters = 50, 20
	inMemory(t, plain, func(w *world) {
		g := grantOf(w, w.agent().Lock(name))
		var stores [agents]counting
		var all []<-chan error
		for i := range stores {
			stores[i].Store = w.open()
			all = append(all, line(w, w.agentOver(&stores[i]), waiters, func() { w.sleep(time.Millisecond) })...)
		}
		attempts := func() (n int64) {
			for i := range stores {
				n += stores[i].acquires.Swap(0)
			}
			return n
		}
		if n := attempts(); n > 2*agents {
			w.Errorf("%d attempts until %d agents waited", n, agents)
		}
		must(w, g.Release(w.Context()))
		for _, done := range all {
			must(w, <-done)
		}
		if n := attempts(); n > agents {
			w.Errorf("%d attempts for %d grants", n, agents*waiters)
		}
	})
}

func TestP22ASessionBelongsToNoGoroutine(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		a := w.agent()
		alice, bob := a.lock("alice"), a.lock("bob", channelapi.Try())
		got := alice.start(w.Context()) // another goroutine, another thread
		h := <-got
		must(w, h.err)
		must(w, alice.hold(w).release(w)) // the session may again, here
		_, err := bob.acquire(w.Context())
		wantErr(w, "another session on the same thread", err, channelapi.ErrHeld)
		must(w, alice.release(w))
		must(w, bob.hold(w).release(w))
	})
}
