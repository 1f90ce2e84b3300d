package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// claim is a tenure of a lock.
type claim struct {
	name   lockagent.Name
	tenure lockagent.Tenure
}

// tenure is what is known of a claim at the nodes. Store.mu guards it. It is forgotten when nothing
// of it can be at any node, as far as that is known.
type tenure struct {
	claim
	parts []part // one for each node
	// token is the first token, when a majority has granted the tenure.
	token lockagent.Token
	// held says that the agent has been told of the grant, and has not given it back.
	held bool
	// trying is the attempt under way.
	trying *attempt
	// stopping counts the timers that end what is left of a lost tenure.
	stopping int
	// spent says that no node may grant the tenure any more. The agent was told that it was
	// granted nothing, so it will not release the tenure.
	spent bool
}

// part is what is known of a tenure at one node. Acquires and Releases are made there one at a
// time, as the port demands.
type part struct {
	busy     bool // an Acquire or a Release is under way
	acquires bool // it is an Acquire
	queue    []op // those that wait for it

	has        bool // the node may have the tenure
	unanswered bool // an Acquire failed: it may still take effect
	synced     bool // the node's clock has reached the token
	tries      int  // of the releases that were made for the quorum's own sake
}

// op is an Acquire or a Release at one node. start makes the call. If drop is not nil, a later Acquire
// may take the place of the op. Then drop is called.
type op struct {
	acquires    bool
	start, drop func()
}

// tenure returns what is known of a claim. mu is held.
func (s *Store) tenure(c claim) *tenure {
	t := s.tenures[c]
	if t == nil {
		t = &tenure{claim: c, parts: make([]part, len(s.nodes))}
		s.tenures[c] = t
	}
	return t
}

// begin makes an op at node i, now or after the one under way. It returns what to do when mu is
// free. mu is held.
func (t *tenure) begin(i int, o op) (todo func()) {
	p := &t.parts[i]
	if p.busy {
		p.queue = append(p.queue, o)
		return func() {}
	}
	p.busy, p.acquires = true, o.acquires
	return o.start
}

// ended is called when an op at node i has ended. It starts the next one, or one that is owed. mu
// is held.
func (s *Store) ended(t *tenure, i int) (todo func()) {
	p := &t.parts[i]
	if len(p.queue) > 0 {
		next := p.queue[0]
		p.queue = slices.Delete(p.queue, 0, 1)
		p.acquires = next.acquires
		return next.start
	}
	p.busy, p.acquires = false, false
	return s.tidy(t, i)
}

// tidy releases a tenure at a node that need not have it any more, and forgets a tenure that no
// node has. mu is held.
func (s *Store) tidy(t *tenure, i int) (todo func()) {
	p := &t.parts[i]
	todo = func() {}
	if t.held || t.trying != nil || t.stopping > 0 || p.busy {
		return todo
	}
	if p.has || p.unanswered && t.spent {
		return t.begin(i, s.giveBack(t, i))
	}
	for i := range t.parts {
		if p := &t.parts[i]; p.busy || p.unanswered && !t.spent {
			return todo
		}
	}
	if s.tenures[t.claim] == t {
		delete(s.tenures, t.claim)
	}
	return todo
}

// tidyAll is tidy for all nodes.
func (s *Store) tidyAll(t *tenure) (todo []func()) {
	for i := range t.parts {
		todo = append(todo, s.tidy(t, i))
	}
	return todo
}

// A release that the quorum makes for its own sake is repeated once after a while. After that, the
// lease frees the node.
const (
	giveBackTries = 2
	giveBackAgain = time.Second
)

// giveBack is the release of a tenure that has no majority, or has it no more.
func (s *Store) giveBack(t *tenure, i int) op {
	return op{start: func() {
		s.mu.Lock()
		p := &t.parts[i]
		req := lockagent.ReleaseRequest{Name: t.name, Tenure: t.claim.tenure, Unanswered: p.unanswered}
		p.has, p.unanswered = false, false
		p.tries++
		s.mu.Unlock()
		s.nodes[i].Release(context.Background(), req, func(_ lockagent.ReleaseReply, err error) {
			s.mu.Lock()
			if err != nil && !lockagent.Definite(err) && p.tries < giveBackTries && t.trying == nil {
				p.has, p.unanswered = true, req.Unanswered
				time.AfterFunc(giveBackAgain, func() { s.finish(t, i) })
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
			s.finish(t, i)
		})
	}}
}

// finish ends an op, and does what follows.
func (s *Store) finish(t *tenure, i int) {
	s.mu.Lock()
	todo := s.ended(t, i)
	s.mu.Unlock()
	todo()
}
