package transport

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

func clusterConfig(cluster *redistest.Cluster) Config {
	c := config("")
	c.Addrs = nil
	for _, node := range cluster.Nodes {
		c.Addrs = append(c.Addrs, node.Addr())
	}
	return c
}

// keyAt is a key that a node has.
func keyAt(cluster *redistest.Cluster, node *redistest.Server) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("key/", i); cluster.NodeOf(key) == node {
			return key
		}
	}
}

// A node that hangs holds up no calls to others, however long it may be silent. Nor does a
// call to it take longer than its bound, with the old connection or a new one.
func TestANodeThatHangs(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, redistest.WithConfig("cluster-require-full-coverage no"))
	patient := clusterConfig(cluster)
	hasty := clusterConfig(cluster)
	hasty.Call = 100 * time.Millisecond
	lanes, bounded := counters(connect(t, patient)), counters(connect(t, hasty))
	hung := keyAt(cluster, cluster.Nodes[0])
	others := []string{keyAt(cluster, cluster.Nodes[1]), keyAt(cluster, cluster.Nodes[2])}
	for _, key := range append(others, hung) {
		eventually(t, lanes, key)
		eventually(t, bounded, key)
	}
	cluster.Nodes[0].Pause()
	under := make(said, 1)
	lanes.Add(t.Context(), hashslot.Of(hung), question{hung, func(_ string, err error) { under <- err }})
	for range 5 {
		if err := try(t, bounded, hung); !errors.Is(err, lockagent.ErrStoreUnavailable) {
			t.Errorf("a call to the node that hangs: %v", err)
		}
		for _, key := range others {
			if err := try(t, lanes, key); err != nil {
				t.Errorf("a call to another node: %v", err)
			}
			eventually(t, bounded, key)
		}
	}
	if len(under) > 0 {
		t.Errorf("the node that hangs answered: %v", <-under)
	}
	cluster.Nodes[0].Resume()
	answered(t, "the node that hung", under)
	eventually(t, bounded, hung)
}

// When a replica takes the place of a master that hangs, the calls that wait for the master go to
// the replica. The bound of silence does not matter.
func TestAMasterOfAClusterThatHangsIsReplaced(t *testing.T) {
	t.Parallel()
	redistest.NeedsSharded(t)
	cluster := redistest.StartCluster(t, 3, redistest.WithConfig("cluster-node-timeout 500"))
	replica := cluster.AddReplica(t, cluster.Nodes[0])
	s := connect(t, clusterConfig(cluster))
	lanes, subs := counters(s), NewSubscriptions(s)
	key := keyAt(cluster, cluster.Nodes[0])
	eventually(t, lanes, key)
	news := Topic{Channel: "news{" + key + "}", Sharded: true, Slot: hashslot.Of(key)}
	h, _ := listen(subs, news)
	waittest.Receive(t, "the subscription to stand", h.stands)
	cluster.Nodes[0].AwaitReplica()
	cluster.Nodes[0].Pause()
	defer cluster.Nodes[0].Resume()
	under, waiting := make(chan error, 1), make(said, 1)
	lanes.Add(t.Context(), hashslot.Of(key), question{key, func(_ string, err error) { under <- err }})
	l := lanes.lane(s.Master(hashslot.Of(key)))
	waittest.Until(t, "the call to be under way", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.load() > 0 && len(l.queue) == 0
	})
	lanes.Add(t.Context(), hashslot.Of(key), question{key, func(_ string, err error) { waiting <- err }})
	answered(t, "what waited for the master", waiting)
	if err := waittest.Receive(t, "what was under way", under); err == nil {
		t.Error("the master that hangs answered")
	}
	if got := s.Master(hashslot.Of(key)).Addr(); got != replica.Addr() {
		t.Errorf("the master is %s, want %s", got, replica.Addr())
	}
	if !waittest.Receive(t, "the subscription to stand again", h.stands) {
		t.Error("it does not tell that it stood before")
	}
	h.hears(t, replica, "SPUBLISH", news.Channel)
}

// A Cluster is opened if any of its nodes answers, and if one of them hangs.
func TestConnectToAClusterWithNodesThatAreGone(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, redistest.WithConfig("cluster-require-full-coverage no"))
	up := keyAt(cluster, cluster.Nodes[2])
	gone := redistest.Start(t)
	gone.Kill()
	cluster.Nodes[0].Pause()
	defer cluster.Nodes[0].Resume()
	c := clusterConfig(cluster)
	c.Addrs = append(c.Addrs, gone.Addr())
	eventually(t, counters(connect(t, c)), up)
}

