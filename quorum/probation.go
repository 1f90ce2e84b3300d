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
	since       time.Time // when the node may last have forgotten leases, if it was suspended for that
	incarnation string    // in the latest reply that named one
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

// meet takes note of what the nodes may have forgotten before the quorum was opened.
func (s *Store) meet() {
	for i, n := range s.nodes {
		since := n.RemembersSince()
		s.mu.Lock()
		n.since = since
		s.mu.Unlock()
		if left := time.Until(since.Add(s.term())); left > 0 && !s.cfg.NewNodes {
			s.suspend(i, left, "new, or emptied lately")
		}
	}
}

// nodeReset takes note of the reset of a node.
func (s *Store) nodeReset(i int, reset lockagent.Reset) {
	since := s.nodes[i].RemembersSince()
	s.mu.Lock()
	former := identity(s.ids)
	more := s.forgot(i, since, reset.To)
	s.mu.Unlock()
	now := s.Identity()
	if former == now {
		former = ""
	}
	// A clock that was set back makes leases longer.
	forgot := more || reset.From != reset.To || reset.Step >= 0
	if forgot {
		s.suspend(i, s.term(), reset.Reason)
	}
	if out := s.out(); forgot && out >= s.majority || former != "" {
		s.tell(lockagent.Reset{
			Reason: fmt.Sprintf("%s: node %d of %d", reset.Reason, i, len(s.nodes)),
			After:  reset.After, Before: reset.Before, Step: reset.Step, Store: former,
		})
	}
}

// suspend takes the vote of a node away, and tells so.
func (s *Store) suspend(i int, d time.Duration, reason string) {
	s.mu.Lock()
	s.nodes[i].suspend(time.Now().Add(d))
	s.mu.Unlock()
	s.cfg.Notify(Notice{Kind: NodeAway, Node: i, For: d, Reason: reason})
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

// suspend takes the vote away until an instant, if it is not away for longer already. mu is held.
func (p *probation) suspend(until time.Time) {
	if until.After(p.until) {
		p.until = until
	}
}

// forgot takes note of what a node says of its memory: since when it remembers, and its incarnation, if it names one.
// It reports whether the node may have forgotten something more than was known: its reset may not have been told yet.
// Then the node has no vote from now on, also for the answers to other calls. mu is held.
func (s *Store) forgot(i int, since time.Time, incarnation string) (more bool) {
	n := s.nodes[i]
	if incarnation != "" {
		more = n.incarnation != "" && n.incarnation != incarnation
		n.incarnation = incarnation
	}
	if since.After(n.since) {
		n.since, more = since, true
	}
	if more {
		n.suspend(time.Now().Add(s.term()))
	}
	return more
}
