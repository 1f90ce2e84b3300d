package channelapi_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func TestLatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		one, two := openOver(t, store).Latch("ready"), openOver(t, store).Latch("ready")
		if err := one.Await(t.Context()); err != nil {
			t.Errorf("a latch that nobody set: %v", err)
		}
		if _, err := one.CountDown(t.Context()); !errors.Is(err, channelapi.ErrNoLatch) {
			t.Errorf("counted down: %v", err)
		}
		if err := one.Set(t.Context(), 3); err != nil {
			t.Error(err)
		}
		if err := two.Set(t.Context(), 3); !errors.Is(err, channelapi.ErrLatchSet) {
			t.Errorf("set twice: %v", err)
		}
		var waits []<-chan error
		for _, l := range []*channelapi.Latch{one, one, two} {
			waits = append(waits, l.AwaitAsync(t.Context()))
		}
		for left := int64(2); left >= 0; left-- {
			synctest.Wait()
			for i, w := range waits {
				if len(w) > 0 {
					t.Errorf("waiter %d did not wait", i)
				}
			}
			if n, err := one.CountDown(t.Context()); n != left || err != nil {
				t.Errorf("counted down to %d, %v; want %d", n, err, left)
			}
		}
		began := time.Now()
		for i, w := range waits {
			if err := <-w; err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
			if _, open := <-w; open {
				t.Errorf("waiter %d: the channel is not closed", i)
			}
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the waiters were woken after %v", waited)
		}
		if n, err := two.Count(t.Context()); n != 0 || err != nil {
			t.Errorf("count %d, %v", n, err)
		}
	})
}

// What ends the wait for a latch, other than that the latch is open.
func TestLatchWaitEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(t *testing.T, locks *channelapi.Locks, store *memstore.Store, cancel func())
		want []error
		most time.Duration
	}{
		"deleted": {func(t *testing.T, l *channelapi.Locks, _ *memstore.Store, _ func()) {
			if was, err := l.Latch("ready").Delete(t.Context()); !was || err != nil {
				t.Errorf("deleted: %t, %v", was, err)
			}
		}, []error{channelapi.ErrLatchGone}, 0},
		"forgotten": {
			func(_ *testing.T, _ *channelapi.Locks, s *memstore.Store, _ func()) { s.Reset() },
			[]error{channelapi.ErrLatchGone},
			0,
		},
		"cancelled": {
			func(_ *testing.T, _ *channelapi.Locks, _ *memstore.Store, cancel func()) { cancel() }, []error{context.Canceled}, 0,
		},
		"closed": {
			func(_ *testing.T, l *channelapi.Locks, _ *memstore.Store, _ func()) { _ = l.Close() },
			[]error{channelapi.ErrClosed},
			0,
		},
		"timed out": {
			func(*testing.T, *channelapi.Locks, *memstore.Store, func()) {},
			[]error{channelapi.ErrTimeout, context.DeadlineExceeded},
			time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				locks := openWith(t, channelapi.Config{Store: store})
				latch := locks.Latch("ready")
				if err := latch.Set(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				out := latch.AwaitAsync(ctx)
				synctest.Wait()
				began := time.Now()
				c.end(t, locks, store, cancel)
				err := <-out
				for _, want := range c.want {
					if !errors.Is(err, want) {
						t.Errorf("ended with %v, want %v", err, want)
					}
				}
				if name == "timed out" &&
					!strings.HasPrefix(err.Error(), `lockagent: wait for latch "ready" timed out after 1h0m0s`) {
					t.Errorf("the text is %q", err)
				}
				if waited := time.Since(began); waited != c.most {
					t.Errorf("ended after %v, want %v", waited, c.most)
				}
			})
		})
	}
}

// A change is made once, however often the store fails meanwhile.
func TestLatchChangesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		latch := openWith(t, channelapi.Config{Store: store}).Latch("ready")
		if err := latch.Set(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		store.SetOutage(channelapi.ErrStoreUnavailable)
		counted := latch.CountDownAsync(t.Context())
		time.Sleep(10 * time.Second)
		store.SetOutage(nil)
		if r := <-counted; r.Value != 4 || r.Err != nil {
			t.Errorf("counted down to %d, %v", r.Value, r.Err)
		}

		store.SetOutage(channelapi.ErrStoreUnavailable)
		began := time.Now()
		if _, err := latch.CountDown(t.Context()); !errors.Is(err, channelapi.ErrStoreUnavailable) {
			t.Errorf("counted down: %v", err)
		}
		if waited := time.Since(began); waited < 40*time.Second || waited > 45*time.Second {
			t.Errorf("tried for %v", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := latch.CountDown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("counted down: %v", err)
		}
	})
}

func TestBadLatch(t *testing.T) {
	locks := open(t)
	if err := locks.Latch("ready").Set(t.Context(), 0); !errors.Is(err, channelapi.ErrBadOption) {
		t.Errorf("set to 0: %v", err)
	}
	if err := locks.Latch("").Await(t.Context()); !errors.Is(err, channelapi.ErrBadName) {
		t.Errorf("no name: %v", err)
	}
	if err := new(channelapi.Latch).Await(t.Context()); !errors.Is(err, channelapi.ErrBadOption) {
		t.Errorf("the zero latch: %v", err)
	}
	if _, err := new(channelapi.Latch).Count(t.Context()); !errors.Is(err, channelapi.ErrBadOption) {
		t.Errorf("the zero latch: %v", err)
	}
	if _, err := locks.Lock("door").Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := locks.Latch("door").Await(t.Context()); !errors.Is(err, channelapi.ErrWrongKind) {
		t.Errorf("a lock: %v", err)
	}
}
