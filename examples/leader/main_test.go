package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store := memstore.New()
		var leading, standingBy atomic.Int64
		var last atomic.Uint64
		leads := make(chan int, 10)
		stores := make([]*memstore.Store, 3)
		ended := make(chan error)
		for host := range stores {
			stores[host] = store.Share()
			locks, err := open(stores[host], "host")
			if err != nil {
				t.Fatal(err)
			}
			defer locks.Close()
			go func() {
				ended <- lead(ctx, locks, func(ctx context.Context, token channelapi.Token) {
					if n, before := leading.Add(1), last.Swap(uint64(token)); n > 1 || uint64(token) <= before {
						t.Errorf("%d hosts lead; token %d came after %d", n, token, before)
					}
					leads <- host
					<-ctx.Done()
					time.Sleep(stopping)
					leading.Add(-1)
				}, func() { standingBy.Add(1) })
			}()
		}

		first := <-leads
		time.Sleep(time.Hour)
		if leading.Load() != 1 || standingBy.Load() < 700 {
			t.Errorf("%d hosts lead, and the others stood by %d times", leading.Load(), standingBy.Load())
		}
		_ = stores[first].Close() // no call of this host arrives any more
		second := <-leads
		if second == first {
			t.Error("a host leads that is cut off")
		}
		time.Sleep(time.Hour)
		cancel()
		for range stores {
			if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, channelapi.ErrClosed) {
				t.Error(err)
			}
		}
	})
}
