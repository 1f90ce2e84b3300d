package lockstate

import (
	"github.com/lockagent/lockagent"
)

// settle sets e to the next event that is due in the present state. It reports false if there
// is none. The rules stand in the order of their urgency: a hold that is over ends before
// another request gets the lock. settle only reads the state.
func (s *State) settle(m Moment, e *Event) bool {
	return s.endHolds(m, e) ||
		s.refuseWhenClosed(e) ||
		s.grantAgain(m, e) ||
		s.refuseUpgrade(e) ||
		s.grantBeside(m, e) ||
		s.answerLocally(m, e) ||
		s.reclaim(m, e) ||
		s.warn(m, e) ||
		s.moveOn(m, e)
}

// endHolds ends the grants whose time has passed, and all of them on closing.
func (s *State) endHolds(m Moment, e *Event) bool {
	switch {
	case s.requests.held.n == 0:
	case s.closed:
		*e = s.ended(s.requests.youngest(), lockagent.LostClosed, m)
		return true
	case m.Now >= s.tenure.deadline:
		*e = s.ended(s.requests.youngest(), lockagent.LostDeadline, m)
		return true
	default:
		if g := s.requests.endsFirst(); g != nil && m.Now >= g.fixed {
			*e = s.ended(g, lockagent.LostExpired, m)
			return true
		}
	}
	return false
}

// overdue says why a grant is over by the clock, or 0 if it is not.
func (s *State) overdue(g *slot, now Instant) lockagent.LossReason {
	switch {
	case g.fixed != 0 && now >= g.fixed:
		return lockagent.LostExpired
	case now >= s.tenure.deadline:
		return lockagent.LostDeadline
	}
	return 0
}

func (s *State) refuseWhenClosed(e *Event) bool {
	if w := s.requests.head(); w != nil && s.closed {
		*e = refused(w, lockagent.ErrClosed)
		return true
	}
	return false
}

// grantAgain grants a re-entry before all requests that wait: they wait for that session anyway.
func (s *State) grantAgain(m Moment, e *Event) bool {
	w := s.requests.firstReentry(func(r *Request) bool { return s.requests.again(r) != nil })
	if w == nil {
		return false
	}
	if !s.covered(&w.Request, m.Now) { // to wait for a longer lease would be to wait for the session itself
		*e = refused(w, errOutliveAgain)
		return true
	}
	end := s.sessionEnd(w.Owner, w.Lease, nil, m.Now)
	for g := range s.others(w.Owner, end, nil, m.Now) { // one after the other, before the session has the grant
		*e = extended(g, end, 0)
		if end == 0 {
			e.Own = g.fixed
		}
		return true
	}
	*e = s.granted(w, m)
	e.Kind, e.How, e.Token, e.Holds = Reentered, 0, s.requests.again(&w.Request).token, 1
	if !w.Outlive {
		e.Fixed = end
	}
	return true
}

var errOutliveAgain = &lockagent.OptionError{
	Option: "outlive", Reason: "the session holds the lock already, and the store has a shorter lease; extend that " +
		"hold, or release it first",
}

// refuseUpgrade answers a request for the lock alone, of a session that only shares it: the session
// would wait for itself.
func (s *State) refuseUpgrade(e *Event) bool {
	w := s.requests.firstReentry(s.requests.upgrades)
	if w == nil {
		return false
	}
	*e = refused(w, lockagent.ErrUpgrade)
	return true
}

// grantBeside grants the request at the head while other grants are held.
func (s *State) grantBeside(m Moment, e *Event) bool {
	w := s.requests.head()
	if s.requests.held.n == 0 || w == nil || !s.mayGrant(&w.Request, m) {
		return false
	}
	*e = s.granted(w, m)
	return true
}

