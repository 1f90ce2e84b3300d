package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

// impatience is how long one node may take to answer before another one is asked, too.
const impatience = 100 * time.Millisecond

// slotRange says which master serves the slots from first to last.
type slotRange struct {
	first, last int64
	addr        string
}

// followCluster finds out which node serves which slot, and keeps asking.
func (s *Servers) followCluster(ctx context.Context) error {
	s.cluster, s.slotted = true, true
	doubt := make(chan struct{}, 1)
	s.doubts = append(s.doubts, doubt)
	if err := s.Refresh(ctx); err != nil {
		return err
	}
	s.runs.Go(func() { s.keepAsking(doubt) })
	return nil
}

// keepAsking asks at intervals which node serves which slot. In doubt it asks earlier, but less
// and less often while it learns nothing new: a Cluster in trouble should not be asked too much.
func (s *Servers) keepAsking(doubt chan struct{}) {
	var p pace
	for {
		select {
		case <-s.life.Done():
			return
		case <-time.After(p.next(longestDoubt)):
		}
		select {
		case <-s.life.Done():
			return
		case <-doubt:
		case <-time.After(jitter(topologyInterval)):
			p.reset()
		}
		before := s.table.Load()
		_ = s.Refresh(s.life) // if it fails, the next one may succeed
		if s.table.Load() != before {
			p.reset()
		}
	}
}

// Refresh asks a Cluster which node serves which slot. It does nothing elsewhere. The error is
// in the words of the server or the client library.
func (s *Servers) Refresh(ctx context.Context) error {
	if !s.cluster {
		return nil
	}
	began := time.Now()
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.asked.After(began) { // another goroutine got an answer meanwhile
		return nil
	}
	ranges, err := s.askAny(ctx)
	if err != nil {
		return err
	}
	s.divide(ranges)
	s.asked = time.Now()
	return nil
}

// refreshFrom asks one node that is known to have news. Other nodes may not have the news yet.
func (s *Servers) refreshFrom(ctx context.Context, n *Node) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	ranges, err := n.slotRanges(ctx)
	if err == nil {
		s.divide(ranges)
	}
	return err
}

// askAny asks one node after another, and returns the first answer. It asks the next node when
// the last one has failed, or has not answered within the impatience.
func (s *Servers) askAny(ctx context.Context) ([]slotRange, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*s.config.Silence)
	defer cancel()
	type answer struct {
		ranges []slotRange
		err    error
	}
	nodes := s.askable()
	answers := make(chan answer, len(nodes))
	var failed error
	for asked, answered := 0, 0; answered < len(nodes); {
		var impatient <-chan time.Time
		if asked < len(nodes) {
			node := nodes[asked]
			asked++
			s.runs.Go(func() {
				ranges, err := node.slotRanges(ctx)
				answers <- answer{ranges, err}
			})
			impatient = time.After(impatience)
		}
		select {
		case a := <-answers:
			answered++
			if a.err == nil {
				return a.ranges, nil
			}
			failed = cmp.Or(failed, a.err)
		case <-impatient:
		}
	}
	return nil, failed
}

// askable returns the known nodes in a random order, and then those at other addresses of the
// Config.
func (s *Servers) askable() []*Node {
	s.mu.Lock()
	nodes := make([]*Node, 0, len(s.nodes))
	for _, n := range s.nodes {
		nodes = append(nodes, n)
	}
	s.mu.Unlock()
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	for _, addr := range s.config.Addrs {
		if n := s.nodeAt(addr); !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

var errNoSlots = errors.New("the node knows of no slots: is it in the Cluster?")

// slotRanges asks a node which masters serve which slots.
func (n *Node) slotRanges(ctx context.Context) ([]slotRange, error) {
	reply, err := n.client.Do(ctx, n.client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	var ranges []slotRange
	for _, part := range reply {
		if r, ok := n.slotRange(part); ok {
			ranges = append(ranges, r)
		}
	}
	if len(ranges) == 0 {
		return nil, errNoSlots
	}
	return ranges, nil
}

// slotRange reads a part of the reply: the first slot, the last slot, the host and the port of
// the master, and more. If the host is empty or "?", the node does not know its own host name.
// Then the host is the one at which the node was asked.
func (n *Node) slotRange(part rueidis.RedisMessage) (slotRange, bool) {
	fields, err := part.ToArray()
	if err != nil || len(fields) < 3 {
		return slotRange{}, false
	}
	first, err := fields[0].AsInt64()
	last, err2 := fields[1].AsInt64()
	master, err3 := fields[2].ToArray()
	if err != nil || err2 != nil || err3 != nil || len(master) < 2 || first < 0 || last >= hashslot.Count {
		return slotRange{}, false
	}
	host, _ := master[0].ToString() // may be nil
	port, err := master[1].AsInt64()
	if err != nil {
		return slotRange{}, false
	}
	return slotRange{first, last, n.near(host, strconv.FormatInt(port, 10))}, true
}

// near is the address of another node, whose host and port this node has told.
func (n *Node) near(host, port string) string {
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(n.addr)
	}
	return net.JoinHostPort(host, port)
}

// divide makes a table of the ranges. A node that has lost its last slot is given up.
func (s *Servers) divide(ranges []slotRange) {
	before := s.Masters()
	next := new(table)
	s.mu.Lock()
	for _, r := range ranges {
		n := s.node(r.addr)
		for slot := r.first; slot <= r.last; slot++ {
			next.slots[slot] = n
		}
	}
	same := s.table.Load().slots == next.slots
	s.table.Store(next)
	s.mu.Unlock()
	if same {
		return
	}
	for _, n := range before {
		if !next.serves(n) {
			s.drain(n)
		}
	}
	s.config.Changed()
}

// drain retires a node after a pause, in which it may still answer.
func (s *Servers) drain(n *Node) {
	s.runs.Go(func() {
		select {
		case <-s.life.Done():
		case <-time.After(drained):
		}
		s.retire(n)
	})
}

// learn reads the refusal of a node. It returns the node to go to, or nil if the refusal names
// none. After MOVED that node serves the slot: moved is true, and the table has it. After ASK
// that node serves this one call, and moved is false.
func (s *Servers) learn(from *Node, text string) (to *Node, moved bool) {
	kind, slot, addr, ok := redirection(text)
	if !ok || !s.cluster {
		return nil, false
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, false
	}
	addr = from.near(host, port)
	if kind == "ASK" {
		return s.nodeAt(addr), false
	}
	s.Doubt()
	s.mu.Lock()
	defer s.mu.Unlock()
	to = s.node(addr)
	if old := s.table.Load(); old.slots[slot] != to {
		next := *old
		next.slots[slot] = to
		s.table.Store(&next)
	}
	return to, true
}

// redirection reads a text such as "MOVED 3999 127.0.0.1:6381" or "ASK 3999 127.0.0.1:6381".
func redirection(text string) (kind string, slot uint16, addr string, ok bool) {
	var n int
	if _, err := fmt.Sscanf(text, "%s %d %s", &kind, &n, &addr); err != nil {
		return "", 0, "", false
	}
	if kind != "MOVED" && kind != "ASK" || n < 0 || n >= hashslot.Count {
		return "", 0, "", false
	}
	return kind, uint16(n), addr, true
}
