package redisstore_test

import (
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// What is no message to an agent is as good as lost, and those after it are heard.
func TestNonsenseIsNotHeard(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	messages := storetest.Listen(t, store, agentA)
	tenure := lockagent.Tenure{Agent: agentA, Number: 7}
	for _, payload := range []string{
		"", "0", "passed", "passed " + tenure.String() + " orders", "wanted orders",
		"wanted " + tenure.String() + " my orders",
	} {
		server.Do("PUBLISH", "lockagent_agent:"+string(agentA), payload)
	}
	messages.Await(lockagent.MessageWanted, "my orders", tenure)
	if n := messages.Count(lockagent.MessagePassed); n > 0 {
		t.Errorf("%d passes were heard", n)
	}
}

// An agent is told when messages may have been missed.
func TestMissedMessages(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	store := open(t, "redis://"+proxy.Addr())
	messages := storetest.Listen(t, store, agentA)
	missed := func(when string) {
		t.Helper()
		if _, ok := messages.Await(lockagent.MessagesMissed, "", lockagent.Tenure{}); !ok {
			t.Fatal(when)
		}
	}
	proxy.Cut()
	missed("after the connection was cut")
	server.Restart()
	missed("after the server was restarted")
	persistently(t, store, wish("orders", agentA, 1))
	for _, took := messages.Take(lockagent.MessagesMissed, "", lockagent.Tenure{}); took; {
		_, took = messages.Take(lockagent.MessagesMissed, "", lockagent.Tenure{})
	}
	server.Do("FLUSHALL")
	persistently(t, store, wish("orders", agentA, 2)) // finds it out
	missed("after the server was emptied")
}

// The script that finds a server without its memory publishes that. An agent that has a lock doubts the tenure at once.
// It does not wait until the store has looked at the server.
func TestAnEmptiedServerIsToldBeforeALook(t *testing.T) {
	server := redistest.Start(t)
	messages := storetest.Listen(t, open(t, server.URL()), agentA)
	tenure := lockagent.Tenure{Agent: agentA, Number: 7}
	server.Do("PUBLISH", "lockagent_agent:"+string(agentA), "wanted "+tenure.String()+" orders")
	messages.Await(lockagent.MessageWanted, "orders", tenure) // so the channels stand, and have told so
	before := messages.Count(lockagent.MessagesMissed)
	server.Do("PUBLISH", "lockagent_incarnation", "")
	waittest.Until(t, "the agent to hear of it", func() bool {
		return messages.Count(lockagent.MessagesMissed) > before
	})
}

// In a Cluster the channel for passes stands later than the first places are asked for. Those places go to nobody. So
// when it stands, all who wait have to ask again.
func TestPlacesOfAnAgentThatIsNotHeardYet(t *testing.T) {
	t.Parallel()
	redistest.NeedsSharded(t)
	cluster := redistest.StartCluster(t, 1)
	node, store, other := cluster.Nodes[0], open(t, cluster.URL()), open(t, cluster.URL())
	messages := storetest.Listen(t, other, agentB)
	storetest.Listen(t, store, agentA)
	// So that no place is told by a channel of its own.
	defer store.Subscribe(lockagent.Name(lockagent.FairLock), lockagent.FairLock, func() {})()
	waittest.Until(t, "agent A to be heard", func() bool {
		return node.Do("PUBSUB", "SHARDNUMSUB", "lockagent_agent:"+string(agentA)+":{fair}").([]any)[1] == int64(1)
	})
	for _, kind := range []lockagent.LockKind{lockagent.Permits, lockagent.Semaphore, lockagent.FairLock} {
		of := func(agent lockagent.AgentID, number uint64) lockagent.AcquireRequest {
			req := wish(lockagent.Name(kind), agent, number)
			req.Kind = kind
			return req
		}
		missed := func() {
			t.Helper()
			if _, ok := messages.Await(lockagent.MessagesMissed, lockagent.Name(kind), lockagent.Tenure{}); !ok {
				t.FailNow()
			}
		}
		if kind != lockagent.FairLock {
			node.Do("SET", string(kind), "1")
		}
		ours := of(agentA, 1)
		acquire(t, store, ours)
		queue(t, other, of(agentB, 1))
		queue(t, other, of(agentB, 2))
		left := end(ours)
		left.Kind = kind
		if reply, err := storetest.Release(t, store, left); err != nil || reply.Passed {
			t.Errorf("Release = %+v, %v; want nothing passed", reply, err)
		}
		acquire(t, store, of(agentA, 2)) // for there is no place any more
		defer other.Subscribe(lockagent.Name(kind), kind, func() {})()
		missed()
		node.Do("CLIENT", "KILL", "TYPE", "pubsub")
		missed()
	}
}

// An agent that is gone, or is cut off, is skipped at once.
func TestALockIsNotPassedToWhoIsGone(t *testing.T) {
	t.Parallel()
	redistest.NeedsSharded(t)
	server, cluster := redistest.Start(t), redistest.StartCluster(t, 3)
	for url, node := range map[string]*redistest.Server{server.URL(): server, cluster.URL(): cluster.NodeOf("orders")} {
		store, gone, other := open(t, url), open(t, url), open(t, url)
		agentC := lockagent.NewAgentID()
		storetest.Listen(t, gone, agentB)
		messages := storetest.Listen(t, other, agentC)
		storetest.Subscribe(t, gone, "orders")
		storetest.Subscribe(t, other, "orders")
		ours, theirs := wish("orders", agentA, 1), wish("orders", agentC, 1)
		acquire(t, store, ours)
		queue(t, gone, wish("orders", agentB, 1))
		queue(t, other, theirs)
		if err := gone.Close(); err != nil {
			t.Fatal(err)
		}
		waittest.Until(t, "the server to notice", func() bool { return !subscribed(node, agentB) })
		if released := release(t, store, ours); !released.Passed {
			t.Errorf("Release = %+v; want the lock passed", released)
		}
		messages.Await(lockagent.MessagePassed, "orders", theirs.Tenure)
	}
}

// All databases of a server share its channels. Locks of the same name in two databases are passed
// on all the same, each to the agent that waits for it.
func TestPassesInTwoDatabases(t *testing.T) {
	server := redistest.Start(t)
	type database struct {
		holder        *redisstore.Store
		messages      *storetest.Messages
		ours, waiting lockagent.AcquireRequest
	}
	var databases []database
	for i, url := range []string{server.URL(), server.URL() + "/1"} {
		waiter, agentC := open(t, url), lockagent.NewAgentID()
		d := database{
			open(t, url), storetest.Listen(t, waiter, agentC), wish("orders", agentA, uint64(i+1)),
			wish("orders", agentC, 1),
		}
		storetest.Subscribe(t, waiter, "orders")
		acquire(t, d.holder, d.ours)
		queue(t, waiter, d.waiting)
		databases = append(databases, d)
	}
	for i, d := range databases {
		if released := release(t, d.holder, d.ours); !released.Passed {
			t.Errorf("database %d: Release = %+v; want the lock passed", i, released)
		}
		d.messages.Await(lockagent.MessagePassed, "orders", d.waiting.Tenure)
		if seen, err := storetest.Inspect(t, d.holder, "orders"); err != nil ||
			seen.Holder != d.waiting.Tenure.String() {
			t.Errorf("database %d: Inspect = %+v, %v", i, seen, err)
		}
	}
	for i, d := range databases {
		if n := d.messages.Count(lockagent.MessagePassed); n > 1 {
			t.Errorf("database %d: %d passes were heard", i, n)
		}
	}
}

// subscribed reports whether an agent has a channel on a node.
func subscribed(node *redistest.Server, agent lockagent.AgentID) bool {
	for _, kind := range []string{"CHANNELS", "SHARDCHANNELS"} {
		if len(node.Do("PUBSUB", kind, "lockagent_agent:"+string(agent)+"*").([]any)) > 0 {
			return true
		}
	}
	return false
}

// The locks "a" and "{a}" share a channel for wake-ups, and tenures of them may have one
// number. But a pass is for one of them.
func TestAPassIsForOneLock(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1)
	for _, url := range []string{redistest.Start(t).URL(), cluster.URL()} {
		store, other := open(t, url), open(t, url)
		messages := storetest.Listen(t, other, agentB)
		storetest.Subscribe(t, other, "a")
		storetest.Subscribe(t, other, "{a}")
		acquire(t, store, wish("a", agentA, 1))
		acquire(t, store, wish("{a}", agentA, 2))
		queue(t, other, wish("a", agentB, 1))
		queue(t, other, wish("{a}", agentB, 1))
		if released := release(t, store, wish("{a}", agentA, 2)); !released.Passed {
			t.Errorf("Release = %+v; want the lock passed", released)
		}
		messages.Await(lockagent.MessagePassed, "{a}", lockagent.Tenure{Agent: agentB, Number: 1})
		if n := messages.Count(lockagent.MessagePassed); n > 0 {
			t.Error("the other lock was passed as well")
		}
	}
}
