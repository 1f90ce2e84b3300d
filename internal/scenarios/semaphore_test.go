package scenarios

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

// permits is what both kinds of semaphores have.
type permits interface {
	Acquire(ctx context.Context, n int) (channelapi.Grant, error)
	AcquireAsync(ctx context.Context, n int) <-chan channelapi.Grant
	TryAcquire(ctx context.Context, n int) (channelapi.Grant, error)
	Status(ctx context.Context) (channelapi.PermitsStatus, error)
	TrySetPermits(ctx context.Context, n int) (bool, error)
	AddPermits(ctx context.Context, n int) (int, error)
	Delete(ctx context.Context) (bool, error)
}

// bothSemaphores runs a scenario for both kinds.
func bothSemaphores(t *testing.T, run func(w *world, open func(a *agent, opts ...channelapi.Option) permits)) {
	t.Run("semaphore", func(t *testing.T) {
		inMemory(t, plain, func(w *world) {
			run(w, func(a *agent, opts ...channelapi.Option) permits { return a.Semaphore("pool", opts...) })
		})
	})
	t.Run("permits", func(t *testing.T) {
		inMemory(t, plain, func(w *world) {
			run(w, func(a *agent, opts ...channelapi.Option) permits { return a.Permits("pool", opts...) })
		})
	})
}

func wantFreePermits(w *world, p permits, want int) {
	w.Helper()
	if s, err := p.Status(w.Context()); err != nil || s.Free != want {
		w.Errorf("%+v, %v; want %d permits free", s, err, want)
	}
}

func set(w *world, p permits, n int, want bool) {
	w.Helper()
	if was, err := p.TrySetPermits(w.Context(), n); was != want || err != nil {
		w.Errorf("set %d: %t, %v; want %t", n, was, err, want)
	}
}

func take(w *world, p permits, n int) channelapi.Grant {
	w.Helper()
	g, err := p.Acquire(waittest.Context(w), n)
	must(w, err)
	return g
}

func TestJ01WaiterForTwo(t *testing.T) {
	bothSemaphores(t, func(w *world, open func(*agent, ...channelapi.Option) permits) {
		mine, theirs := open(w.agent()), open(w.agent())
		set(w, mine, 1, true)
		one := take(w, mine, 1)
		two := theirs.AcquireAsync(w.Context(), 2)
		synctest.Wait()
		must(w, one.Release(w.Context()))
		w.sleep(time.Second)
		if len(two) > 0 {
			w.Fatal("two permits were granted of one")
		}
		_, err := mine.AddPermits(w.Context(), 1)
		must(w, err)
		g := <-two
		must(w, g.Err())
		must(w, g.Release(w.Context()))
	})
}

// A semaphore that does not exist has no permits. Its number is set once, and until it is deleted.
func TestJ04K03K10SetOnce(t *testing.T) {
	bothSemaphores(t, func(w *world, open func(*agent, ...channelapi.Option) permits) {
		p := open(w.agent())
		wantFreePermits(w, p, 0)
		set(w, p, 10, true)
		set(w, p, 15, false)
		wantFreePermits(w, p, 10)
		if was, err := p.Delete(w.Context()); !was || err != nil {
			w.Errorf("deleted %t, %v", was, err)
		}
		set(w, p, 1, true)
		wantFreePermits(w, p, 1)
	})
}

func TestJ05J06K12AddAndRemove(t *testing.T) {
	bothSemaphores(t, func(w *world, open func(*agent, ...channelapi.Option) permits) {
		for by, free := range map[int][3]int{4: {4, 14, 9}, -5: {-5, 5, 0}} {
			p := open(w.agent())
			set(w, p, 10, true)
			ten := take(w, p, 10)
			if n, err := p.AddPermits(w.Context(), by); n != free[0] || err != nil {
				w.Errorf("%d permits free, %v; want %d", n, err, free[0])
			}
			must(w, ten.Release(w.Context()))
			wantFreePermits(w, p, free[1])
			five := take(w, p, 5)
			wantFreePermits(w, p, free[2])
			must(w, five.Release(w.Context()))
			_, err := p.Delete(w.Context())
			must(w, err)
		}
	})
}

