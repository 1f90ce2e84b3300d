package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// somewhereElse is the name of a lock that is not on a node.
func somewhereElse(cluster *redistest.Cluster, node *redistest.Server) lockagent.Name {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("elsewhere/%d", i); cluster.NodeOf(name) != node {
			return lockagent.Name(name)
		}
	}
}

func TestOpenACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	for _, url := range []string{cluster.URL(), cluster.Nodes[1].URL(), cluster.Nodes[1].URL() + "/0"} {
		store := open(t, url)
		for i := range 10 {
			name := lockagent.Name(fmt.Sprintf("orders/%d", i))
			sub := storetest.Subscribe(t, store, name)
			wakes(t, sub, store, name)
			sub.Cancel()
		}
	}
	refused(t, redisstore.Config{}, cluster.Nodes[0].URL()+"/1", lockagent.ErrBadURL, "only database 0")
	up := somewhereElse(cluster, cluster.Nodes[0])
	cluster.Nodes[0].Kill()
	refused(t, redisstore.Config{}, cluster.Nodes[0].URL(), lockagent.ErrStoreUnavailable, "refused")
	storetest.Subscribe(t, open(t, cluster.URL()), up).Cancel()
}

// Messages stay with the slot if the servers can do that.
func TestWakeUpsInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	command := "publish"
	if redistest.Sharded(t) {
		command = "spublish"
	}
	store, other := open(t, cluster.URL()), open(t, cluster.URL())
	for i := range 20 {
		name := lockagent.Name(fmt.Sprintf("orders/{%d}", i))
		sub := storetest.Subscribe(t, store, name)
		wakes(t, sub, other, name)
		if cluster.NodeOf(string(name)).Calls(command) == 0 {
			t.Errorf("the node of %q was not told to %s", name, command)
		}
	}
}

func TestANodeThatIsDownTroublesNoOther(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, redistest.WithConfig("cluster-require-full-coverage no"))
	store := open(t, cluster.URL())
	told := make(chan lockagent.Reset, 10)
	defer store.OnReset(func(r lockagent.Reset) { told <- r })()

	node := cluster.NodeOf("orders")
	here, there := wish("orders", agentA, 1), wish(somewhereElse(cluster, node), agentA, 1)
	acquire(t, store, here)
	acquire(t, store, there)
	sub := storetest.Subscribe(t, store, here.Name)
	run := node.Info("server", "run_id")
	node.Kill()
	_, err := storetest.Acquire(t, store, here)
	unavailable(t, "Acquire", err)
	release(t, store, there)
	there.Tenure.Number++
	acquire(t, store, there)

	node.Restart()
	cluster.AwaitOK(t)
	here.Tenure.Number++
	persistently(t, store, here)
	if reset := await(t, told); reset.Reason != "emptied" || !ofRun(reset.From, run) ||
		!ofRun(reset.To, node.Info("server", "run_id")) || reset.After <= 0 || reset.Before <= reset.After {
		t.Errorf("told %+v", reset)
	}
	sub.Await()
	release(t, store, here)
	wakes(t, sub, store, here.Name)
}

func TestASubscriptionFollowsItsSlot(t *testing.T) {
	t.Parallel()
	redistest.NeedsSharded(t)
	cluster := redistest.StartCluster(t, 3)
	store, other := open(t, cluster.URL()), open(t, cluster.URL())
	var subs []*storetest.Subscription
	name := func(i int) lockagent.Name { return lockagent.Name(fmt.Sprintf("{orders}/%d", i)) }
	for i := range 10 {
		subs = append(subs, storetest.Subscribe(t, store, name(i)))
	}
	stays := somewhereElse(cluster, cluster.NodeOf("orders"))
	staying := storetest.Subscribe(t, store, stays)
	for _, node := range cluster.Nodes {
		if node == cluster.NodeOf("orders") {
			continue
		}
		cluster.MoveSlot("orders", node)
		for i, sub := range subs {
			if !sub.Await() { // because it stands again
				t.Fatalf("subscription %d", i)
			}
		}
		wakes(t, subs[0], other, name(0))
		wakes(t, subs[9], other, name(9))
		wakes(t, staying, other, stays)
		for _, key := range []string{"lockagent_token:", "lockagent_clock:", "lockagent_even:", "lockagent_odd:"} {
			node.Do("EVAL", "for _, k in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', k) end", "0", key+"*")
		}
		for _, sub := range subs {
			drain(sub)
		}
	}
}

