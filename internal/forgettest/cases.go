package forgettest

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// Case is a way in which a store forgets, or changes to another server.
type Case struct {
	Name string
	// Frozen is whether an agent does not run for some of the time.
	Frozen bool
	times  int           // in one run
	settle time.Duration // after each time
	// begin starts the servers. forget has them forget.
	begin func(t testing.TB) (url string, forget func(w *world))
}

// Cases are all of them.
var Cases = []Case{
	{Name: "lone, kill -9, empty restart", times: 2, settle: 5 * time.Second / 2, begin: restarted},
	{Name: "lone, FLUSHALL", times: 3, settle: 2 * time.Second, begin: flushed},
	{
		Name: "lone, emptied, an agent frozen", Frozen: true, times: 1, settle: 3 * time.Second,
		begin: emptiedWhileFrozen,
	},
	{
		Name: "Sentinel, replica lags, kill -9", times: 1, settle: 4 * time.Second,
		begin: failedOverBySentinel,
	},
	{Name: "Cluster, CLUSTER FAILOVER", times: 1, settle: 3 * time.Second, begin: failedOverByHand},
	{Name: "Cluster, replica lags, kill -9", times: 1, settle: 4 * time.Second, begin: takenOver},
}

// atOnce bounds the runs under way: more of them would judge the machine. To start servers takes time, and little work.
var atOnce = make(chan struct{}, runtime.NumCPU())

// Run runs the case once: two agents that use a library work with locks of some kinds while the store forgets.
func (c Case) Run(t testing.TB, library string, kinds []Kind) Figures {
	t.Helper()
	url, forget := c.begin(t)
	atOnce <- struct{}{}
	defer func() { <-atOnce }()
	w := begin(t, task{Library: library, URL: url, Kinds: kinds})
	w.work(time.Second + rand.N(time.Second))
	for range c.times {
		forget(w)
		w.work(c.settle)
	}
	return judge(w.end())
}

func restarted(t testing.TB) (string, func(*world)) {
	server := redistest.Start(t)
	return server.URL(), func(w *world) { w.outage(server.Restart) }
}

func flushed(t testing.TB) (string, func(*world)) {
	server := redistest.Start(t)
	return server.URL(), func(w *world) { w.outage(func() { server.Do("FLUSHALL") }) }
}

// emptiedWhileFrozen has an agent run again before its leases are over, or after that.
func emptiedWhileFrozen(t testing.TB) (string, func(*world)) {
	server := redistest.Start(t)
	return server.URL(), func(w *world) {
		w.freeze(1, func() {
			w.outage(server.Restart)
			w.work(Lease/4 + rand.N(Lease))
		})
	}
}

func failedOverBySentinel(t testing.TB) (string, func(*world)) {
	sentinel := redistest.StartSentinels(t, 1, 500*time.Millisecond)
	return sentinel.URL(), func(w *world) {
		fallBehind(w, sentinel.B)
		w.outage(func() {
			sentinel.A.Kill()
			sentinel.AwaitMaster(sentinel.B)
		})
	}
}

// cluster has two masters, and a replica of the first one.
func cluster(t testing.TB) (c *redistest.Cluster, replica *redistest.Server) {
	c = redistest.StartCluster(t, 2)
	replica = c.AddReplica(t, c.Nodes[0])
	replica.Do("CONFIG", "SET", "cluster-node-timeout", "1000") // tells the masters of itself twice a second
	for _, node := range c.Nodes {
		waittest.Until(t, "the masters to tell clients of the replica", func() bool {
			slots := node.Do("CLUSTER", "SLOTS").([]any)
			return len(slots[0].([]any)) > 3 // first slot, last slot, master
		})
	}
	return c, replica
}

// failedOverByHand forgets nothing: the replica has all that its master had. But agents cannot know that.
func failedOverByHand(t testing.TB) (string, func(*world)) {
	c, replica := cluster(t)
	return c.URL(), func(w *world) {
		w.outage(func() {
			replica.Do("CLUSTER", "FAILOVER")
			awaitMaster(w, replica)
		})
	}
}

func takenOver(t testing.TB) (string, func(*world)) {
	c, replica := cluster(t)
	return c.URL(), func(w *world) {
		fallBehind(w, replica)
		w.outage(func() {
			c.Nodes[0].Kill()
			replica.Do("CLUSTER", "FAILOVER", "TAKEOVER") // the other master alone cannot agree
			awaitMaster(w, replica)
		})
	}
}

func awaitMaster(w *world, replica *redistest.Server) {
	w.Helper()
	waittest.Until(w, "the failover", func() bool { return replica.Info("replication", "role") == "master" })
}

// fallBehind has a replica lag: its link breaks, and its master refuses another one. The agents go on for a while.
func fallBehind(w *world, replica *redistest.Server) {
	w.Helper()
	replica.Do("CONFIG", "SET", "masteruser", "nobody")
	replica.Do("CONFIG", "SET", "masterauth", "of a user that there is not")
	replica.Do("CLIENT", "KILL", "TYPE", "master")
	w.work(500*time.Millisecond + rand.N(1500*time.Millisecond))
}
