package channelapi_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/channelapi"
)

func TestLeasesOfAll(t *testing.T) {
	t.Run("begins fixed leases when all are held", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			s := openSession(t, locks, "alice")
			const short, long = 2 * time.Second, 10 * time.Second
			busy := map[string]channelapi.Grant{"b": hold(t, locks.Lock("b")), "d": hold(t, locks.Lock("d"))}
			all := channelapi.AllAsync(
				t.Context(), s.Lock("d", channelapi.Lease(long)), s.Lock("a", channelapi.Lease(short)), locks.Lock("b"),
				locks.Lock("c", channelapi.Lease(long)),
			)
			for _, n := range []string{"b", "d"} {
				time.Sleep(3*short + long)
				unlock(t, busy[n])
				synctest.Wait()
			}
			got := <-all
			wantErr(t, "AllAsync", got.Err(), nil)
			for i, want := range []time.Duration{long, short, 0, long} {
				if left := got.List()[i].Remaining(); want != 0 && (left > want*9/10 || left < want*9/10-time.Millisecond) {
					t.Errorf("%v are left of the lease of %q, want nine tenths of %v", left, got.List()[i].Name(), want)
				}
			}
			time.Sleep(2 * short)
			wantLost(t, got.List()[1].Cause(), got.List()[1], channelapi.LostExpired) // nobody extends it any more
		})
	})
	t.Run("gives up when a hold is lost before the last lock is granted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			b := hold(t, locks.Lock("b"))
			time.AfterFunc(time.Minute, func() { locks.Lock("a").BreakAsync(context.Background(), "") })
			_, err := channelapi.All(t.Context(), locks.Lock("a", channelapi.Lease(time.Second)), locks.Lock("b"))
			if lost, _ := errors.AsType[*channelapi.LostError](err); lost == nil || lost.Name != "a" ||
				lost.Reason != channelapi.LostBroken {
				t.Errorf("All: %v, want the loss of a", err)
			}
			unlock(t, b)
		})
	})
	t.Run("does not wait for a store that is silent once all are held", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newFarStore()
			locks := openWith(t, channelapi.Config{Store: store})
			b := hold(t, locks.Lock("b"))
			all := channelapi.AllAsync(t.Context(), locks.Lock("a", channelapi.Lease(time.Minute)), locks.Lock("b"))
			time.Sleep(3 * roundTrip)
			b.ReleaseAsync(t.Context())
			time.Sleep(2*roundTrip + roundTrip/4) // the lock b has been returned and granted
			store.cut.Store(true)                 // before the extension of the other lease arrives
			synctest.Wait()
			select {
			case got := <-all:
				wantErr(t, "AllAsync", got.Err(), nil)
			default:
				t.Error("AllAsync waits though both are held")
			}
			store.cut.Store(false)
		})
	})
}

// A wait that has passed is over at once, whatever function is to wait.
func TestPassedWait(t *testing.T) {
	locks := open(t)
	passed := locks.Lock("a", channelapi.Wait(-1))
	for what, ask := range map[string]func() error{
		"Acquire":  func() error { _, err := passed.Acquire(t.Context()); return err },
		"First":    func() error { _, err := channelapi.First(t.Context(), passed, passed); return err },
		"All":      func() error { _, err := channelapi.All(t.Context(), locks.Lock("b"), passed); return err },
		"All of 1": func() error { _, err := channelapi.All(t.Context(), passed); return err },
		"AllAsync": func() error { return (<-channelapi.AllAsync(t.Context(), passed, locks.Lock("b"))).Err() },
		"Do":       func() error { return passed.Do(t.Context(), nil) },
		"DoAll":    func() error { return channelapi.DoAll(t.Context(), nil, passed, locks.Lock("b")) },
	} {
		err := ask()
		if e, ok := errors.AsType[*channelapi.WaitError](err); !ok || e.Name != "a" || !e.TimedOut {
			t.Errorf("%s: %v, want a WaitError of a", what, err)
		}
	}
}
