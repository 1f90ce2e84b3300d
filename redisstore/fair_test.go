package redisstore_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// openLocks opens an agent at a server.
func openLocks(t *testing.T, url string) *channelapi.Locks {
	t.Helper()
	return openLocksConfig(t, redisstore.Config{}, url)
}

// cutOff is for agents that lose messages and calls.
var cutOff = redisstore.Config{SilenceTimeout: time.Second, CallTimeout: 2 * time.Second}

func openLocksConfig(t *testing.T, config redisstore.Config, url string) *channelapi.Locks {
	t.Helper()
	locks, err := channelapi.New(channelapi.Config{Store: openConfig(t, config, url)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() }) // a server that a test has cut off confirms nothing
	return locks
}

// fairly has goroutines of all agents take a fair lock in turn, each so many times.
func fairly(t *testing.T, agents []*channelapi.Locks, goroutines, times int, work func(channelapi.Grant)) {
	t.Helper()
	var all sync.WaitGroup
	for i := range goroutines * len(agents) {
		lock := agents[i%len(agents)].FairLock("fair")
		all.Go(func() {
			for range times {
				g, err := lock.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				work(g)
				_ = g.Release(context.WithoutCancel(t.Context())) // what else is wrong, work tells
			}
		})
	}
	all.Wait()
}

// A grant of a fair lock costs an attempt and a release. An attempt that finds the lock held gets a place. The release
// of the holder passes the lock there.
func TestCommandsOfAFairLock(t *testing.T) {
	server := redistest.Start(t)
	store, other := open(t, server.URL()), open(t, server.URL())
	storetest.Listen(t, store, agentA)
	storetest.Listen(t, other, agentB)
	release := func(s *redisstore.Store, req lockagent.AcquireRequest, passes bool) {
		t.Helper()
		ending := end(req)
		ending.Kind = req.Kind
		if reply, err := storetest.Release(t, s, ending); err != nil || !reply.Released || reply.Passed != passes {
			t.Fatalf("Release = %+v, %v; want it released, and passed: %t", reply, err, passes)
		}
	}
	alone := func(number uint64) {
		req := wish("fair", agentA, number)
		req.Kind = lockagent.FairLock
		acquire(t, store, req)
		release(store, req, false)
	}
	handOff := func(number uint64) {
		ours, theirs := wish("fair", agentA, number), wish("fair", agentB, number)
		ours.Kind, theirs.Kind = lockagent.FairLock, lockagent.FairLock
		acquire(t, store, ours)
		queue(t, other, theirs)
		release(store, ours, true)
		release(other, theirs, false)
	}
	handOff(1) // for the first time, scripts have to be sent
	sent := record(t, server)
	expect := func(what string, want int) {
		t.Helper()
		lines := slices.DeleteFunc(sent.lines(t), func(line string) bool { return !strings.Contains(line, `"fair"`) })
		if len(lines) != want {
			t.Errorf("%s sent %q, want %d commands", what, lines, want)
		}
	}
	alone(2)
	expect("a grant without company", 2)
	handOff(3)
	expect("a grant and a hand-off", 4)
}

// An agent that is frozen has the first place. It is passed the lock, and does nothing.
func TestAFrozenWaiterOfAFairLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	living, frozen := openLocks(t, server.URL()), openLocksConfig(t, cutOff, "redis://"+proxy.Addr())
	first, err := living.FairLock("fair").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	places := func(n int64) func() bool {
		return func() bool { return server.Do("LLEN", "redisson_lock_queue:{fair}") == n }
	}
	theirs := frozen.FairLock("fair").AcquireAsync(t.Context())
	waittest.Until(t, "the first place", places(1))
	next := living.FairLock("fair").AcquireAsync(t.Context())
	waittest.Until(t, "the second place", places(2))
	proxy.DropReplies(true)
	proxy.DropRequests(true)
	if err := first.Release(t.Context()); err != nil {
		t.Error(err)
	}
	g := await(t, next)
	if g.Err() != nil {
		t.Fatal(g.Err())
	}
	proxy.DropReplies(false)
	proxy.DropRequests(false)
	proxy.Cut()
	if err := g.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if g := await(t, theirs); g.Err() != nil { // it has waited in vain for once, but not for ever
		t.Error(g.Err())
	}
}

// A store that forgets puts the places of all agents back in their order.
func TestAFairLockKeepsItsOrderWhenTheStoreForgets(t *testing.T) {
	for name, forget := range map[string]func(*redistest.Server){
		"emptied":           func(s *redistest.Server) { s.Do("FLUSHALL") },
		"killed, and empty": func(s *redistest.Server) { s.Kill(); s.Restart() },
	} {
		t.Run(name, func(t *testing.T) { placesComeBack(t, forget) })
	}
}

