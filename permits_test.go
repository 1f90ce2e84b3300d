package lockagent_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
)

// Two agents share a semaphore on a server. However many permits their owners want, no more are in use
// than there are, and none is lost.
func TestPermitsInUseOnAServer(t *testing.T) {
	t.Parallel()
	const most = 5
	server := redistest.Start(t)
	var all sync.WaitGroup
	var inUse atomic.Int64
	var shared [2]*channelapi.Semaphore
	for i := range shared {
		store, err := redisstore.Open(t.Context(), server.URL())
		if err != nil {
			t.Fatal(err)
		}
		locks, err := channelapi.New(channelapi.Config{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = locks.Close()
			_ = store.Close()
		})
		shared[i] = locks.Semaphore("workers")
	}
	if set, err := shared[0].TrySetPermits(t.Context(), most); err != nil || !set {
		t.Fatal(set, err)
	}
	for i := range 20 {
		all.Go(func() {
			n := i%most + 1
			for range 20 {
				err := shared[i%2].Do(t.Context(), n, func(context.Context, channelapi.Grant) error {
					defer inUse.Add(int64(-n))
					if now := inUse.Add(int64(n)); now > most {
						t.Errorf("%d permits are in use", now)
					}
					return nil
				})
				if err != nil {
					t.Errorf("Do: %v", err)
				}
			}
		})
	}
	all.Wait()
	if s, err := shared[1].Status(t.Context()); err != nil || s.Free != most || s.Taken != 0 {
		t.Errorf("status %+v, %v", s, err)
	}
}
