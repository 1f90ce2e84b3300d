package quorum_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/quorum"
	"github.com/lockagent/lockagent/storetest"
)

// slow is a node behind a network: calls take a while, and so do replies. It sees to the rule of the
// port that an Acquire and a Release of one tenure are never under way at once.
type slow struct {
	*memstore.Store
	acquires func()
	t        *testing.T
	underWay *sync.Map // the calls, by tenure
}

func newSlow(t *testing.T, node *memstore.Store, acquires func()) slow {
	return slow{node, acquires, t, new(sync.Map)}
}

// begin notes a call, and returns the function that notes its end.
func (s slow) begin(of lockagent.Tenure, call string) (end func()) {
	if other, met := s.underWay.Swap(of, call); met && other != call {
		s.t.Errorf("%s of %s while %s is under way", call, of, other)
	}
	return func() { s.underWay.Delete(of) }
}

func later(do func()) { time.AfterFunc(time.Millisecond+rand.N(500*time.Microsecond), do) }

func (s slow) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	s.acquires()
	end := s.begin(req.Tenure, "Acquire")
	later(func() {
		s.Store.Acquire(ctx, req, func(r lockagent.AcquireReply, err error) { later(func() { end(); done(r, err) }) })
	})
}

func (s slow) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	end := s.begin(req.Tenure, "Release")
	later(func() {
		s.Store.Release(ctx, req, func(r lockagent.ReleaseReply, err error) { later(func() { end(); done(r, err) }) })
	})
}

func (s slow) Subscribe(name lockagent.Name, kind lockagent.LockKind, wake func()) (cancel func()) {
	return s.Store.Subscribe(name, kind, func() { later(wake) })
}

// Many agents ask at once, and each node grants another one first. Some agent soon has a majority,
// whichever nodes are there.
func TestSplitVotes(t *testing.T) {
	for _, away := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			all := newMemories(5)
			var mu sync.Mutex
			asked := 0
			const agents, visits = 8, 10
			began := time.Now()
			var group sync.WaitGroup
			for range agents {
				var nodes []lockagent.Store
				for i, m := range all {
					node := newSlow(t, m.Share(), func() { mu.Lock(); asked++; mu.Unlock() })
					if i < away {
						node.SetOutage(errDown)
					}
					nodes = append(nodes, node)
				}
				store, err := quorum.Open(nodes...)
				if err != nil {
					t.Fatal(err)
				}
				locks, err := channelapi.New(channelapi.Config{Store: store})
				if err != nil {
					t.Fatal(err)
				}
				group.Go(func() {
					for range visits {
						g, err := locks.Lock(string(orders)).Acquire(context.Background())
						if err != nil {
							t.Error(err)
							return
						}
						time.Sleep(time.Millisecond)
						if err := g.Release(context.Background()); err != nil {
							t.Error(err)
						}
					}
					_ = locks.Close()
					_ = store.Close()
				})
			}
			group.Wait()
			mu.Lock() // calls may come late
			took, calls := time.Since(began)/(agents*visits), asked/(agents*visits)
			mu.Unlock()
			t.Logf("%d nodes away: a grant each %v, with %d acquires at nodes", away, took, calls)
			if took > time.Second || calls > 400 {
				t.Errorf("%d nodes away: a grant took %v and %d acquires at nodes", away, took, calls)
			}
		})
	}
}

// All clocks are days apart, so the nodes grant, and no token suits a majority. What a waiter gives back
// wakes it. It pauses all the same.
func TestPauseAfterAnAttemptWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked := 0
		var nodes []lockagent.Store
		all := newMemories(3)
		for i, m := range all {
			m.StepClock(time.Duration(i) * 48 * time.Hour)
			nodes = append(nodes, newSlow(t, m.Share(), func() { mu.Lock(); asked++; mu.Unlock() }))
		}
		store, err := quorum.Open(nodes...)
		if err != nil {
			t.Fatal(err)
		}
		locks, err := channelapi.New(channelapi.Config{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all { // so that the waiter asks to be woken
			held := lockagent.AcquireRequest{
				Name: orders, Tenure: lockagent.Tenure{Agent: "holder", Number: 1}, Lease: time.Second,
			}
			if reply, err := storetest.Acquire(t, m, held); err != nil || !reply.Granted {
				t.Fatalf("Acquire at a node = %+v, %v", reply, err)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := locks.Lock(string(orders)).Acquire(ctx); !errors.Is(err, lockagent.ErrStoreUnavailable) {
			t.Errorf("error %v; want ErrStoreUnavailable", err)
		}
		_ = locks.Close()
		_ = store.Close()
		if t.Logf("%d acquires at nodes in 10 s", asked); asked < 3*10 || asked > 3*200 {
			t.Errorf("%d acquires at nodes in 10 s", asked)
		}
	})
}