// answerLocally gives the answers that need no store: to the release after which the lock was handed off or rests, and
// to requests that do not wait while an owner of this agent holds the lock.
func (s *State) answerLocally(m Moment, e *Event) bool {
	if s.call != 0 && (s.requests.held.n > 0 || s.Resting()) {
		*e = unlocked(s.call, nil)
		return true
	}
	if w := s.requests.firstTry(); w != nil && s.requests.held.n > 0 {
		left := s.end().Sub(m.Now)
		*e = refused(w, &lockagent.HeldError{
			Name: s.name, Holder: string(s.requests.oldest().Owner), Left: left,
		})
		return true
	}
	return false
}

// reclaim finds a grant that lay in its channel for too long.
func (s *State) reclaim(m Moment, e *Event) bool {
	g := s.requests.firstUnclaimed()
	if g == nil || m.Now < g.claimBy {
		return false
	}
	*e = Event{Kind: Reclaiming, Request: g.Request}
	return true
}

// warn finds that the lease runs out unless a renewal succeeds.
func (s *State) warn(m Moment, e *Event) bool {
	if m.Now < s.uncertainAt() {
		return false
	}
	*e = Event{Kind: BecameUncertain, Tenure: s.tenure.number}
	return true
}

// moveOn takes the tenure to its next phase.
func (s *State) moveOn(m Moment, e *Event) bool {
	switch s.phase {
	case free:
		switch {
		case s.requests.waiting.n > 0 && (m.Now >= s.notBefore && !s.heldBack || s.requests.tries.n > 0):
			*e = s.attempted(m)
			return true
		case s.requests.waiting.n == 0 && s.contended && (m.Now >= s.quietAt || s.closed):
			*e = Event{Kind: Quieted}
			return true
		}
	case asking: // until the store has answered
	case sleeping:
		switch {
		case !s.sought() && s.attempt.mayHave():
			*e = Event{
				Kind: Withdrawing, Tenure: s.attempt.number, Traits: Traits{Unanswered: s.attempt.unanswered},
			}
			return true
		case !s.sought():
			*e = Event{Kind: Forgot, Tenure: s.attempt.number}
			return true
		case m.Now >= s.retryAt || s.requests.tries.n > 0 && !s.attempt.spares(m.Now):
			*e = s.attempted(m)
			return true
		}
	case held:
		return s.useTenure(m, e)
	case releasing:
		switch {
		case s.leaving.inFlight:
		case m.Now >= s.leaving.dropAt:
			*e = Event{Kind: Dropped, Tenure: s.tenure.number, Err: lockagent.ErrUnconfirmed}
			return true
		case m.Now >= s.retryAt || s.requests.tries.n > 0:
			*e = s.returning()
			return true
		}
	}
	return false
}

// useTenure renews the tenure for its holders, hands it off to the next request, lets it rest, or returns
// it.
func (s *State) useTenure(m Moment, e *Event) bool {
	w := s.requests.head()
	keep := s.requests.held.n > 0 || m.Now < s.tenure.deadline &&
		// If the tenure is in doubt before its first hold, or too short for it, that hold waits for a renewal.
		(s.tenure.holds == 0 && w != nil && (s.tenure.doubt || !s.covered(&w.Request, m.Now)) && s.renewal.failures == 0 ||
			// In a grace period, the renewal would put the tenure back after a release.
			s.InDoubt() && s.renewal.inFlight)
	switch {
	case keep && !s.renewal.inFlight && (m.Now >= s.renewalDue() || s.lacksCover(m)):
		*e = s.renewing(m)
	case keep:
		return false
	case w != nil && s.mayGrant(&w.Request, m):
		*e = s.granted(w, m)
	case w == nil && s.mayRest(m):
		if s.Resting() {
			return false
		}
		*e = Event{Kind: Rested, Tenure: s.tenure.number}
	default:
		*e = s.returning()
	}
	return true
}

func (s *State) returning() Event {
	e := Event{
		Kind: Returning, Tenure: s.tenure.number, Traits: Traits{Unanswered: s.tenure.unanswered},
		Ask: Ask{Floor: s.tenure.last},
	}
	if s.leaving.withdraws {
		e.Kind = Withdrawing
	}
	return e
}
