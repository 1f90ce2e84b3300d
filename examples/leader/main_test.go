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

// A leader that the store cannot hear stops before the next one starts. When it is heard
// again, it stands by.
func TestOneLeads(t *testing.T) {
	for name, partition := range map[string]func(*memstore.Store) (heal func()){
		"CutOff": func(s *memstore.Store) func() {
			s.SetOutage(errors.New("no route to host"))
			return func() { s.SetOutage(nil) }
		},
		"Silent": (*memstore.Store).Hang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { oneLeads(t, partition) })
		})
	}
}

func oneLeads(t *testing.T, partition func(*memstore.Store) (heal func())) {
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

	leader := <-leads
	time.Sleep(time.Hour)
	if leading.Load() != 1 || standingBy.Load() < 700 {
		t.Errorf("%d hosts lead, and the others stood by %d times", leading.Load(), standingBy.Load())
	}
	for range 2 {
		heal := partition(stores[leader])
		next := <-leads
		if next == leader {
			t.Error("a host leads that the store does not hear")
		}
		leader = next
		time.Sleep(time.Hour)
		heal()
		time.Sleep(time.Hour)
		if leading.Load() != 1 || len(leads) > 0 {
			t.Errorf("%d hosts lead when all are heard again, %d of them new", leading.Load(), len(leads))
		}
	}
	cancel()
	for range stores {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
