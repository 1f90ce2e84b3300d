package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/storetest"
)

// While a slot migrates nobody is granted its locks. When it has moved, a release that came meanwhile takes effect, and
// the waiter in the queue has its turn: nobody sleeps until a lease ends, which is after an hour.
func TestAgentsThatWaitWhileASlotMigrates(t *testing.T) {
	t.Parallel()
	redistest.NeedsSharded(t)
	cluster := redistest.StartCluster(t, 2)
	from, to := cluster.Nodes[0], cluster.Nodes[1]
	if cluster.NodeOf("orders") != from {
		from, to = to, from
	}
	ctx := waittest.Context(t)
	var agents []*channelapi.Locks
	for range 2 {
		locks, err := channelapi.New(channelapi.Config{Store: open(t, cluster.URL()), Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = locks.Close() })
		agents = append(agents, locks)
	}
	held, err := agents[0].Lock("orders").Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	waits := func(agent int) <-chan lockagent.Grant {
		c := agents[agent].Lock("orders").AcquireAsync(ctx)
		waittest.Until(t, "somebody to wait", func() bool {
			for _, node := range cluster.Nodes {
				if node.Do("PUBSUB", "SHARDNUMSUB", "redisson_lock__channel:{orders}").([]any)[1] != int64(0) {
					return true
				}
			}
			return false
		})
		return c
	}
	next := waits(1) // with a place in the queue
	turn := 0
	pass := func(turns int) {
		t.Helper()
		for range turns {
			if err := held.Release(ctx); err != nil {
				t.Fatal(err)
			}
			if held = <-next; held.Err() != nil {
				t.Fatalf("turn %d: %v", turn, held.Err())
			}
			next = waits(turn % 2)
			turn++
		}
	}
	for range 2 {
		finish := cluster.BeginMove("orders", from, to)
		if err := held.Release(ctx); err != nil && !errors.Is(err, lockagent.ErrUnconfirmed) {
			t.Fatal(err)
		}
		finish()
		if held = <-next; held.Err() != nil {
			t.Fatal(held.Err())
		}
		next = waits(turn % 2)
		turn++
		pass(3)
		from, to = to, from
	}
}

// Slots move to other nodes, one after the other, while several agents contend for their locks.
// Nobody shares a lock, and afterwards every waiter has its turn. The leases are an hour long:
// nobody is saved by the end of one.
func TestAgentsThatContendWhileSlotsMove(t *testing.T) {
	t.Parallel()
	contendWhileSlotsMove(t, 2, 5)
}

func contendWhileSlotsMove(t *testing.T, locks, turns int) {
	cluster := redistest.StartCluster(t, 3)
	name := func(i int) string { return fmt.Sprintf("orders/%d", i) }
	ctx, stop := context.WithCancel(t.Context())
	var contenders sync.WaitGroup
	defer contenders.Wait()
	defer stop()
	granted := make([]chan bool, locks) // one value for each grant
	for i := range granted {
		granted[i] = make(chan bool)
	}
	within := make([]atomic.Int32, locks) // holders
	for range 3 {
		agent, err := channelapi.New(channelapi.Config{
			Store: open(t, cluster.URL()), Lease: time.Hour, HandOffGrants: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = agent.Close() })
		for i := range locks {
			contenders.Go(func() {
				for {
					held := <-agent.Lock(name(i)).AcquireAsync(ctx)
					if ctx.Err() != nil {
						return
					}
					if held.Err() != nil || within[i].Add(1) != 1 {
						t.Errorf("lock %d: %v, and %d hold it", i, held.Err(), within[i].Load())
						return
					}
					select {
					case granted[i] <- true:
					case <-ctx.Done():
					}
					within[i].Add(-1)
					err := held.Release(ctx)
					if err != nil && !errors.Is(err, lockagent.ErrUnconfirmed) && ctx.Err() == nil {
						t.Errorf("lock %d: %v", i, err)
					}
				}
			})
		}
	}
	take := func() {
		for range turns {
			for i := range granted {
				await(t, granted[i])
			}
		}
	}
	take()
	for round := 1; round < 3; round++ {
		for i := range locks {
			key, at := name(i), slices.Index(cluster.Nodes, cluster.NodeOf(name(i)))
			cluster.BeginMove(key, cluster.Nodes[(at+round-1)%3], cluster.Nodes[(at+round)%3])()
			take()
		}
	}
}

// While the slot of a semaphore moves, nobody is granted permits, and nobody loses some. Afterwards all who
// wait have their turns, and every permit is back.
func TestAgentsThatUsePermitsWhileASlotMoves(t *testing.T) {
	t.Parallel()
	usePermitsWhileASlotMoves(t, 2, 10)
}

func usePermitsWhileASlotMoves(t *testing.T, moves, turns int) {
	cluster := redistest.StartCluster(t, 2)
	from, to := cluster.Nodes[0], cluster.Nodes[1]
	if cluster.NodeOf("pool") != from {
		from, to = to, from
	}
	ctx, stop := context.WithCancel(t.Context())
	var users sync.WaitGroup
	defer users.Wait()
	defer stop()
	const permits, agents, each = 3, 2, 4
	var pools []*channelapi.Permits
	for range agents {
		locks, err := channelapi.New(channelapi.Config{Store: open(t, cluster.URL()), Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = locks.Close() })
		pools = append(pools, locks.Permits("pool"))
	}
	if _, err := pools[0].TrySetPermits(ctx, permits+1); err != nil {
		t.Fatal(err)
	}
	kept, err := pools[0].Acquire(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, cluster.URL())
	granted := make(chan bool) // one value for each grant
	var within atomic.Int32
	for i := range agents * each {
		users.Go(func() {
			for {
				g := <-pools[i%agents].AcquireAsync(ctx, 1)
				if ctx.Err() != nil {
					_ = g.Release(context.WithoutCancel(ctx)) // if it was granted
					return
				}
				if n := within.Add(1); g.Err() != nil || n > permits {
					t.Errorf("%v, and %d of %d permits are taken", g.Err(), n, permits)
					return
				}
				select {
				case granted <- true:
				case <-ctx.Done():
				}
				within.Add(-1)
				if err := g.Release(context.WithoutCancel(ctx)); err != nil &&
					!errors.Is(err, lockagent.ErrUnconfirmed) {
					t.Error(err)
				}
			}
		})
	}
	take := func() {
		for range turns {
			await(t, granted)
		}
	}
	take()
	for range moves {
		finish := cluster.BeginMove("pool", from, to)
		from.Do("MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), "pool", "0", "60000") // apart from the others
		status := pools[0].StatusAsync(ctx)
		for range 3 { // of the first calls none is answered
			if s, err := storetest.Permits(t, other, lockagent.PermitsRequest{
				Name: "pool", Kind: lockagent.Permits, Op: lockagent.ReadPermits,
			}); err == nil {
				t.Errorf("a node without all keys says %+v", s)
			}
		}
		finish()
		if s := <-status; s.Err != nil || s.Value.Total() != permits+1 {
			t.Errorf("after the move: %+v", s)
		}
		if !kept.Held() {
			t.Errorf("lost: %v", kept.Cause())
		}
		take()
		from, to = to, from
	}
	stop()
	users.Wait()
	if err := kept.Release(t.Context()); err != nil && !errors.Is(err, lockagent.ErrUnconfirmed) {
		t.Error(err)
	}
	waittest.Until(t, "all permits to be back", func() bool {
		s, err := pools[0].Status(t.Context())
		return err == nil && s.Taken == 0 && s.Free == permits+1
	})
}