func TestJ07K13K15WaiterGetsAPermit(t *testing.T) {
	bothSemaphores(t, func(w *world, open func(*agent, ...channelapi.Option) permits) {
		mine, theirs := open(w.agent()), open(w.agent(), channelapi.Wait(2*time.Second))
		set(w, mine, 1, true)
		g := take(w, mine, 1)
		next := theirs.AcquireAsync(w.Context(), 1)
		w.sleep(time.Second)
		released := time.Now()
		must(w, g.Release(w.Context()))
		got := <-next
		must(w, got.Err())
		if waited := time.Since(released); waited > 0 {
			w.Errorf("the waiter got the permit after %v", waited)
		}
		_, err := mine.TryAcquire(w.Context(), 1)
		wantErr(w, "a try", err, channelapi.ErrHeld)
		wantFreePermits(w, mine, 0)
		must(w, got.Release(w.Context()))
	})
}

func TestJ11Drain(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		p := w.agent().Semaphore("pool")
		drained := func(want int) {
			w.Helper()
			if n, err := p.Drain(w.Context()); n != want || err != nil {
				w.Errorf("drained %d, %v; want %d", n, err, want)
			}
		}
		drained(0)
		set(w, p, 10, true)
		g := take(w, p, 3)
		drained(7)
		wantFreePermits(w, p, 0)
		must(w, g.Release(w.Context()))
	})
}

// countWith has agents increment a number, some times each, with permits of a number.
func countWith(
	w *world, open func(*agent, ...channelapi.Option) permits, agents, owners, times int, wanted func(int) int, total int,
) {
	all := w.agents(agents)
	set(w, open(all[0]), total, true)
	var workers sync.WaitGroup
	var mu sync.Mutex
	taken, count := 0, 0
	for i := range owners {
		workers.Go(func() {
			p := open(all[i%agents])
			for k := range times {
				n := wanted(k)
				g, err := p.Acquire(w.Context(), n)
				if err != nil {
					w.Error(err)
					return
				}
				mu.Lock()
				if taken += n; taken > total {
					w.Errorf("%d of %d permits are taken", taken, total)
				}
				count++
				mu.Unlock()
				w.sleep(10 * time.Millisecond)
				mu.Lock()
				taken -= n
				mu.Unlock()
				if err := g.Release(w.Context()); err != nil {
					w.Error(err)
				}
			}
		})
	}
	workers.Wait()
	if count != owners*times {
		w.Errorf("counted to %d, want %d", count, owners*times)
	}
	wantFreePermits(w, open(all[0]), total)
}

// A release does not make a semaphore that was deleted, and does not change one that was made since.
func TestJ13ReleaseAfterDelete(t *testing.T) {
	bothSemaphores(t, func(w *world, open func(*agent, ...channelapi.Option) permits) {
		p := open(w.agent())
		set(w, p, 5, true)
		first, second := take(w, p, 2), take(w, p, 1)
		deleted, err := p.Delete(w.Context())
		if must(w, err); !deleted {
			w.Error("there was nothing to delete")
		}
		_ = first.Release(w.Context()) // it may be lost
		wantFreePermits(w, p, 0)
		set(w, p, 7, true) // so nothing was there
		_ = second.Release(w.Context())
		wantFreePermits(w, p, 7)
	})
}

func TestJ14J17K19CountWithOnePermit(t *testing.T) {
	one := func(int) int { return 1 }
	bothSemaphores(t, func(w *world, open func(*agent, ...channelapi.Option) permits) {
		countWith(w, open, 1, 15, 1, one, 1)
	})
	bothSemaphores(t, func(w *world, open func(*agent, ...channelapi.Option) permits) {
		countWith(w, open, 30, 30, 1, one, 1)
	})
}

func TestJ16K20CountOften(t *testing.T) {
	one := func(int) int { return 1 }
	bothSemaphores(t, func(w *world, open func(*agent, ...channelapi.Option) permits) {
		countWith(w, open, 16, 16, 10, one, 1)
	})
}

