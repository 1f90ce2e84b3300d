package quorum_test

import (
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/quorum"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// A server that came back empty may have forgotten who holds the lock. A program that has just started finds that out.
func TestAProgramStartsAfterAServerCameBackEmpty(t *testing.T) {
	t.Parallel()
	all := startServers(t, 3)
	const lease = 30 * time.Minute // or the lease would be over too soon on a busy machine
	open := func() *quorum.Store { return openNodes(t, quorum.Config{LongestLease: lease}, all.dial(t)) }
	try := func(s *quorum.Store, agent lockagent.AgentID) (lockagent.AcquireReply, error) {
		return storetest.Acquire(t, s, lockagent.AcquireRequest{
			Name: orders, Tenure: lockagent.Tenure{Agent: agent, Number: 1}, Lease: lease,
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
	last := open()
	waittest.Until(t, "the end of a grace period", func() bool { // that began because somebody knew the server
		reply, err := try(last, "last")
		return err == nil && reply.Granted
	})
}

// Servers that were emptied have grace periods: a renewal puts a tenure back there, and nobody else is granted the
// lock.
func TestAHoldComesBackToAMajorityThatWasEmptied(t *testing.T) {
	t.Parallel()
	all := startServers(t, 3)
	config := quorum.Config{NewNodes: true, LongestLease: time.Hour}
	open := func(agent lockagent.AgentID) *quorum.Store {
		s := openNodes(t, config, all.dial(t))
		storetest.Listen(t, s, agent)
		return s
	}
	holder, other := open("holder"), open("other")
	try := func(s *quorum.Store, agent lockagent.AgentID, number uint64) (lockagent.AcquireReply, error) {
		return storetest.Acquire(t, s, lockagent.AcquireRequest{
			Name: orders, Tenure: lockagent.Tenure{Agent: agent, Number: number}, Lease: time.Hour,
		})
	}
	granted, err := try(holder, "holder", 1)
	if err != nil || !granted.Granted {
		t.Fatalf("Acquire = %+v, %v; want it granted", granted, err)
	}
	if reply, err := try(other, "other", 1); err != nil || reply.Granted {
		t.Fatalf("Acquire = %+v, %v; want it held", reply, err)
	}
	for _, server := range all[:2] {
		server.Do("FLUSHALL")
	}
	if reply, err := try(other, "other", 2); !errors.Is(err, lockagent.ErrStoreUnavailable) {
		t.Errorf("Acquire = %+v, %v; want ErrStoreUnavailable", reply, err)
	}
	renewal := lockagent.RenewRequest{
		Name: orders, Tenure: lockagent.Tenure{Agent: "holder", Number: 1}, Lease: time.Hour, Last: granted.Token,
		Urgent: true,
	}
	if reply, err := storetest.Renew(t, holder, renewal); err != nil || !reply.Held {
		t.Fatalf("Renew = %+v, %v; want it held", reply, err)
	}
	for i, server := range all {
		waittest.Until(
			t, "the tenure to be back", func() bool { return server.Do("HEXISTS", string(orders), "holder:1") == int64(1) },
		)
		t.Logf("server %d has it", i)
	}
	if reply, err := try(other, "other", 3); !errors.Is(err, lockagent.ErrStoreUnavailable) {
		t.Errorf("Acquire = %+v, %v; want ErrStoreUnavailable", reply, err)
	}
}

// Another program has the key of the lock at most of the servers: as a lock of Redisson, or as something else.
func TestWhatOthersHaveAtMostServers(t *testing.T) {
	t.Parallel()
	all := startServers(t, 3)
	s := openNodes(t, quorum.Config{NewNodes: true, LongestLease: time.Hour}, all.dial(t))
	try := func(number uint64) (lockagent.AcquireReply, error) {
		return storetest.Acquire(t, s, lockagent.AcquireRequest{
			Name: orders, Tenure: lockagent.Tenure{Agent: "ours", Number: number}, Lease: time.Hour,
		})
	}
	most := all[:2]
	const stranger = "8743c9c0-0795-4907-87fd-6c719a6b4586:1"
	for _, server := range most {
		server.Do("HSET", string(orders), stranger, "1")
	}
	if reply, err := try(1); err != nil || reply.Granted || reply.Holder != stranger {
		t.Errorf("Acquire = %+v, %v; want it held by %s", reply, err, stranger)
	}
	for _, server := range most {
		server.Do("SET", string(orders), "no lock")
	}
	if reply, err := try(2); !errors.Is(err, lockagent.ErrWrongType) || reply.Granted {
		t.Errorf("Acquire = %+v, %v; want ErrWrongType", reply, err)
	}
	for i, server := range most {
		if got := server.Do("GET", string(orders)); got != "no lock" {
			t.Errorf("server %d has %v under the name of the lock", i, got)
		}
		server.Do("DEL", string(orders))
	}
	if reply, err := try(3); err != nil || !reply.Granted {
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

// dial opens stores, all at once.
func dial(t testing.TB, urls ...string) []lockagent.Store {
	t.Helper()
	// Servers answer late on a machine that is busy.
	redis := redisstore.Config{
		CallTimeout: time.Minute, SilenceTimeout: time.Minute, DialTimeout: time.Minute,
		GraceFirst: redisstore.NoGraceFirst, Logger: slog.New(slog.DiscardHandler),
	}
	ctx := waittest.Context(t)
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
