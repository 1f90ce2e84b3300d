package channelapi_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

// Callers who name the same locks in opposite orders never wait in a circle.
func TestAllInOppositeOrders(t *testing.T) {
	const rounds = 150
	store := memstore.New()
	ctx := waittest.Context(t)
	var wg sync.WaitGroup
	guarded := 0 // by all three locks
	one, other := openOver(t, store), openOver(t, store)
	for i, locks := range []*channelapi.Locks{one, one, other, other} {
		all := []channelapi.AnyLock{locks.Lock("a"), locks.Lock("b"), locks.Lock("c")}
		if i%2 == 1 {
			slices.Reverse(all)
		}
		wg.Go(func() {
			for range rounds {
				grants, err := channelapi.All(ctx, all...)
				if err != nil {
					t.Errorf("All: %v", err)
					return
				}
				guarded++
				for _, g := range grants {
					if err := g.Release(ctx); err != nil {
						t.Errorf("Unlock: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	if guarded != 4*rounds {
		t.Errorf("counted %d, want %d", guarded, 4*rounds)
	}
}

// slow is a store that answers an Acquire late.
type slow struct {
	*memstore.Store
	takes func(lockagent.Name) time.Duration
}

func (s slow) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	time.AfterFunc(s.takes(req.Name), func() { s.Store.Acquire(ctx, req, done) })
}

// All of several locks that are free takes as long as one of them.
func TestAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 10 * time.Millisecond
		store := memstore.New()
		locks := openWith(t, channelapi.Config{Store: slow{store, func(lockagent.Name) time.Duration { return trip }}})
		begin := time.Now()
		grants, err := channelapi.All(t.Context(), locks.Lock("a"), locks.Lock("b"), locks.Lock("c"))
		wantErr(t, "All", err, nil)
		if took := time.Since(begin); took != trip {
			t.Errorf("it took %v, want %v", took, trip)
		}
		for _, g := range grants {
			unlock(t, g)
		}
		// With one that another agent has, the locks before it are kept.
		other := openOver(t, store)
		b := hold(t, other.Lock("b"))
		time.AfterFunc(time.Second, func() { b.ReleaseAsync(t.Context()) })
		begin = time.Now()
		a := make(chan bool, 1)
		time.AfterFunc(time.Second/2, func() {
			s, err := other.Lock("a").Status(t.Context())
			a <- err == nil && s.Locked
		})
		grants, err = channelapi.All(t.Context(), locks.Lock("a"), locks.Lock("b"), locks.Lock("c"))
		wantErr(t, "All", err, nil)
		if took := time.Since(begin); took != time.Second+trip { // c
			t.Errorf("it took %v, want %v", took, time.Second+trip)
		}
		if !<-a {
			t.Error("a was given back while All waited for b")
		}
		for _, g := range grants {
			unlock(t, g)
		}
	})
}

// A hold that ends while All still tries another lock is asked for again.
func TestAllLosesOneThatItTries(t *testing.T) {
	for what, way := range map[string]func(context.Context, ...channelapi.AnyLock) ([]channelapi.Grant, error){
		"All": channelapi.All,
		"AllAsync": func(ctx context.Context, locks ...channelapi.AnyLock) ([]channelapi.Grant, error) {
			g := <-channelapi.AllAsync(ctx, locks...)
			return g.List(), g.Err()
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locks := openWith(t, channelapi.Config{Store: slow{memstore.New(), func(n lockagent.Name) time.Duration {
					if n == "a" {
						return time.Millisecond
					}
					return time.Second
				}}})
				broken := make(chan bool, 1)
				time.AfterFunc(time.Second/2, func() {
					held, err := locks.Lock("a").Break(t.Context(), "ops")
					broken <- held && err == nil
				})
				grants, err := way(t.Context(), locks.Lock("a"), locks.Lock("b"))
				wantErr(t, what, err, nil)
				if !<-broken {
					t.Error("a was not held when it was broken")
				}
				for _, g := range grants {
					if !g.Held() {
						t.Errorf("%q is not held: %v", g.Name(), g.Cause())
					}
					unlock(t, g)
				}
			})
		})
	}
}
