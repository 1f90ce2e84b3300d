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
	"cluster-node-timeout 5000",
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

// AwaitCluster waits until each of all nodes of a Cluster knows the others, has a link to them,
// knows how many masters have slots, and finds the Cluster in order. A node that knows another one
// connects to it a moment later. Until then it drops what it should pass on of a PUBLISH.
func AwaitCluster(nodes []*Server, masters int) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		done := 0
		for _, node := range nodes {
			info, _ := node.Do("CLUSTER", "INFO") // which a node may not answer yet
			list, _ := node.Do("CLUSTER", "NODES")
			known, _ := list.(string)
			if Field(info, "cluster_state") == "ok" &&
				Field(info, "cluster_known_nodes") == strconv.Itoa(len(nodes)) &&
				Field(info, "cluster_size") == strconv.Itoa(masters) &&
				!strings.Contains(known, "disconnected") {
				done++
			}
		}
		if done == len(nodes) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %d of %d nodes are ready", errNoCluster, done, len(nodes))
		}
	}
}

var errNoCluster = errors.New("redisserver: the Cluster does not come together")
