package lockstate

import (
	"github.com/lockagent/lockagent"
)

// settle finds the next thing that has to happen in the present state, whatever
// led to it, and makes it e. The rules stand in the order of their urgency: first whoever holds
// the lock is told that the hold is over, then others may get it. It only reads
// the state.
func (s *State) settle(m Moment, e *Event) bool {
	return s.endHolds(m, e) ||
		s.refuseWhenClosed(e) ||
		s.grantAgain(m, e) ||
		s.answerLocally(m, e) ||
		s.recall(m, e) ||
		s.moveOn(m, e)
}

// endHolds ends the grants whose time has passed, and all of them on closing.
func (s *State) endHolds(m Moment, e *Event) bool {
	for i := len(s.holder.grants) - 1; i >= 0; i-- {
		g := &s.holder.grants[i]
		left := len(s.holder.grants) - 1
		switch {
		case s.closed:
			*e = s.ended(i, left, lockagent.LostClosed, m)
			return true
		case g.fixed != 0 && m.Now >= g.fixed:
			*e = s.ended(i, left, lockagent.LostExpired, m)
			return true
		case m.Now >= s.tenure.deadline:
			*e = s.ended(i, left, lockagent.LostDeadline, m)
			return true
		}
	}
	return false
}

func (s *State) refuseWhenClosed(e *Event) bool {
	if w := s.queue.head(); w != nil && s.closed {
		*e = Event{Kind: Answered, Request: w.Request, Err: lockagent.ErrClosed}
		return true
	}
	return false
}

// grantAgain lets the holder in again, past everybody who waits: they wait for
// the holder anyway.
func (s *State) grantAgain(m Moment, e *Event) bool {
	if s.holder.none() {
		return false
	}
	w := s.queue.ofSession(s.holder.owner())
	if w == nil {
		return false
	}
	*e = s.granted(w, m)
	e.Kind, e.How = Reentered, 0
	e.Token = s.holder.token
	return true
}

// answerLocally answers what need not wait for the store: requests that will not
// wait, because a local owner has the lock, and the release after which the lock
// was passed on.
func (s *State) answerLocally(m Moment, e *Event) bool {
	if s.holder.none() {
		return false
	}
	if s.call != 0 {
		*e = Event{Kind: Unlocked, Call: s.call}
		return true
	}
	if w := s.queue.firstTry(); w != nil {
		left := s.end().Sub(m.Now)
		*e = Event{Kind: Answered, Request: w.Request, Err: &lockagent.HeldError{Name: s.name, Holder: string(s.holder.owner()), Left: left}}
		return true
	}
	return false
}

// recall has grants taken back that lay in their channel for too long.
func (s *State) recall(m Moment, e *Event) bool {
	for i := range s.holder.grants {
		if g := &s.holder.grants[i]; g.claimBy != 0 && m.Now >= g.claimBy {
			*e = Event{Kind: Recalled, Request: g.request}
			return true
		}
	}
	return false
}

// moveOn takes the tenure to its next phase.
func (s *State) moveOn(m Moment, e *Event) bool {
	switch s.phase {
	case free:
		switch {
		case s.queue.len() > 0 && (m.Now >= s.notBefore || s.queue.tries > 0):
			*e = s.attempted(m)
			return true
		case s.queue.len() == 0 && s.contended && (m.Now >= s.quietAt || s.closed):
			*e = Event{Kind: Quieted}
			return true
		}
	case asking: // until the store has answered
	case sleeping:
		switch {
		case s.queue.len() > 0 && (m.Now >= s.retryAt || s.queue.tries > 0):
			*e = s.attempted(m)
			return true
		case s.queue.len() == 0 && s.attempt.mayHave():
			*e = Event{Kind: Returning, Tenure: s.attempt.number}
			return true
		case s.queue.len() == 0:
			*e = Event{Kind: Forgot}
			return true
		}
	case held:
		if !s.holder.none() {
			if !s.renewal.inFlight && m.Now >= s.renewalDue() {
				*e = s.renewing(m)
				return true
			}
			break
		}
		if w := s.queue.head(); w != nil && s.mayGrant(m) {
			*e = s.granted(w, m)
			return true
		}
		*e = Event{Kind: Returning, Tenure: s.tenure.number}
		return true
	case returning:
		switch {
		case s.inFlight:
		case m.Now >= s.dropAt:
			*e = Event{Kind: Dropped, Tenure: s.tenure.number, Err: lockagent.ErrUnconfirmed}
			return true
		case m.Now >= s.retryAt || s.queue.tries > 0:
			*e = Event{Kind: Returning, Tenure: s.tenure.number}
			return true
		}
	}
	return false
}

// renewing is urgent if the tenure is in doubt, or if there is no room for the store to
// put the renewal off, as there is when a third of a kept lease has passed.
func (s *State) renewing(m Moment) Event {
	lease := s.renewalLease(m)
	urgent := s.renewal.doubts > 0 || s.tenure.deadline.Sub(m.Now) < min(lease, roomy)/2
	return Event{Kind: Renewing, Tenure: s.tenure.number, Lease: lease, Urgent: urgent}
}

func (s *State) attempted(m Moment) Event {
	e := Event{
		Kind: Attempted, Tenure: s.attempt.number, Tokens: s.tokens(), Request: s.queue.head().Request,
		// The queue passes over who has not subscribed. A try is over before its turn.
		Queue: s.contended && s.queue.len() > s.queue.tries,
	}
	if e.Tenure == 0 {
		e.Tenure = m.Fresh
	}
	e.Lease = e.Request.Lease
	if e.Lease == 0 {
		e.Lease = s.cfg.Watchdog
	}
	return e
}

// tokens is how many tokens to reserve: some for each request that waits, and for
// those that its owner will make again when it is served. Tenures must not use up
// tokens faster than the store's clock makes them, one in a microsecond, or tokens
// would run ahead of it and need the store's memory to keep growing.
func (s *State) tokens() int {
	const perWaiter = 8 // a lone request comes and goes in tens of microseconds at the least
	return min(s.cfg.HandOffGrants, perWaiter*s.queue.len())
}

// mayGrant reports whether the tenure may serve another hold. The first is what
// it was begun for; further ones are hand-offs, for which there must be tokens and
// budget left, and no doubt about the lease.
func (s *State) mayGrant(m Moment) bool {
	t := &s.tenure
	switch {
	case m.Now >= t.deadline:
		return false
	case t.grants == 0:
		return true
	}
	return t.next <= t.last && m.Now < t.began.add(s.cfg.HandOffTime) && s.renewal.failures == 0 && s.renewal.doubts == 0
}

// granted is the grant of the lock to w, as the next hold of the tenure.
func (s *State) granted(w *waiter, m Moment) Event {
	t := &s.tenure
	e := Event{
		Kind: Granted, Request: w.Request, Token: t.next, How: lockagent.ByHandOff, Count: len(s.holder.grants) + 1,
		Tenure: t.number, Sent: t.sent, Lease: t.lease, StoreTime: t.storeTime, Incarnation: t.incarnation,
		ClaimBy: m.Now.add(s.cfg.Claim),
	}
	if t.grants == 0 {
		e.How = lockagent.ByStore
	}
	switch {
	case w.Lease == 0:
	case t.grants == 0 && w.Lease == t.lease && w.Arrived <= t.sent: // just what the store was asked for
		e.Fixed = t.deadline
	default:
		e.Fixed = m.Now.add(s.cfg.trust(w.Lease))
	}
	return e
}
