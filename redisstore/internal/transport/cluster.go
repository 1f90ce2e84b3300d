package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

// impatience is how long one node may take to answer before another one is asked, too.
const impatience = 100 * time.Millisecond

// slotRange says which master serves the slots from first to last.
type slotRange struct {
	first, last int64
	addr        string
	replicas    []string // their addresses
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
// in the words of the server, or of the connection.
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
	ranges, made, err := s.askAny(ctx)
	if err == nil {
		s.divide(ranges)
		s.asked = time.Now()
	}
	for _, n := range made {
		s.retire(n) // spares those that serve by now
	}
	return err
}

// RefreshFrom asks one node of a Cluster, which may have news that others do not have yet.
func (s *Servers) RefreshFrom(ctx context.Context, n *Node) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	ranges, err := n.slotRanges(ctx)
	if err == nil {
		s.divide(ranges)
	}
	return err
}

// askAny asks one node after another, and returns the first answer. It asks the next node when
// the last one has failed, or has not answered within the impatience. made are the nodes that were not known
// before.
func (s *Servers) askAny(ctx context.Context) (ranges []slotRange, made []*Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*s.config.Silence)
	defer cancel()
	type answer struct {
		ranges []slotRange
		err    error
	}
	addrs := s.askable()
	answers := make(chan answer, len(addrs))
	for asked, answered := 0, 0; answered < len(addrs); {
		var impatient <-chan time.Time
		if asked < len(addrs) {
			s.mu.Lock()
			known := s.nodes[addrs[asked]] != nil
			node := s.node(addrs[asked])
			s.mu.Unlock()
			if !known {
				made = append(made, node)
			}
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
				return a.ranges, made, nil
			}
			err = cmp.Or(err, a.err)
		case <-impatient:
		}
	}
	return nil, made, err
}

// askable returns the addresses of the known nodes in a random order, then the others of the Config, then
// those of replicas. One of them is a master by now if all masters are gone.
func (s *Servers) askable() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	addrs := slices.Collect(maps.Keys(s.nodes))
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	for _, addr := range slices.Concat(s.config.Addrs, s.replicas) {
		if !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

var errNoSlots = errors.New("the node knows of no slots: is it in the Cluster?")

// slotRanges asks a node which masters serve which slots.
func (n *Node) slotRanges(ctx context.Context) ([]slotRange, error) {
	reply, err := n.Ask(ctx, "CLUSTER", "SLOTS").Items()
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

// slotRange reads a part of the reply: the first slot, the last slot, the master, and its replicas.
func (n *Node) slotRange(part Reply) (slotRange, bool) {
	fields, err := part.Items()
	if err != nil || len(fields) < 3 {
		return slotRange{}, false
	}
	first, err := fields[0].Number()
	last, err2 := fields[1].Number()
	addr, ok := n.member(fields[2])
	if err != nil || err2 != nil || !ok || first < 0 || last >= hashslot.Count {
		return slotRange{}, false
	}
	r := slotRange{first: first, last: last, addr: addr}
	for _, replica := range fields[3:] {
		if addr, ok := n.member(replica); ok {
			r.replicas = append(r.replicas, addr)
		}
	}
	return r, true
}

// member reads the address of a master or a replica: host, port, and more. The host may be nil.
func (n *Node) member(m Reply) (addr string, ok bool) {
	fields, err := m.Items()
	if err != nil || len(fields) < 2 {
		return "", false
	}
	host, _ := fields[0].Text()
	port, err := fields[1].Number()
	return n.near(host, strconv.FormatInt(port, 10)), err == nil
}

// near is the address of another node, whose host and port this node has told. If the host is empty or "?",
// the node does not know its own host name. Then the host is the one at which the node was asked.
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
	s.replicas = nil
	for _, r := range ranges {
		for _, addr := range r.replicas {
			if !slices.Contains(s.replicas, addr) {
				s.replicas = append(s.replicas, addr)
			}
		}
		n := s.node(r.addr)
		for slot := r.first; slot <= r.last; slot++ {
			next.slots[slot] = n
		}
	}
	same := s.table.Load().slots == next.slots
	s.table.Store(next.completed())
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
		case <-time.After(s.drained):
		}
		s.retire(n)
	})
}

// learn reads the refusal of a node. It returns the node to go to, or nil if the refusal names
// none. After MOVED that node serves the slot: moved is true, and the table has it. After ASK
// that node serves this one call, and moved is false.
func (s *Servers) learn(from *Node, text string) (to *Node, moved bool) {
	kind, slot, host, port, ok := redirection(text)
	if !ok || !s.cluster {
		return nil, false
	}
	addr := from.near(host, port)
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
		next.completed()
		if _, known := old.last[to]; !known {
			delete(next.last, to) // nobody knows which other slots it serves
		}
		s.table.Store(&next)
	}
	return to, true
}

// redirection reads a text such as "MOVED 3999 127.0.0.1:6381" or "ASK 3999 ::1:6381". Redis writes addresses of IPv6
// without brackets.
func redirection(text string) (kind string, slot uint16, host, port string, ok bool) {
	var n int
	var addr string
	if _, err := fmt.Sscanf(text, "%s %d %s", &kind, &n, &addr); err != nil {
		return "", 0, "", "", false
	}
	colon := strings.LastIndexByte(addr, ':')
	if kind != "MOVED" && kind != "ASK" || n < 0 || n >= hashslot.Count || colon < 0 {
		return "", 0, "", "", false
	}
	return kind, uint16(n), addr[:colon], addr[colon+1:], true
}