// A slot that migrates costs no call of one key more than a redirection. This tests keys that stay, and keys that
// come and go.
func TestAClusterIsReshardedUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	lanes := counters(connect(t, clusterConfig(cluster)))
	passing := NewScript("redis.call('INCR', KEYS[1]) redis.call('DEL', KEYS[1]) return 'ok'")
	const slots = 30
	counted := make([]int, slots)
	name := func(i int) string { return fmt.Sprint("key/", i) }
	var all sync.WaitGroup
	stop := make(chan struct{})
	for i := range slots {
		all.Go(func() {
			key, outcome := name(i), make(chan error, 2)
			answer := func(_ string, err error) { outcome <- err }
			for {
				comesAndGoes := counter("passing{"+key+"}", answer)
				comesAndGoes.Script = passing
				for _, c := range []*Call{counter(key, answer), comesAndGoes} {
					lanes.Send(c)
					if err := <-outcome; err != nil || len(outcome) > 0 {
						t.Errorf("%q: %v, and %d more answers", c.Keys, err, len(outcome))
						return
					}
				}
				counted[i]++
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range slots {
		key := name(i)
		from, to := cluster.NodeOf(key), cluster.Nodes[i%3]
		if from == to {
			to = cluster.Nodes[(i+1)%3]
		}
		finish := cluster.BeginMove(key, from, to)
		for range 3 {
			if err := try(t, lanes, "another{"+key+"}"); err != nil { // made at the new node
				t.Error(err)
			}
		}
		finish()
	}
	close(stop)
	all.Wait()
	for i, n := range counted {
		c := make(chan string, 1)
		lanes.Add(t.Context(), hashslot.Of(name(i)), question{name(i), func(text string, _ error) { c <- text }})
		if got, want := waittest.Receive(t, name(i), c), fmt.Sprint(n+1); got != want {
			t.Errorf("%s was counted %s times, want %s", name(i), got, want)
		}
	}
}

// A refusal may name a node as the master of a slot while that node is being retired. Then the node
// stays, or another node takes its place: the table never has a node that was given up.
func TestARedirectionToANodeThatIsBeingRetired(t *testing.T) {
	t.Parallel()
	s := connect(t, config(redistest.Start(t).Addr()))
	s.cluster = true
	from := s.Master(1)
	for i := range 500 {
		s.table.Store(new(table))
		addr := fmt.Sprintf("127.0.0.1:%d", 1+i)
		n := s.nodeAt(addr)
		var both sync.WaitGroup
		both.Go(func() { s.retire(n) })
		both.Go(func() { s.learn(from, "MOVED 1 "+addr) })
		both.Wait()
		if now := s.Master(1); now.life.Err() != nil {
			t.Fatalf("after %d rounds the slot belongs to a node that was given up", i)
		}
	}
}

// A Cluster on IPv6 writes addresses such as ::1:7822. Calls and subscriptions follow its slots.
func TestAClusterOnIPv6(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "[::1]:0")
	machinetest.Needs(t, err)
	_ = l.Close()
	cluster := redistest.StartCluster(t, 2, redistest.WithConfig("bind 127.0.0.1 ::1", "cluster-announce-ip ::1"))
	s := connect(t, clusterConfig(cluster))
	lanes, subs := counters(s), NewSubscriptions(s)
	from, to := cluster.Nodes[0], cluster.Nodes[1]
	key := keyAt(cluster, from)
	eventually(t, lanes, key)
	cluster.BeginMove(key, from, to)
	for i := range 3 {
		if err := try(t, lanes, fmt.Sprintf("absent/%d{%s}", i, key)); err != nil {
			t.Errorf("while the slot migrates: %v", err)
		}
	}
	slot, id := strconv.Itoa(int(hashslot.Of(key))), to.Do("CLUSTER", "MYID").(string)
	from.Do("DEL", key)
	to.Do("CLUSTER", "SETSLOT", slot, "NODE", id)
	from.Do("CLUSTER", "SETSLOT", slot, "NODE", id)
	if err := try(t, lanes, key); err != nil {
		t.Errorf("when the slot has moved: %v", err)
	}
	news := Topic{Channel: "news{" + key + "}", Sharded: redistest.Sharded(t), Slot: hashslot.Of(key)}
	publish := "SPUBLISH"
	if !news.Sharded {
		publish = "PUBLISH"
	}
	h, _ := listen(subs, news)
	waittest.Receive(t, "the subscription to stand", h.stands)
	h.hears(t, to, publish, news.Channel)
	if got := s.Master(hashslot.Of(key)).Addr(); got != net.JoinHostPort("::1", strconv.Itoa(to.Port())) {
		t.Errorf("the master is %s", got)
	}
}

// slots is an answer to CLUSTER SLOTS. Each half of the slots has a master, and then its replicas.
func slots(halves ...string) string {
	b := new(strings.Builder)
	fmt.Fprintf(b, "*%d", len(halves))
	for i, half := range halves {
		members := strings.Fields(half)
		fmt.Fprintf(b, "\r\n*%d\r\n:%d\r\n:%d", 2+len(members), i*8192, i*8192+8191)
		for _, m := range members {
			host, port, _ := net.SplitHostPort(m)
			fmt.Fprintf(b, "\r\n*2\r\n$%d\r\n%s\r\n:%s", len(host), host, port)
		}
	}
	return b.String()
}

// A node stays if it serves, and for a while after it has served. One that was only asked does not stay.
func TestWhichNodesStay(t *testing.T) {
	const silent = "-ERR"
	seed, replica := new(moody), new(moody)
	seed.say(silent)
	seedAt, replicaAt, a, b := seed.start(t), replica.start(t), "127.0.0.1:1", "127.0.0.1:2"
	for what, with := range map[string]struct {
		before, seed, replica string
		want                  []string
	}{
		"a master became a replica": {
			before: slots(seedAt, a+" "+b), seed: slots(seedAt, b+" "+a), want: []string{seedAt, a, b},
		},
		"a replica was asked": {
			before: slots(seedAt, a+" "+replicaAt), seed: silent, replica: slots(seedAt, a+" "+replicaAt),
			want: []string{seedAt, a},
		},
		"a replica was asked, and left the Cluster": {
			before: slots(seedAt, a+" "+replicaAt), seed: silent, replica: slots(seedAt, a), want: []string{seedAt, a},
		},
		"a replica was asked in vain": {
			before: slots(seedAt, a+" "+replicaAt), seed: silent, replica: silent, want: []string{seedAt, a},
		},
		"a replica was asked, and serves": {
			before: slots(seedAt+" "+replicaAt, a), seed: silent, replica: slots(replicaAt, a),
			want: []string{seedAt, a, replicaAt},
		},
	} {
		t.Run(what, func(t *testing.T) {
			seed.say(silent)
			s := connect(t, config(seedAt))
			s.cluster, s.drained = true, patience
			s.table.Store(new(table))
			for _, say := range [][2]string{{with.before, silent}, {with.seed, with.replica}} {
				seed.say(say[0])
				replica.say(say[1])
				_ = s.Refresh(t.Context())
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			got := slices.Sorted(maps.Keys(s.nodes))
			if slices.Sort(with.want); !slices.Equal(got, with.want) {
				t.Errorf("the nodes are %q, want %q", got, with.want)
			}
		})
	}
}

func TestRedirection(t *testing.T) {
	for text, want := range map[string]string{
		"MOVED 3999 127.0.0.1:6381":  "MOVED 3999 127.0.0.1 6381 true",
		"ASK 3999 :6381":             "ASK 3999  6381 true",
		"MOVED 3999 ?:6381":          "MOVED 3999 ? 6381 true",
		"MOVED 3999 host.name:6381":  "MOVED 3999 host.name 6381 true",
		"ASK 16287 ::1:7822":         "ASK 16287 ::1 7822 true",
		"MOVED 7 2001:db8::5:6:7822": "MOVED 7 2001:db8::5:6 7822 true",
		"MOVED 16384 127.0.0.1:1":    " 0   false",
		"MOVED -1 127.0.0.1:1":       " 0   false",
		"MOVED 1":                    " 0   false",
		"MOVED 1 host":               " 0   false",
		"ERR 1 127.0.0.1:1":          " 0   false",
		"":                           " 0   false",
	} {
		kind, slot, host, port, ok := redirection(text)
		if got := fmt.Sprint(kind, " ", slot, " ", host, " ", port, " ", ok); got != want {
			t.Errorf("redirection(%q) = %q, want %q", text, got, want)
		}
	}
	n := &Node{addr: "10.0.0.1:6379"}
	for host, want := range map[string]string{"": "10.0.0.1:1", "?": "10.0.0.1:1", "name": "name:1", "::1": "[::1]:1"} {
		if got := n.near(host, "1"); got != want {
			t.Errorf("near(%q) = %q, want %q", host, got, want)
		}
	}
}

// A Cluster that does not serve a slot says so, and what to do.
func TestAClusterThatIsDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, redistest.WithConfig("cluster-node-timeout 200"))
	s := connect(t, clusterConfig(cluster))
	lanes := counters(s)
	up := keyAt(cluster, cluster.Nodes[1])
	eventually(t, lanes, up)
	cluster.Nodes[0].Kill()
	waittest.Until(t, "the Cluster to be down", func() bool {
		err := try(t, lanes, up)
		if err != nil &&
			(!errors.Is(err, lockagent.ErrStoreUnavailable) || !strings.Contains(err.Error(), "CLUSTER INFO")) {
			t.Errorf("a Cluster that is down: %v", err)
		}
		return err != nil
	})
	cluster.Nodes[0].Restart()
	eventually(t, lanes, up)
	eventually(t, lanes, keyAt(cluster, cluster.Nodes[0]))
}