func placesComeBack(t *testing.T, forget func(*redistest.Server)) {
	t.Parallel()
	server := redistest.Start(t)
	graced := redisstore.Config{GraceFirst: redisstore.NoGraceFirst}
	agents := []*channelapi.Locks{
		openLocksConfig(t, graced, server.URL()), openLocksConfig(t, graced, server.URL()),
	}
	first, err := agents[0].FairLock("fair").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const waiters, atOnce = 10, 4 // the last ones ask in one call
	queued := func(n int64) func() bool {
		return func() bool { return server.Do("LLEN", "redisson_lock_queue:{fair}") == n }
	}
	var grants [waiters]<-chan channelapi.Grant
	for i := range grants {
		agent := agents[0]
		if i < waiters-atOnce {
			agent = agents[i%2]
		}
		if i <= waiters-atOnce {
			waittest.Until(t, "the places before", queued(int64(i)))
		}
		grants[i] = agent.FairLock("fair").AcquireAsync(t.Context())
	}
	waittest.Until(t, "all places", queued(waiters))
	forget(server)
	waittest.Until(t, "all places to come back", queued(waiters))
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, grant := range grants {
		g := await(t, grant)
		if err := g.Err(); err != nil {
			t.Fatal(err)
		}
		for later := range grants[i+1:] {
			select {
			case <-grants[i+1+later]:
				t.Fatalf("waiter %d was granted the lock before waiter %d", i+1+later, i)
			default:
			}
		}
		if err := g.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Connections are cut all the time: calls, replies and messages are lost, and calls are repeated.
func TestAFairLockOnABadNetwork(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	agents := []*channelapi.Locks{
		openLocksConfig(t, cutOff, "redis://"+proxy.Addr()), openLocksConfig(t, cutOff, "redis://"+proxy.Addr()),
		openLocks(t, server.URL()),
	}
	var inside, grants atomic.Int64
	fairly(t, agents, 3, 12, func(channelapi.Grant) {
		if inside.Add(1) > 1 {
			t.Error("the lock was granted twice")
		}
		switch grants.Add(1) % 10 {
		case 3:
			proxy.CutAfterReplies(500)
		case 6:
			proxy.CutAfterRequests(500)
		case 9:
			proxy.Cut()
		}
		inside.Add(-1)
	})
	for _, key := range []string{"redisson_lock_queue:{fair}", "redisson_lock_timeout:{fair}"} {
		waittest.Until(t, "that no place is left", func() bool { return server.Do("EXISTS", key) == int64(0) })
	}
}

// The server loses all its data while agents wait.
func TestAFairLockOfAServerThatIsEmptied(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	agents := []*channelapi.Locks{openLocks(t, server.URL()), openLocks(t, server.URL())}
	var grants atomic.Int64
	fairly(t, agents, 4, 10, func(channelapi.Grant) {
		if grants.Add(1)%15 == 0 {
			server.Do("FLUSHALL")
		}
	})
}

// While a program that does not pass the lock on has a place ahead, the store listens to the channel of
// each place behind, and tells the agent to look.
func TestTheChannelOfAPlace(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	messages := storetest.Listen(t, store, agentB)
	req := func(number uint64) lockagent.AcquireRequest {
		req := wish("fair", agentB, number)
		req.Kind = lockagent.FairLock
		return req
	}
	release := func(req lockagent.AcquireRequest) {
		t.Helper()
		if _, err := storetest.Release(t, store, lockagent.ReleaseRequest{
			Name: req.Name, Kind: req.Kind, Tenure: req.Tenure,
		}); err != nil {
			t.Error(err)
		}
	}
	subscribers := func(of lockagent.AcquireRequest, n int64) func() bool {
		return func() bool {
			return server.Do("PUBSUB", "NUMSUB", "redisson_lock__channel:{fair}:"+of.Tenure.String()).([]any)[1] == n
		}
	}
	holder, first, second := req(1), req(2), req(3)
	acquire(t, store, holder)
	queue(t, store, first)
	const java = "33333333-3333-4333-8333-333333333333:7"
	server.Do("RPUSH", "redisson_lock_queue:{fair}", java)
	queue(t, store, second)
	messages.Await(lockagent.MessageStandby, "fair", second.Tenure) // a message may have been missed
	waittest.Until(t, "a subscription", subscribers(second, 1))
	if !subscribers(first, 0)() {
		t.Error("subscribed for a place that no such program is ahead of")
	}
	server.Do("PUBLISH", "redisson_lock__channel:{fair}:"+second.Tenure.String(), "0")
	if m, ok := messages.Await(lockagent.MessageStandby, "fair", second.Tenure); ok &&
		(m.AskAfter != 0 || m.LockKind != lockagent.FairLock) {
		t.Errorf("told %+v", m)
	}
	release(second)
	waittest.Until(t, "the end of the subscription", subscribers(second, 0))
	release(first)
	release(holder)
}
