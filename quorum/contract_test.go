package quorum_test

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/quorum"
	"github.com/lockagent/lockagent/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The contract runs on nodes in memory, and in virtual time. That it holds for a node on Redis is proved there. What
// Redis can break here, TestLocksOnRedis, TestAProgramStartsAfterAServerCameBackEmpty and
// TestWhatOthersHaveAtMostServers see. The whole contract in real time, and on Redis, is in make soak.
func TestContract(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			storetest.RunInBubble(
				t, []lockagent.LockKind{lockagent.PlainLock}, func(t *testing.T) *storetest.Harness { return harness(t, nodes) },
			)
		})
	}
}

// anyLease is a Config for tests of the contract, which have leases of any length. The machine may be
// busy, and no node is silent there.
var anyLease = quorum.Config{LongestLease: lockagent.MaxLease, NodeTimeout: storetest.Patience}

func harness(t testing.TB, n int) *storetest.Harness {
	memories := newMemories(n)
	return &storetest.Harness{
		Store: memories.open(t, anyLease),
		Open:  func(t testing.TB) lockagent.Store { return memories.open(t, anyLease) },
		PlantHolder: func(
			_ testing.TB, name lockagent.Name, _ lockagent.LockKind, holder string, count int, lease time.Duration,
		) {
			for _, m := range memories {
				m.PlantHolder(name, holder, count, lease)
			}
		},
		PlantValue: func(_ testing.TB, name lockagent.Name) {
			for _, m := range memories {
				m.PlantValue(name)
			}
		},
		NoIncarnation: true,
	}
}

// memories are the servers behind quorums.
type memories []*memstore.Store

func newMemories(n int) (all memories) {
	for range n {
		all = append(all, memstore.New())
	}
	return all
}

// open returns a quorum for another agent.
func (all memories) open(t testing.TB, config quorum.Config) *quorum.Store {
	t.Helper()
	s, _ := all.opened(t, config)
	return s
}

// opened is open, with the connections of that agent to the nodes.
func (all memories) opened(t testing.TB, config quorum.Config) (*quorum.Store, memories) {
	t.Helper()
	var own memories
	var nodes []lockagent.Store
	for _, m := range all {
		own = append(own, m.Share())
		nodes = append(nodes, own[len(own)-1])
	}
	s, err := config.Open(nodes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, own
}