func TestJ15OneOrAll(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		open := func(a *agent, opts ...channelapi.Option) permits { return a.Semaphore("pool", opts...) }
		wanted := func(k int) int {
			if k%2 == 1 {
				return math.MaxInt32
			}
			return 1
		}
		countWith(w, open, 4, 4, 10, wanted, math.MaxInt32)
	})
}

// Permits come back when their leases are over.
func TestK04K05K06K08K25LeasesRunOut(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		p := w.agent().Permits("pool", channelapi.Lease(time.Second))
		set(w, p, 2, true)
		numbers := func(free, taken int) {
			w.Helper()
			s, err := p.Status(w.Context())
			if err != nil || s.Free != free || s.Taken != taken || s.Total() != 2 {
				w.Errorf("%+v, %v; want %d free and %d taken", s, err, free, taken)
			}
		}
		numbers(2, 0)
		take(w, p, 1)
		numbers(1, 1)
		late := take(w, p, 1)
		numbers(0, 2)
		_, err := p.TryAcquire(w.Context(), 1)
		wantErr(w, "a third", err, channelapi.ErrHeld)
		began := time.Now()
		waiter, err := w.agent().Permits("pool").Acquire(waittest.Context(w), 2)
		must(w, err)
		if waited := time.Since(began); waited < 900*time.Millisecond || waited > time.Second+scatter {
			w.Errorf("the waiter waited %v for leases of 1s", waited)
		}
		wantLost(w, "the late release", late.Release(w.Context()), channelapi.LostExpired)
		numbers(0, 2)
		must(w, waiter.Release(w.Context()))
		numbers(2, 0)
	})
}

func TestK17K18PermitByItsID(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		a, b := w.agent().Permits("pool", channelapi.Lease(time.Second)), w.agent().Permits("pool")
		set(w, a, 1, true)
		const unknown = "00112233445566778899aabbccddeeff"
		wantErr(w, "the release of an unknown permit", b.ReleaseID(w.Context(), unknown), channelapi.ErrNoPermit)
		wantErr(
			w, "the extension of an unknown permit", b.ExtendID(w.Context(), unknown, time.Second), channelapi.ErrNoPermit,
		)
		id := take(w, a, 1).PermitIDs()[0]
		if len(id) != 32 {
			w.Errorf("the id is %q", id)
		}
		wantFreePermits(w, a, 0)
		w.sleep(1100 * time.Millisecond)
		wantFreePermits(w, a, 1)
		wantErr(
			w, "the extension of a permit that has expired", b.ExtendID(w.Context(), id, time.Second), channelapi.ErrNoPermit,
		)
		wantErr(w, "the release of a permit that has expired", b.ReleaseID(w.Context(), id), channelapi.ErrNoPermit)
	})
}

func TestK14K16K22SeveralAtOnce(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		p := w.agent().Permits("pool")
		set(w, p, 10, true)
		four, five := take(w, p, 4), take(w, p, 5)
		if len(four.PermitIDs()) != 4 || len(five.PermitIDs()) != 5 {
			w.Errorf("%d and %d ids", len(four.PermitIDs()), len(five.PermitIDs()))
		}
		wantFreePermits(w, p, 1)
		must(w, five.Release(w.Context()))
		wantFreePermits(w, p, 6)
		must(w, four.Release(w.Context()))
		wantFreePermits(w, p, 10)
		if err := four.Release(w.Context()); !errors.Is(err, channelapi.ErrNotHeld) {
			w.Errorf("released again: %v", err)
		}
		wantFreePermits(w, p, 10)
	})
}

func TestK29TwoWantTwo(t *testing.T) {
	bothSemaphores(t, func(w *world, open func(*agent, ...channelapi.Option) permits) {
		both := w.agents(2)
		set(w, open(both[0]), 2, true)
		var owners sync.WaitGroup
		for _, a := range both {
			owners.Go(func() {
				g, err := open(a, channelapi.Wait(2*time.Second)).Acquire(w.Context(), 2)
				if err != nil {
					w.Error(err)
					return
				}
				w.sleep(500 * time.Millisecond)
				if err := g.Release(w.Context()); err != nil {
					w.Error(err)
				}
			})
		}
		owners.Wait()
	})
}
