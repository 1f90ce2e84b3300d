package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// impatience is for how long one node is waited for before another one is asked, too.
const impatience = 100 * time.Millisecond

// owner is the master that has some slots.
type owner struct {
	first, last int64
	addr        string
}

// followCluster finds out who serves which slot, and has that followed.
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

// keepAsking asks at intervals, and earlier in doubt, but then less and less often: the
// more a Cluster suffers, the less it should be asked.
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
		_ = s.Refresh(s.life) // the next one may do better
		if s.table.Load() != before {
			p.reset()
		}
	}
}

// Refresh asks a Cluster who serves which slot. It does nothing elsewhere.
func (s *Servers) Refresh(ctx context.Context) error {
	if !s.cluster {
		return nil
	}
	began := time.Now()
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.asked.After(began) { // somebody else did so meanwhile
		return nil
	}
	owners, err := s.askAny(ctx)
	if err != nil {
		return err
	}
	s.divide(owners)
	s.asked = time.Now()
	return nil
}

// refreshFrom asks one node that is known to have news. Others may lag behind it.
func (s *Servers) refreshFrom(ctx context.Context, n *Node) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	owners, err := n.owners(ctx)
	if err == nil {
		s.divide(owners)
	}
	return err
}

// askAny asks one node after the other, in no order, without waiting long for any.
func (s *Servers) askAny(ctx context.Context) ([]owner, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*s.config.Silence)
	defer cancel()
	type answer struct {
		owners []owner
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
				owners, err := node.owners(ctx)
				answers <- answer{owners, err}
			})
			impatient = time.After(impatience)
		}
		select {
		case a := <-answers:
			answered++
			if a.err == nil {
				return a.owners, nil
			}
			failed = cmp.Or(failed, a.err)
		case <-impatient:
		}
	}
	return nil, failed
}

// askable are the nodes that are known, and those that the addresses name, in no order.
func (s *Servers) askable() []*Node {
	s.mu.Lock()
	nodes := make([]*Node, 0, len(s.nodes))
	for _, n := range s.nodes {
		nodes = append(nodes, n)
	}
	s.mu.Unlock()
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	known := len(nodes)
	for _, addr := range s.config.Addrs {
		if n := s.nodeAt(addr); !contains(nodes[:known], n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func contains(nodes []*Node, n *Node) bool {
	for _, other := range nodes {
		if other == n {
			return true
		}
	}
	return false
}

var errNoSlots = errors.New("the node knows of no slots: is it in the Cluster?")

// owners asks a node who has which slots.
func (n *Node) owners(ctx context.Context) ([]owner, error) {
	ranges, err := n.client.Do(ctx, n.client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	var owners []owner
	for _, r := range ranges {
		if o, ok := n.owner(r); ok {
			owners = append(owners, o)
		}
	}
	if len(owners) == 0 {
		return nil, errNoSlots
	}
	return owners, nil
}

// owner reads a part of the reply: the first slot, the last, and the master's host and
// port, and more. A host that is empty or unknown is the one that was asked.
func (n *Node) owner(r rueidis.RedisMessage) (owner, bool) {
	fields, err := r.ToArray()
	if err != nil || len(fields) < 3 {
		return owner{}, false
	}
	first, err := fields[0].AsInt64()
	last, err2 := fields[1].AsInt64()
	master, err3 := fields[2].ToArray()
	if err != nil || err2 != nil || err3 != nil || len(master) < 2 || first < 0 || last >= hashslot.Count {
		return owner{}, false
	}
	host, _ := master[0].ToString() // may be nil
	port, err := master[1].AsInt64()
	if err != nil {
		return owner{}, false
	}
	return owner{first, last, n.near(host, strconv.FormatInt(port, 10))}, true
}

// near is the address of a node of which this one gave host and port.
func (n *Node) near(host, port string) string {
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(n.addr)
	}
	return net.JoinHostPort(host, port)
}

// divide gives the slots to their owners. Nodes that lose their last slot are given up.
func (s *Servers) divide(owners []owner) {
	before := s.Masters()
	next := new(table)
	s.mu.Lock()
	for _, o := range owners {
		n := s.node(o.addr)
		for slot := o.first; slot <= o.last; slot++ {
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

// drain retires a node that may be about to answer yet.
func (s *Servers) drain(n *Node) {
	s.runs.Go(func() {
		select {
		case <-s.life.Done():
		case <-time.After(drained):
		}
		s.retire(n)
	})
}

// learn notes what a node said: that another one serves a slot. It returns that one, or
// nil if it was not understood.
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

// redirection reads "MOVED 3999 127.0.0.1:6381" and "ASK 3999 127.0.0.1:6381".
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
