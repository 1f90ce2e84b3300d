package lockstate

import (
	"time"

	"github.com/lockagent/lockagent"
)

// settle finds the next thing that has to happen in the present state, whatever
// led to it, and makes it e. The rules stand in the order of their urgency: first the
// owners are told whose hold is over, then others may get the lock. It only reads the
// state.
func (s *State) settle(m Moment, e *Event) bool {
	return s.endHolds(m, e) ||
		s.refuseWhenClosed(e) ||
		s.grantAgain(m, e) ||
		s.grantBeside(m, e) ||
		s.answerLocally(m, e) ||
		s.recall(m, e) ||
		s.moveOn(m, e)
}

// endHolds ends the grants whose time has passed, and all of them on closing.
func (s *State) endHolds(m Moment, e *Event) bool {
	for i := len(s.grants) - 1; i >= 0; i-- {
		g := &s.grants[i]
		switch {
		case s.closed:
			*e = s.ended(i, s.grants, lockagent.LostClosed, m)
			return true
		case g.fixed != 0 && m.Now >= g.fixed:
			*e = s.ended(i, s.grants, lockagent.LostExpired, m)
			return true
		case m.Now >= s.tenure.deadline:
			*e = s.ended(i, s.grants, lockagent.LostDeadline, m)
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

// grantAgain lets an owner in again, past everybody who waits: they wait for that owner
// anyway.
func (s *State) grantAgain(m Moment, e *Event) bool {
	for i := range s.grants {
		w := s.queue.ofSession(s.grants[i].request.Owner, func(r *Request) bool { return s.grants.again(r) != nil })
		if w == nil {
			continue
		}
		*e = s.granted(w, m)
		e.Kind, e.How, e.Token = Reentered, 0, s.grants.again(&w.Request).token
		return true
	}
	return false
}

// grantBeside lets the next request in beside those who hold the lock.
func (s *State) grantBeside(m Moment, e *Event) bool {
	w := s.queue.head()
	if len(s.grants) == 0 || w == nil || !s.mayGrant(&w.Request, m) {
		return false
	}
	*e = s.granted(w, m)
	return true
}

// answerLocally answers what need not wait for the store: requests that will not
// wait, because a local owner has the lock, and the release after which the lock
// was handed off.
func (s *State) answerLocally(m Moment, e *Event) bool {
	if len(s.grants) == 0 {
		return false
	}
	if s.call != 0 {
		*e = Event{Kind: Unlocked, Call: s.call}
		return true
	}
	if w := s.queue.firstTry(); w != nil {
		left := s.end().Sub(m.Now)
		*e = Event{Kind: Answered, Request: w.Request, Err: &lockagent.HeldError{Name: s.name, Holder: string(s.grants[0].request.Owner), Left: left}}
		return true
	}
	return false
}

// recall has grants taken back that lay in their channel for too long.
func (s *State) recall(m Moment, e *Event) bool {
	for i := range s.grants {
		if g := &s.grants[i]; g.claimBy != 0 && m.Now >= g.claimBy {
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
		case !s.sought() && s.attempt.mayHave():
			*e = Event{Kind: Withdrawing, Tenure: s.attempt.number, Unanswered: s.attempt.unanswered}
			return true
		case !s.sought():
			*e = Event{Kind: Forgot}
			return true
		case m.Now >= s.retryAt || s.queue.tries > 0:
			*e = s.attempted(m)
			return true
		}
	case held:
		return s.handOn(m, e)
	case releasing:
		switch {
		case s.leaving.inFlight:
		case m.Now >= s.leaving.dropAt:
			*e = Event{Kind: Dropped, Tenure: s.tenure.number, Err: lockagent.ErrUnconfirmed}
			return true
		case m.Now >= s.retryAt || s.queue.tries > 0:
			*e = s.returning()
			return true
		}
	}
	return false
}

// handOn keeps the tenure for its owners, hands it off to the next one, or returns it.
func (s *State) handOn(m Moment, e *Event) bool {
	w := s.queue.head()
	wait := len(s.grants) > 0 || // the first hold of a tenure in doubt waits until that is checked
		s.tenure.doubt && s.tenure.holds == 0 && w != nil && s.renewal.failures == 0 && m.Now < s.tenure.deadline
	switch {
	case wait && !s.renewal.inFlight && m.Now >= s.renewalDue():
		*e = s.renewing(m)
	case wait:
		return false
	case w != nil && s.mayGrant(&w.Request, m):
		*e = s.granted(w, m)
	default:
		*e = s.returning()
	}
	return true
}

// renewing is urgent if there is no room for the store to put the renewal off, as there is
// when a third of a kept lease has passed.
func (s *State) renewing(m Moment) Event {
	lease := s.renewalLease(m)
	// A tenure in doubt is checked before its first grant, for which somebody waits.
	urgent := len(s.grants) == 0 || s.tenure.deadline.Sub(m.Now) < min(lease, roomy)/2
	return Event{Kind: Renewing, Tenure: s.tenure.number, Lease: lease, Urgent: urgent}
}

// sought reports whether the tenure that was asked for is what the request at the head
// wants. A tenure has one mode for its life.
func (s *State) sought() bool {
	w := s.queue.head()
	return w != nil && (w.Mode == s.attempt.mode || s.attempt.number == 0)
}

func (s *State) attempted(m Moment) Event {
	r := s.queue.head().Request
	e := Event{
		Kind: Attempted, Tenure: s.attempt.number, Lease: s.lease(&r), Token: s.floor, Request: r,
		// The queue passes over who has not subscribed. A try is over before its turn. A call
		// without an answer may have got a place.
		Queue: s.attempt.queued || s.attempt.unanswered || s.contended && s.queue.len() > s.queue.tries,
	}
	if e.Tenure == 0 {
		e.Tenure = m.Fresh
	}
	return e
}

func (s *State) returning() Event {
	e := Event{Kind: Returning, Tenure: s.tenure.number, Token: s.tenure.last, Unanswered: s.tenure.unanswered}
	if s.leaving.withdraws {
		e.Kind = Withdrawing
	}
	return e
}

// mayGrant reports whether the tenure may serve a request next. The first hold is what it
// was begun for. Further ones follow by hand-off, for which there must be budget left, or
// join others in a shared tenure, for as long as nobody is known to wait for that. None may
// depend on a longer lease than is needed without it: that would keep others out for
// longer if this process died. A pass is short enough for everybody.
func (s *State) mayGrant(r *Request, m Moment) bool {
	t := &s.tenure
	beside := len(s.grants) > 0
	need := max(s.lease(r), lockagent.PassLease)
	for i := range s.grants {
		need = max(need, s.lease(&s.grants[i].request))
	}
	switch {
	case beside && (r.Mode == Exclusive || !s.grants.shared()) || r.Mode < t.mode:
		return false
	case m.Now >= t.deadline || t.doubt || s.left(m.Now) > need+rounding:
		return false
	case t.holds == 0:
		return true
	case s.renewal.failures > 0 || t.next() > t.greatest(m.Now) || t.ending(m.Now):
		return false
	}
	joins := beside && t.mode == Shared && !t.contested && !t.outsiders
	return joins || t.holds < s.cfg.HandOffGrants && m.Now < t.began.add(s.handOffTime())
}

// handOffTime is how long the tenure is handed off. It is shorter if somebody waits who
// gets no turn otherwise.
func (s *State) handOffTime() time.Duration {
	if s.tenure.outsiders {
		return s.cfg.HandOffTime / 10
	}
	return s.cfg.HandOffTime
}

// granted is the grant of the lock to w, as the next hold of the tenure.
func (s *State) granted(w *waiter, m Moment) Event {
	t := &s.tenure
	e := Event{
		Kind: Granted, Request: w.Request, Token: t.next(), How: lockagent.ByHandOff, Count: s.grants.of(w.Owner) + 1,
		Tenure: t.number, Sent: t.sent, Lease: t.lease, StoreTime: t.storeTime, Incarnation: t.incarnation,
		ClaimBy: m.Now.add(s.cfg.Claim),
	}
	if t.holds == 0 {
		e.How = lockagent.ByStore
	}
	switch {
	case w.Lease == 0:
	case t.holds == 0 && w.Lease == t.lease && w.Arrived <= t.sent: // just what the store was asked for
		e.Fixed = t.deadline
	default:
		e.Fixed = m.Now.add(s.cfg.trust(w.Lease))
	}
	return e
}
