package actor

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// leasing notes for how long tenures are asked for.
type leasing struct {
	whole

	mu     sync.Mutex // guards leases
	leases []time.Duration
}

func (s *leasing) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	s.mu.Lock()
	s.leases = append(s.leases, req.Lease)
	s.mu.Unlock()
	s.whole.Acquire(ctx, req, done)
}

// A process that dies while it uses a lock again and again costs the others no more than a pass does, whatever the
// kind, and whether others use the lock, too.
func TestALockThatIsUsedAgainAndAgainHasShortLeases(t *testing.T) {
	for _, kind := range lockagent.LockKinds() {
		if kind == lockagent.Latch { // nobody holds it
			continue
		}
		for _, agents := range []int{1, 2} {
			t.Run(string(kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					memory := memstore.New()
					var stores []*leasing
					var users sync.WaitGroup
					for range agents {
						store := &leasing{whole: memory.Share()}
						stores = append(stores, store)
						a := startResting(t, Config{Store: store})
						if kind == lockagent.Semaphore || kind == lockagent.Permits {
							<-a.Permits(background, lockagent.PermitsRequest{Name: "door", Kind: kind, Op: lockagent.TrySetPermits, N: 1})
						}
						for _, owner := range []lockagent.Owner{"ann", "bob"} {
							users.Go(func() {
								for range 50 {
									released(t, granted(t, a.Acquire(background, "door", Request{Owner: owner, Kind: kind})))
									time.Sleep(15 * time.Millisecond)
								}
							})
						}
					}
					users.Wait()
					for _, store := range stores {
						short := func(lease time.Duration) bool { return lease <= lockagent.PassLease }
						first := slices.IndexFunc(store.leases, short) // before that, the agent has not had the lock yet
						if first < 0 ||
							slices.ContainsFunc(store.leases[first:], func(lease time.Duration) bool { return !short(lease) }) {
							t.Errorf("%d agents: asked for %v", agents, store.leases)
						}
					}
				})
			})
		}
	}
}
