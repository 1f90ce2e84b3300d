package scenarios

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/channelapi"
)

func TestL01L02BoundedWait(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		for wait, want := range map[time.Duration]error{
			550 * time.Millisecond: nil, 499 * time.Millisecond: channelapi.ErrTimeout,
		} {
			latch, other := w.agent().Latch("start"), w.agent().Latch("start")
			must(w, latch.Set(w.Context(), 1))
			ctx, cancel := context.WithTimeout(w.Context(), wait)
			out := latch.AwaitAsync(ctx)
			w.sleep(500 * time.Millisecond)
			_, err := other.CountDown(w.Context())
			must(w, err)
			if err := <-out; !errors.Is(err, want) {
				w.Errorf("a wait of %v for a latch that opens after 500ms: %v, want %v", wait, err, want)
			}
			cancel()
		}
	})
}

func TestL04L08CountsDownToZero(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		latch, never := w.agent().Latch("start"), w.agent().Latch("never set")
		must(w, latch.Set(w.Context(), 2))
		for _, want := range []int64{1, 0, 0, 0} {
			before, err := latch.Count(w.Context())
			must(w, err)
			left, err := latch.CountDown(w.Context())
			if left != want || (before == 0) != errors.Is(err, channelapi.ErrNoLatch) {
				w.Errorf("%d counted down to %d, %v; want %d", before, left, err, want)
			}
		}
		must(w, latch.Await(w.Context()))
		must(w, never.Await(w.Context()))
		if n, err := never.Count(w.Context()); n != 0 || err != nil {
			w.Errorf("a latch that was never set has the count %d, %v", n, err)
		}
	})
}

func TestL05L06L07SetAndDeleted(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		latch := w.agent().Latch("start")
		deleted := func(want bool) {
			w.Helper()
			if was, err := latch.Delete(w.Context()); was != want || err != nil {
				w.Errorf("deleted %t, %v; want %t", was, err, want)
			}
		}
		deleted(false)
		must(w, latch.Set(w.Context(), 1))
		if err := latch.Set(w.Context(), 2); !errors.Is(err, channelapi.ErrLatchSet) {
			w.Errorf("set twice: %v", err)
		}
		if n, err := latch.Count(w.Context()); n != 1 || err != nil {
			w.Errorf("the count is %d, %v", n, err)
		}
		deleted(true)
	})
}

func TestL09L10ManyWaitAndManyCount(t *testing.T) {
	const many = 16
	inMemory(t, plain, func(w *world) {
		agents := w.agents(4)
		latch := func(i int) *channelapi.Latch { return agents[i%len(agents)].Latch("start") }
		must(w, latch(0).Set(w.Context(), many))
		var waits [many]<-chan error
		for i := range waits {
			waits[i] = latch(i).AwaitAsync(w.Context())
		}
		for i := range many {
			synctest.Wait()
			for j, out := range waits {
				if len(out) > 0 {
					w.Fatalf("waiter %d passed after %d of %d counts", j, i, many)
				}
			}
			_, err := latch(i).CountDown(w.Context())
			must(w, err)
		}
		began := time.Now()
		for _, out := range waits {
			must(w, <-out)
			if _, more := <-out; more {
				w.Error("a waiter was told twice")
			}
		}
		if waited := time.Since(began); waited > 0 {
			w.Errorf("the last waiter passed %v after the last count", waited)
		}
	})
}

func TestP19LatchIsDeletedWhileAwaited(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		latch := w.agent().Latch("start")
		must(w, latch.Set(w.Context(), 1))
		out := latch.AwaitAsync(w.Context())
		synctest.Wait()
		_, err := w.agent().Latch("start").Delete(w.Context())
		must(w, err)
		if err := <-out; !errors.Is(err, channelapi.ErrLatchGone) {
			w.Errorf("the wait ended with %v", err)
		}
	})
}
