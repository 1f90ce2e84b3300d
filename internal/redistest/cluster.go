package redistest

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/internal/redisserver"
	"github.com/lockagent/lockagent/internal/waittest"
)

// Cluster is a Redis Cluster of masters that share all slots.
type Cluster struct {
	// Nodes are the masters. The slots are dealt out in their order, in equal
	// parts.
	Nodes []*Server
	// Replicas are those of the nodes, as they were added.
	Replicas []*Server

	opts []Option
}

// StartCluster starts n masters and returns when each of them says that the
// Cluster is in order. The options are for every node.
func StartCluster(t testing.TB, n int, opts ...Option) *Cluster {
	t.Helper()
	c := &Cluster{opts: append([]Option{WithConfig(redisserver.ClusterLines...)}, opts...)}
	c.opts = append(c.opts, func(s *Server) {
		if s.config.TLS != nil {
			s.config.Lines = append(s.config.Lines, "tls-cluster yes") // so that clients with TLS are sent to ports with TLS
		}
	})
	for range n {
		c.Nodes = append(c.Nodes, Start(t, c.opts...))
	}
	if err := redisserver.FormCluster(processes(c.Nodes)); err != nil {
		t.Fatal(err)
	}
	return c
}

func processes(nodes []*Server) []*redisserver.Server {
	all := make([]*redisserver.Server, len(nodes))
	for i, node := range nodes {
		all[i] = node.Server
	}
	return all
}

// AddReplica adds a replica of one of the nodes, and returns when it has the data.
func (c *Cluster) AddReplica(t testing.TB, of *Server) *Server {
	t.Helper()
	replica := Start(t, c.opts...)
	if err := replica.Meet(c.Nodes[0].Server); err != nil {
		t.Fatal(err)
	}
	c.Replicas = append(c.Replicas, replica)
	c.AwaitOK(t)
	id := of.Do("CLUSTER", "MYID").(string)
	waittest.Until(t, "the replica to know its master", func() bool {
		_, err := replica.Server.Do("CLUSTER", "REPLICATE", id)
		return err == nil
	})
	waittest.Until(t, "the replica to follow", func() bool {
		return replica.info("replication", "master_link_status") == "up"
	})
	for _, node := range c.Nodes {
		waittest.Until(t, "the nodes to know the replica", func() bool {
			replicas, _ := node.Server.Do("CLUSTER", "REPLICAS", id)
			list, _ := replicas.([]any)
			return len(list) > 0
		})
	}
	of.AwaitReplica()
	return replica
}

// AwaitOK waits until every node knows of all nodes and finds the Cluster in
// order.
func (c *Cluster) AwaitOK(t testing.TB) {
	t.Helper()
	if err := redisserver.AwaitCluster(processes(slices.Concat(c.Nodes, c.Replicas)), len(c.Nodes)); err != nil {
		t.Fatal(err)
	}
}

// MoveSlot gives the slot of a key, which must hold no keys, to another node.
func (c *Cluster) MoveSlot(key string, to *Server) {
	slot := strconv.FormatInt(c.Nodes[0].Do("CLUSTER", "KEYSLOT", key).(int64), 10)
	id := to.Do("CLUSTER", "MYID").(string)
	waittest.Until(to.t, "the nodes to agree on their epochs", c.epochsAgree)
	to.Do("CLUSTER", "SETSLOT", slot, "NODE", id) // first, so that it is never nobody's
	for _, node := range c.Nodes {
		node.Do("CLUSTER", "SETSLOT", slot, "NODE", id)
	}
	// A ping of the node that had the slot may be on its way to a third one, and claim the slot back there for a
	// moment.
	for _, node := range c.Nodes {
		waittest.Until(to.t, "the nodes to agree on the slot", func() bool {
			_, err := node.Server.Do("EXISTS", key)
			return node == to && err == nil || err != nil && strings.HasSuffix(err.Error(), to.Addr())
		})
	}
}

// epochsAgree reports whether all nodes know the greatest epoch, and each has one of its own. Then the next epoch is
// greater than all. Otherwise two nodes may take the same, and a node that has given a slot away may get it back.
func (c *Cluster) epochsAgree() bool {
	current, own := make(map[string]bool), make(map[string]bool)
	for _, node := range c.Nodes {
		info := node.Do("CLUSTER", "INFO")
		current[redisserver.Field(info, "cluster_current_epoch")] = true
		own[redisserver.Field(info, "cluster_my_epoch")] = true
	}
	return len(current) == 1 && len(own) == len(c.Nodes)
}

// BeginMove begins to give the slot of a key to another node: from now on the slot
// migrates. finish moves its keys, one after the other, and ends that.
func (c *Cluster) BeginMove(key string, from, to *Server) (finish func()) {
	slot := strconv.FormatInt(from.Do("CLUSTER", "KEYSLOT", key).(int64), 10)
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.Do("CLUSTER", "MYID").(string))
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do("CLUSTER", "MYID").(string))
	return func() {
		// The slot is asked for again and again, because keys may be made until all are gone.
		for {
			keys := from.Do("CLUSTER", "GETKEYSINSLOT", slot, "100").([]any)
			for _, key := range keys {
				from.Do("MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), key.(string), "0", "60000")
			}
			if len(keys) == 0 {
				break
			}
		}
		c.MoveSlot(key, to)
	}
}

// URL names all nodes.
func (c *Cluster) URL() string {
	return urlOf("redis", (*Server).Addr, c.Nodes, url.Values{})
}

// urlOf names several servers.
func urlOf(scheme string, addr func(*Server) string, servers []*Server, q url.Values) string {
	for _, s := range servers[1:] {
		q.Add("addr", addr(s))
	}
	u := url.URL{Scheme: scheme, Host: addr(servers[0]), RawQuery: q.Encode()}
	return u.String()
}

// NodeOf is the node that has a key, as long as no slot was moved.
func (c *Cluster) NodeOf(key string) *Server {
	slot := c.Nodes[0].Do("CLUSTER", "KEYSLOT", key).(int64)
	for i, node := range c.Nodes {
		if int(slot) < redisserver.Slots*(i+1)/len(c.Nodes) {
			return node
		}
	}
	panic("redistest: slot out of range")
}
