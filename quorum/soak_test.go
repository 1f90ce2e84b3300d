//go:build soak

package quorum_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/storetest"
)

func TestSoakMischief(t *testing.T) { mischief(t, 100) }

// In real time goroutines do not take turns.
func TestSoakContractInRealTime(t *testing.T) {
	t.Parallel()
	plain := []lockagent.LockKind{lockagent.PlainLock}
	storetest.Run(t, plain, func(t *testing.T) *storetest.Harness { return harness(t, 3) })
}

func TestSoakContractOnRedis(t *testing.T) {
	t.Parallel()
	all := startServers(t, 3)
	plant := func(_ testing.TB, name lockagent.Name, _ lockagent.LockKind, holder string, count int, lease time.Duration) {
		for _, server := range all {
			server.Do("DEL", string(name))
			server.Do("HSET", string(name), holder, strconv.Itoa(count))
			if lease > 0 {
				server.Do("PEXPIRE", string(name), strconv.FormatInt(lease.Milliseconds(), 10))
			}
		}
	}
	storetest.Run(t, []lockagent.LockKind{lockagent.PlainLock}, func(t *testing.T) *storetest.Harness {
		for _, server := range all {
			server.Do("FLUSHALL")
		}
		open := func(t testing.TB) lockagent.Store { return openNodes(t, anyLease, deaf(all.dial(t))) }
		return &storetest.Harness{
			Store:       open(t),
			Open:        open,
			PlantHolder: plant,
			PlantValue: func(_ testing.TB, name lockagent.Name) {
				for _, server := range all {
					server.Do("SET", string(name), "something else")
				}
			},
			NoIncarnation: true,
		}
	})
}

// deaf makes nodes that seem to forget nothing. They are emptied before each case, and some cases of the contract set
// the clock of the store ahead by an hour, by means of a token. To a store on Redis such a token looks like a step of
// the clock.
func deaf(nodes []lockagent.Store) (all []lockagent.Store) {
	for _, node := range nodes {
		history, _ := lockagent.Layer[lockagent.History](node)
		all = append(all, deafNode{node, history})
	}
	return all
}

type deafNode struct {
	lockagent.Store
	lockagent.History
}

// Unwrap is for [lockagent.Layer].
func (n deafNode) Unwrap() lockagent.Store { return n.Store }

func (deafNode) RemembersSince() time.Time { return time.Time{} }

func (deafNode) OnReset(func(lockagent.Reset)) (cancel func()) { return func() {} }
