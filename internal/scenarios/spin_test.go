package scenarios

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
)

// timed takes down when an agent asks its store.
type timed struct {
	lockagent.Store
	mu   sync.Mutex // guards asks
	asks []time.Time
}

// Unwrap is for [lockagent.Layer].
func (s *timed) Unwrap() lockagent.Store { return s.Store }

func (s *timed) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	s.mu.Lock()
	s.asks = append(s.asks, time.Now())
	s.mu.Unlock()
	s.Store.Acquire(ctx, req, done)
}

// The pauses are 1 ms, 2 ms and so on, and at most 128 ms. A part of each is random.
func TestC05PausesOfASpinLockGrow(t *testing.T) {
	inMemory(t, spin, func(w *world) {
		h := w.agent().lock("alice").hold(w)
		store := &timed{Store: w.open()}
		next := w.agentOver(store).lock("bob").start(w.Context())
		w.sleep(10 * time.Second)
		must(w, h.release(w))
		got := <-next
		must(w, got.err)
		must(w, got.release(w))
		pause := time.Millisecond
		for i, at := range store.asks[1:] {
			if waited := at.Sub(store.asks[i]); waited < pause/2 || waited > pause {
				w.Errorf("pause %d took %v, want at most %v and at least half of it", i+1, waited, pause)
			}
			pause = min(2*pause, 128*time.Millisecond)
		}
		if n := len(store.asks); n < 10_000/128 {
			w.Errorf("asked %d times in 10s", n)
		}
	})
}

func TestG21AWaitInVainForWhatComesOnAChannel(t *testing.T) {
	inMemory(t, spin, func(w *world) {
		both := w.agents(2)
		h := both[0].lock("alice").hold(w)
		start := time.Now()
		g := <-both[1].SpinLock(name, channelapi.Wait(time.Second)).AcquireAsync(w.Context())
		wantErr(w, "the request", g.Err(), channelapi.ErrTimeout)
		if waited := time.Since(start); waited != time.Second {
			w.Errorf("waited %v, want 1s", waited)
		}
		must(w, h.release(w))
	})
}

func TestG23ATryThatSucceedsOnAChannel(t *testing.T) {
	inMemory(t, spin, func(w *world) {
		g := <-w.agent().SpinLock(name, channelapi.Try()).AcquireAsync(w.Context())
		must(w, g.Err())
		must(w, g.Release(w.Context()))
	})
}
