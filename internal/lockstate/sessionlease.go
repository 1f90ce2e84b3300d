package lockstate

import (
	"iter"
	"time"

	"github.com/lockagent/lockagent"
)

// The holds of a session have one lease of a lock. If the lease of one of them is kept, so are all. Otherwise all end
// together. The lease begins anew when the session acquires the lock again, extends one of the holds, or releases one
// and has others. It never ends earlier than before, and not before the deadline that the owner was told while it was
// kept: the owner may trust that for a while.
//
// A hold that is to outlive its process keeps its fixed lease beside one that is kept.

// sessionEnd is when the lease of a session ends if it begins now, with a length. It is 0 if the lease is kept. The
// hold that leaves does not count.
func (s *State) sessionEnd(o lockagent.Owner, lease time.Duration, leaves *slot, now Instant) Instant {
	if lease == 0 {
		return 0
	}
	end := now.add(s.cfg.trust(lease))
	s.requests.grantsOf(o, func(g *slot) bool {
		switch {
		case g == leaves:
		case g.Lease == 0:
			end = 0
		case g.fixed == 0:
			end = max(end, g.own, s.tenure.deadline)
		default:
			end = max(end, g.fixed)
		}
		return end != 0
	})
	return end
}

// others iterates over the holds of a session whose leases do not end with the one of the session, but for one hold.
func (s *State) others(o lockagent.Owner, end Instant, but *slot, now Instant) iter.Seq[*slot] {
	return func(yield func(*slot) bool) {
		if end == 0 && s.requests.kept == s.requests.held.n {
			return
		}
		s.requests.grantsOf(o, func(g *slot) bool {
			own := g == but || g.Lease == 0 || g.Outlive && end == 0
			return own || g.fixed == end || now >= s.deadline(g) || yield(g)
		})
	}
}

// leaseAnew begins the lease of a session anew for the holds that it has beside the one that ends.
func (s *State) leaseAnew(ends *slot, m Moment, out []Event) []Event {
	if s.requests.holdsBeside(&ends.Request) < 2 {
		return out
	}
	lease := time.Duration(0)
	s.requests.grantsOf(ends.Owner, func(g *slot) bool {
		if g != ends {
			lease = max(lease, g.Lease)
		}
		return true
	})
	return s.endTogether(ends.Owner, s.sessionEnd(ends.Owner, lease, ends, m.Now), ends, m, out)
}

// endTogether has the leases of the holds of a session end at an instant, but for one hold.
func (s *State) endTogether(o lockagent.Owner, end Instant, but *slot, m Moment, out []Event) []Event {
	if end == 0 {
		return out
	}
	for g := range s.others(o, end, but, m.Now) {
		out = append(out, extended(g, end, 0))
	}
	return out
}
