package lockstate

import (
	"iter"
	"time"

	"github.com/lockagent/lockagent"
)

// The holds of a session have one lease of a lock. If the lease of one of them is kept, so are all. Otherwise all end together. The lease
// begins anew when the session acquires the lock again, extends one of the holds, or releases one and has others. It never ends earlier
// than before, and not before the deadline that the owner was told while it was kept: the owner may trust that for a while.
//
// A hold that is to outlive its process keeps its fixed lease beside one that is kept.

// sessionEnd is when the lease of a session ends if it begins now, with a length. It is 0 if the lease is kept. The hold that leaves
// does not count.
func (s *State) sessionEnd(o lockagent.Owner, lease time.Duration, leaves cell, now Instant) Instant {
	if lease == 0 {
		return 0
	}
	end := now.add(s.cfg.trust(lease))
	s.grants.ofOwner(o, func(i cell) bool {
		g := s.grants.at(i)
		switch {
		case i == leaves:
		case g.request.Lease == 0:
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
func (s *State) others(o lockagent.Owner, end Instant, but cell, now Instant) iter.Seq[cell] {
	return func(yield func(cell) bool) {
		if end == 0 && s.grants.kept == s.grants.n {
			return
		}
		s.grants.ofOwner(o, func(i cell) bool {
			g := s.grants.at(i)
			own := i == but || g.request.Lease == 0 || g.request.Outlive && end == 0
			return own || g.fixed == end || now >= s.deadline(g) || yield(i)
		})
	}
}

// leaseAnew begins the lease of a session anew for the holds that it has beside the one that ends.
func (s *State) leaseAnew(ends cell, m Moment, out []Event) []Event {
	r := &s.grants.at(ends).request
	if !r.Session || s.grants.session(r.Owner).n < 2 {
		return out
	}
	lease := time.Duration(0)
	s.grants.ofOwner(r.Owner, func(i cell) bool {
		if i != ends {
			lease = max(lease, s.grants.at(i).request.Lease)
		}
		return true
	})
	return s.endTogether(r.Owner, s.sessionEnd(r.Owner, lease, ends, m.Now), ends, m, out)
}

// endTogether has the leases of the holds of a session end at an instant, but for one hold.
func (s *State) endTogether(o lockagent.Owner, end Instant, but cell, m Moment, out []Event) []Event {
	if end == 0 {
		return out
	}
	for i := range s.others(o, end, but, m.Now) {
		out = append(out, Event{Kind: Extended, Request: s.grants.at(i).request, Fixed: end})
	}
	return out
}