// A node may refuse subscriptions for a while, though they are its own.
func TestASubscriptionThatIsRefusedForNow(t *testing.T) {
	t.Parallel()
	redistest.NeedsSharded(t)
	cluster := redistest.StartCluster(t, 1, redistest.WithConfig("cluster-allow-pubsubshard-when-down no"))
	node := cluster.Nodes[0]
	store := open(t, cluster.URL())
	node.Do("CLUSTER", "DELSLOTS", "0")
	isDown := func() bool { return strings.Contains(node.Do("CLUSTER", "INFO").(string), "cluster_state:fail") }
	waittest.Until(t, "the Cluster to be down", isDown)
	wake := make(chan struct{}, 100)
	defer store.Subscribe("orders", lockagent.PlainLock, func() { wake <- struct{}{} })()
	waittest.Until(t, "an attempt to subscribe", func() bool {
		return strings.Contains(node.Info("errorstats", "errorstat_CLUSTERDOWN"), "count=")
	})
	select {
	case <-wake:
		t.Fatal("woken although nothing stands")
	default:
	}
	node.Do("CLUSTER", "ADDSLOTS", "0")
	await(t, wake)
}

func TestAFailoverInACluster(t *testing.T) {
	t.Run("to a replica that was there before", func(t *testing.T) { testFailoverInACluster(t, false) })
	// The data of a master get another id with its first replica.
	t.Run("to a replica that came later", func(t *testing.T) { testFailoverInACluster(t, true) })
}

func testFailoverInACluster(t *testing.T, later bool) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	var replica *redistest.Server
	addReplica := func() {
		replica = cluster.AddReplica(t, cluster.NodeOf("orders"))
		cluster.NodeOf("orders").AwaitReplica()
	}
	if !later {
		addReplica()
	}
	waiting, store := open(t, cluster.URL()), open(t, cluster.URL()) // one that makes no call learns little
	if later {
		acquire(t, store, wish("orders", agentA, 7)) // so it is connected to the master
		release(t, store, wish("orders", agentA, 7))
		addReplica()
	}
	told := make(chan lockagent.Reset, 10)
	defer store.OnReset(func(r lockagent.Reset) { told <- r })()
	req := wish("orders", agentA, 1)
	acquire(t, store, req)
	sub := storetest.Subscribe(t, waiting, "orders")
	master := cluster.NodeOf("orders")
	from, to := master.Info("server", "run_id"), replica.Info("server", "run_id")
	master.AwaitReplica()

	replica.Do("CLUSTER", "FAILOVER")
	waittest.Until(t, "the failover", func() bool { return replica.Info("replication", "role") == "master" })
	persistently(t, store, req) // the very tenure that has it
	if !sub.Await() {           // it stands again, at the new master
		t.FailNow()
	}
	release(t, store, req)
	wakes(t, sub, store, "orders")
	// Nothing tells of an orderly failover; when the old master goes, the store looks.
	master.Kill()
	if reset := await(t, told); reset.Reason != "failed over" || !ofRun(reset.From, from) || !ofRun(reset.To, to) {
		t.Errorf("told %+v; want a failover from %s to %s", reset, from, to)
	}
}

// ofRun reports whether an incarnation is that of a run of a server.
func ofRun(incarnation, run string) bool {
	_, rest, _ := strings.Cut(incarnation, ".")
	return strings.HasPrefix(rest, run[:16])
}

func TestNamesThatAClusterCannotRelease(t *testing.T) {
	t.Parallel()
	store := open(t, redistest.StartCluster(t, 1).URL())
	for _, name := range []lockagent.Name{"x{", "a}b", "{}z", "}x{y}"} {
		if _, err := storetest.Acquire(t, store, wish(name, agentA, 1)); !errors.Is(err, lockagent.ErrBadName) {
			t.Errorf("Acquire(%q): %v; want ErrBadName", name, err)
		}
	}
}
