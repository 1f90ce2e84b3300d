package redisserver

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Slots is how many slots a Cluster has.
const Slots = 16384

// ClusterLines are the lines of a [Config] that make a server a node of a Cluster.
// The node belongs to no Cluster yet; see [FormCluster].
var ClusterLines = []string{
	"cluster-enabled yes",
	"cluster-config-file nodes.conf",
	"cluster-node-timeout 30000", // a machine that is busy stops nodes for seconds, and none of them is down
}

// FormCluster makes one Cluster of servers that were started with [ClusterLines], and
// returns when it is in order. All of them become masters. The slots are dealt out in
// their order, in equal parts.
func FormCluster(masters []*Server) error {
	for i, node := range masters {
		addSlots := []string{"CLUSTER", "ADDSLOTS"} // ADDSLOTSRANGE would be shorter, but needs Redis 7
		for slot := Slots * i / len(masters); slot < Slots*(i+1)/len(masters); slot++ {
			addSlots = append(addSlots, strconv.Itoa(slot))
		}
		if _, err := node.Do(addSlots...); err != nil {
			return err
		}
		// Without an epoch of its own, a node's claim to its slots may lose to
		// that of another while they meet.
		if _, err := node.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
	}
	for _, node := range masters[1:] {
		if err := node.Meet(masters[0]); err != nil {
			return err
		}
	}
	return AwaitCluster(masters, len(masters))
}

// Meet introduces the server to a node of a Cluster. It does not wait until the others
// know it, see [AwaitCluster].
func (s *Server) Meet(node *Server) error {
	_, err := s.Do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(node.PeerPort()))
	return err
}

// AwaitCluster waits until each of all nodes of a Cluster knows the others, is connected to them,
// knows how many masters have slots, and finds the Cluster in order.
func AwaitCluster(nodes []*Server, masters int) error {
	// A node that was just started needs 2 s.
	for deadline := time.Now().Add(patience); ; time.Sleep(25 * time.Millisecond) {
		done := 0
		for done < len(nodes) && nodes[done].isReady(len(nodes), masters) {
			done++
		}
		if done == len(nodes) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %d of %d nodes are ready", errNoCluster, done, len(nodes))
		}
	}
}

// isReady reports whether a node of a Cluster can do its part. A node that knows another one connects to it a moment
// later. Until then it drops what it should pass on of a PUBLISH.
func (s *Server) isReady(nodes, masters int) bool {
	c, err := s.Dial()
	if err != nil {
		return false // it is being started
	}
	defer c.Close()
	info, _ := c.Do("CLUSTER", "INFO")
	if Field(info, "cluster_state") != "ok" ||
		Field(info, "cluster_known_nodes") != strconv.Itoa(nodes) ||
		Field(info, "cluster_size") != strconv.Itoa(masters) {
		return false
	}
	list, _ := c.Do("CLUSTER", "NODES")
	known, _ := list.(string)
	return !strings.Contains(known, "disconnected") && c.knowsItsLinks(nodes)
}

// knowsItsLinks reports whether a node knows from whom its links are. Until then Valkey 8.1 drops what another node
// passes on of a PUBLISH, and closes the link, so that it is made anew. So the nodes publish until each knows its
// links.
func (c *Conn) knowsItsLinks(nodes int) bool {
	if info, _ := c.Do("INFO", "server"); Field(info, "server_name") != "valkey" {
		return true
	}
	_, _ = c.Do("PUBLISH", "redisserver", "are you ready")
	found, _ := c.Do("CLUSTER", "LINKS")
	links, _ := found.([]any)
	return len(links) == 2*(nodes-1) // to each, and from each
}

var errNoCluster = errors.New("redisserver: the Cluster does not come together")
