package lockstate

import (
	"math"

	"github.com/lockagent/lockagent"
)

// mayGrant reports whether the tenure may serve a request next:
//
//   - The tenure began for its first hold.
//   - A hand-off needs budget. So does a reader that joins a shared tenure, but only if others
//     are known to wait for the lock.
//   - No hold may depend on a longer lease than it and the holds beside it need: if this process
//     died, it would keep others out for longer. [lockagent.PassLease] is short enough for
//     every hold.
//   - A hold that is to outlive this process needs its lease in the store.
func (s *State) mayGrant(r *Request, m Moment) bool { return s.covered(r, m.Now) && s.serves(r, m) }

// lacksCover reports whether the request at the head waits beside other grants only until the store has its lease.
func (s *State) lacksCover(m Moment) bool {
	w := s.requests.head()
	return w != nil && s.requests.held.n > 0 && !s.covered(&w.Request, m.Now) && s.serves(&w.Request, m)
}

// serves is mayGrant for a tenure that is long enough for what is to outlive this process.
func (s *State) serves(r *Request, m Moment) bool {
	t := &s.tenure
	beside := s.requests.held.n > 0
	need := max(s.lease(r), lockagent.PassLease)
	if s.requests.kept > 0 {
		need = max(need, s.cfg.Watchdog)
	}
	if g := s.requests.longest(); g != nil {
		need = max(need, g.Lease)
	}
	switch {
	case beside && (r.Mode == Exclusive || !s.requests.shared()) || r.Mode < t.mode:
		return false
	case m.Now >= t.deadline || t.doubt || s.left(m.Now) > need+rounding:
		return false
	case t.holds == 0:
		return true
	case s.renewal.failures > 0 || t.next() > t.greatest(m.Now) || t.ending(m.Now):
		return false
	}
	joins := beside && t.mode == Shared && !t.contested && !t.outsiders
	holds, until := s.budget()
	return joins || holds > 0 && m.Now < until
}

// budget bounds the hand-offs of the tenure: how many more holds it serves, and until when.
//
// While outsiders wait, it is a twentieth of the grants and a tenth of the time, because they have no
// place in the store's queue. They are slower than a hand-off: a bound of time alone would leave
// them few grants.
//
// While a tenure may rest, nobody else is known to want the lock. Only time is bounded then: a message may be
// lost, and outsiders send none. When another agent wants the lock, the budget begins anew.
func (s *State) budget() (holds int, until Instant) {
	t := &s.tenure
	if t.rests {
		return math.MaxInt32, t.began.add(s.cfg.Rest)
	}
	grants, length := s.cfg.HandOffGrants, s.cfg.HandOffTime
	if t.outsiders {
		grants, length = max(1, grants/20), length/10
	}
	return grants - (t.holds - t.unbudgeted), t.budgetFrom.add(length)
}

// holdsOf is how many holds the owner of a request may make of its grant, one after the other. The budget of hand-offs
// bounds them, and so does the greatest token that the store's clock allows. The grant itself may be made, so it is at
// least one.
func (s *State) holdsOf(r *Request, m Moment) uint16 {
	if r.Holds <= 1 {
		return 1
	}
	t := &s.tenure
	holds, _ := s.budget()
	left := min(int64(holds), int64(t.greatest(m.Now)-t.next())+1)
	return uint16(max(1, min(int64(r.Holds), left)))
}

// granted is the event that grants the lock to w, as the next hold of the tenure.
func (s *State) granted(w *slot, m Moment) (e Event) {
	t := &s.tenure
	e = Event{
		Kind: Granted, Request: w.Request, Tenure: t.number,
		Hold: Hold{Token: t.next(), Count: s.requests.holdsBeside(&w.Request) + 1},
		Grant: Grant{
			How: lockagent.ByHandOff, Holds: s.holdsOf(&w.Request, m), ClaimBy: m.Now.add(s.cfg.Claim),
			Fixed: s.fixedEnd(&w.Request, m.Now),
		},
		Decision:  Decision{StoreTime: t.storeTime, Incarnation: t.incarnation},
		Confirmed: Confirmed{Lease: t.lease, Replicas: t.replicas},
	}
	switch {
	case t.holds == 0:
		e.How = lockagent.ByStore
		if t.storeTime != t.begun {
			e.StoreTime, e.Again = t.begun, t.storeTime
		}
	case s.Resting():
		e.How = lockagent.ByRest
	}
	return e
}

// fixedEnd is when the fixed lease of a request ends if it is granted now. It is 0 for a kept lease.
func (s *State) fixedEnd(r *Request, now Instant) Instant {
	t := &s.tenure
	switch {
	case r.Lease == 0:
		return 0
	case t.holds == 0 && r.Lease == t.lease && r.Arrived <= t.sent: // the lease that the store confirmed
		return t.deadline
	case r.Outlive && r.Lease <= t.lease && r.Arrived <= t.sent: // so is this one, as a renewal for it
		return min(t.deadline, now.add(s.cfg.trust(r.Lease)))
	}
	return now.add(s.cfg.trust(r.Lease))
}

// covered reports whether the tenure is long enough for a request, as the store has confirmed it. Most holds only need
// a renewal in time, and this process sees to that. A hold with Outlive must last if this process ends right after the
// grant.
func (s *State) covered(r *Request, now Instant) bool {
	return !r.Outlive || s.fixedEnd(r, now) <= s.tenure.deadline
}
