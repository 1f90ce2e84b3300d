package scenarios

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/quorum"
)

// majority is a world in memory whose store is a quorum of nodes. Redisson's lock of several servers has locks in
// place of nodes.
type majority struct {
	world
	nodes []*memstore.Store
}

func aMajority(t *testing.T, nodes int, run func(*majority)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &majority{world: world{T: t, kind: plain}}
		for range nodes {
			m.nodes = append(m.nodes, memstore.New())
		}
		m.memory = m.nodes[0] // time is virtual
		m.open = func() lockagent.Store {
			var shares []lockagent.Store
			for _, n := range m.nodes {
				shares = append(shares, n.Share())
			}
			return openQuorum(t, shares)
		}
		run(m)
	})
}

func openQuorum(t *testing.T, nodes []lockagent.Store) lockagent.Store {
	t.Helper()
	store, err := quorum.Config{NewNodes: true}.Open(nodes...)
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	return store
}

// owns has another program own the lock at one node.
func (m *majority) owns(node int) held {
	m.Helper()
	return m.agentOver(m.nodes[node].Share()).lock("the owner of node " + strconv.Itoa(node)).hold(m)
}

// tenOwnersCount has ten owners, each an agent, count to 50 with an option.
func tenOwnersCount(m *majority, opts ...channelapi.Option) {
	var locks []lock
	for _, a := range m.agents(10) {
		locks = append(locks, a.lock("alice", opts...))
	}
	count(&m.world, locks, 5, time.Second)
}

func TestI01I02OwnersCountUnderSevenNodes(t *testing.T) {
	aMajority(t, 7, func(m *majority) { tenOwnersCount(m, channelapi.Lease(2*time.Second)) })
}

func TestI03OwnersCountWithLongLeases(t *testing.T) {
	aMajority(t, 7, func(m *majority) { tenOwnersCount(m, channelapi.Lease(time.Minute)) })
}

func TestI04OwnersTryUntilTheyHaveCounted(t *testing.T) {
	aMajority(t, 3, func(m *majority) {
		n := 0
		var wg sync.WaitGroup
		for _, a := range m.agents(10) {
			l := a.lock("alice", channelapi.Lease(2*time.Second), channelapi.Wait(4*time.Second))
			wg.Go(func() {
				for done := 0; done < 5; {
					h, err := l.acquire(m.Context())
					if err != nil {
						wantErr(m, "the try", err, channelapi.ErrTimeout)
						continue
					}
					before := n
					m.sleep(time.Second)
					n = before + 1
					if err := h.release(m); err != nil {
						m.Errorf("release: %v", err)
					}
					done++
				}
			})
		}
		wg.Wait()
		if n != 50 {
			m.Errorf("counted %d, want 50", n)
		}
	})
}

func TestI05AMajorityOwnedByOthersIsInTheWay(t *testing.T) {
	aMajority(t, 3, func(m *majority) {
		m.owns(0)
		m.owns(1)
		a := m.agent()
		waiter := a.lock("waiter").start(m.Context())
		for range 3 {
			_, err := a.lock("trier", channelapi.Try()).acquire(m.Context())
			wantErr(m, "the try", err, channelapi.ErrHeld)
			m.sleep(time.Second)
		}
		select {
		case got := <-waiter:
			m.Errorf("the waiter got %v, %v", got.held, got.err)
		default:
		}
	})
}

func TestI07AMajorityIsEnough(t *testing.T) {
	for node := range 3 {
		t.Run(strconv.Itoa(node), func(t *testing.T) {
			aMajority(t, 3, func(m *majority) {
				owner := m.owns(node)
				first := m.agent().lock("first").hold(m)
				next := m.agent().lock("next").start(waittest.Context(m))
				m.sleep(3 * time.Second)
				must(m, first.release(m))
				got := <-next
				must(m, got.err)
				got.wantAfter(m, first)
				must(m, got.release(m))
				if !owner.valid() {
					m.Error("the owner of one node lost it")
				}
			})
		})
	}
}

func TestI08OneServerOfTwoIsDown(t *testing.T) {
	t.Parallel()
	up, down := redistest.Start(t), redistest.Start(t)
	w := &world{T: t, kind: plain, open: func() lockagent.Store {
		return openQuorum(t, []lockagent.Store{
			openRedis(t, up.URL()+"/0"), openRedis(t, up.URL()+"/1"), openRedis(t, down.URL()),
		})
	}}
	both := w.agents(2)
	for _, a := range both {
		a.lock("alice").guarded(t, func(held) {})
	}
	down.Kill()
	for range 3 {
		for _, a := range both {
			must(t, a.lock("alice").hold(t).release(t))
		}
	}
}
