package quorum

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// probation keeps a node that may have forgotten leases from voting, until the longest of these
// leases is over. Store.mu guards it.
type probation struct {
	until       time.Time
	incarnation string // in the latest reply that named one
}

// away is how long the node has no vote yet, or 0.
func (p *probation) away(now time.Time) time.Duration { return max(p.until.Sub(now), 0) }

// term is how long a node is away. Its clock, which counts the leases, may be slower than this one.
func (s *Store) term() time.Duration { return s.cfg.LongestLease + s.cfg.LongestLease/100 }

type resetHook struct{ call func(lockagent.Reset) }

// OnReset implements [lockagent.Store]. It calls f when a majority of the nodes may have forgotten
// leases, or when the identity of the quorum has changed. Nothing is granted then until the longest
// lease is over. But holders may have lost their tenures already.
func (s *Store) OnReset(f func(lockagent.Reset)) (cancel func()) {
	hook := &resetHook{f}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = append(s.hooks, hook)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hooks = slices.DeleteFunc(s.hooks, func(other *resetHook) bool { return other == hook })
	}
}

// nodeReset takes note of the reset of a node.
func (s *Store) nodeReset(i int, reset lockagent.Reset) {
	s.mu.Lock()
	former := identity(s.ids)
	s.nodes[i].met(reset.To)
	s.mu.Unlock()
	now := s.Identity()
	if former == now {
		former = ""
	}
	// A clock that was set back makes leases longer.
	forgot := reset.From != reset.To || reset.Step >= 0
	if forgot {
		s.suspend(i, reset.Reason)
	}
	if out := s.out(); forgot && out >= s.majority || former != "" {
		s.tell(lockagent.Reset{
			Reason: fmt.Sprintf("%s: node %d of %d", reset.Reason, i, len(s.nodes)),
			After:  reset.After, Before: reset.Before, Step: reset.Step, Store: former,
		})
	}
}

// suspend takes the vote of a node away.
func (s *Store) suspend(i int, reason string) {
	s.mu.Lock()
	s.nodes[i].until = time.Now().Add(s.term())
	s.mu.Unlock()
	s.cfg.Notify(Notice{Kind: NodeAway, Node: i, For: s.term(), Reason: reason})
}

// out is how many nodes have no vote.
func (s *Store) out() (out int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, n := range s.nodes {
		if n.away(now) > 0 {
			out++
		}
	}
	return out
}

func (s *Store) tell(reset lockagent.Reset) {
	s.mu.Lock()
	hooks := slices.Clone(s.hooks)
	s.mu.Unlock()
	for _, hook := range hooks {
		hook.call(reset)
	}
}

// met takes note of the incarnation in a reply. It reports whether the node is another one than
// before: its reset may not have been told yet. mu is held.
func (p *probation) met(incarnation string) (other bool) {
	if incarnation == "" {
		return false
	}
	other = p.incarnation != "" && p.incarnation != incarnation
	p.incarnation = incarnation
	return other
}
