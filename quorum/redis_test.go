package quorum_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/quorum"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

func TestContractOnRedis(t *testing.T) {
	t.Parallel()
	all := startServers(t, 3)
	storetest.Run(t, []lockagent.LockKind{lockagent.PlainLock}, func(t *testing.T) *storetest.Harness {
		for _, server := range all {
			server.Do("FLUSHALL")
		}
		open := func(t testing.TB) lockagent.Store { return openNodes(t, anyLease, deaf(all.dial(t))) }
		return &storetest.Harness{
			Store: open(t),
			Open:  open,
			PlantHolder: func(_ testing.TB, name lockagent.Name, _ lockagent.LockKind, holder string, count int, lease time.Duration) {
				for _, server := range all {
					server.Do("DEL", string(name))
					server.Do("HSET", string(name), holder, strconv.Itoa(count))
					if lease > 0 {
						server.Do("PEXPIRE", string(name), strconv.FormatInt(lease.Milliseconds(), 10))
					}
				}
			},
			PlantValue: func(_ testing.TB, name lockagent.Name) {
				for _, server := range all {
					server.Do("SET", string(name), "something else")
				}
			},
			NoQueue:       true,
			NoIncarnation: true,
		}
	})
}

// A server that came back empty may have forgotten who holds the lock. A program that has just started finds that out.
func TestAProgramStartsAfterAServerCameBackEmpty(t *testing.T) {
	t.Parallel()
	all := startServers(t, 3)
	open := func() *quorum.Store { return openNodes(t, quorum.Config{}, all.dial(t)) }
	try := func(s *quorum.Store, agent lockagent.AgentID) (lockagent.AcquireReply, error) {
		return storetest.Acquire(t, s, lockagent.AcquireRequest{
			Name: orders, Tenure: lockagent.Tenure{Agent: agent, Number: 1}, Lease: quorum.DefaultLongestLease,
		})
	}
	if reply, err := try(open(), "first"); !errors.Is(err, lockagent.ErrStoreUnavailable) {
		t.Fatalf("Acquire = %+v, %v; want ErrStoreUnavailable, because new servers look like emptied ones", reply, err)
	}
	for _, server := range all {
		server.Age(time.Hour)
	}
	if reply, err := try(open(), "holder"); err != nil || !reply.Granted {
		t.Fatalf("Acquire = %+v, %v; want it granted", reply, err)
	}
	all[2].Do("DEL", string(orders)) // as if it had been away: the other two are the majority
	all[1].Restart()
	for range 2 { // the first one leaves a trace at the server
		other := open()
		if reply, err := try(other, "other"); err != nil || reply.Granted || reply.Holder != "holder:1" {
			t.Errorf("Acquire = %+v, %v; want it held", reply, err)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}
	all[1].Age(time.Hour)
	all[0].Do("DEL", string(orders)) // the lease is over
	if reply, err := try(open(), "last"); err != nil || !reply.Granted {
		t.Errorf("Acquire = %+v, %v; want it granted", reply, err)
	}
}

// servers are real Redis servers that do not know each other.
type servers []*redistest.Server

func startServers(t *testing.T, n int) (all servers) {
	for range n {
		all = append(all, redistest.Start(t))
	}
	return all
}

// dial returns connections to the servers, for another agent.
func (all servers) dial(t testing.TB) []lockagent.Store {
	t.Helper()
	var urls []string
	for _, server := range all {
		urls = append(urls, server.URL())
	}
	return dial(t, urls...)
}

// dial opens stores, all at once: a test of the contract does that for each of its cases.
func dial(t testing.TB, urls ...string) []lockagent.Store {
	t.Helper()
	// Servers answer late on a machine that is busy.
	redis := redisstore.Config{SilenceTimeout: redisstore.DefaultCallTimeout, DialTimeout: storetest.Patience, Logger: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithTimeout(context.Background(), storetest.Patience)
	defer cancel()
	nodes, errs := make([]lockagent.Store, len(urls)), make([]error, len(urls))
	var group sync.WaitGroup
	for i, url := range urls {
		group.Go(func() { nodes[i], errs[i] = redis.Open(ctx, url) })
	}
	group.Wait()
	for i, node := range nodes {
		if errs[i] == nil {
			t.Cleanup(func() { _ = node.Close() })
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return nodes
}

func openNodes(t testing.TB, config quorum.Config, nodes []lockagent.Store) *quorum.Store {
	t.Helper()
	if config.NodeTimeout == 0 {
		config.NodeTimeout = redisstore.DefaultCallTimeout
	}
	s, err := config.Open(nodes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// deaf makes nodes that seem to forget nothing. They are emptied before each case, and some cases of the contract set the clock of the store ahead
// by an hour, by means of a token. To a store on Redis that looks like a step of the clock.
func deaf(nodes []lockagent.Store) (all []lockagent.Store) {
	for _, node := range nodes {
		all = append(all, deafNode{node})
	}
	return all
}

type deafNode struct{ lockagent.Store }

func (deafNode) RemembersSince() time.Time { return time.Time{} }

func (deafNode) OnReset(func(lockagent.Reset)) (cancel func()) { return func() {} }
