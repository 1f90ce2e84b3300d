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
		s.recall(m, e) ||
		s.warn(m, e) ||
		s.moveOn(m, e)
}

// endHolds ends the grants whose time has passed, and all of them on closing.
func (s *State) endHolds(m Moment, e *Event) bool {
	switch {
	case s.grants.len() == 0:
	case s.closed:
		*e = s.ended(s.grants.youngest, lockagent.LostClosed, m)
		return true
	case m.Now >= s.tenure.deadline:
		*e = s.ended(s.grants.youngest, lockagent.LostDeadline, m)
		return true
	default:
		if i := s.grants.top(endsFirst); i != 0 && m.Now >= s.grants.at(i).fixed {
			*e = s.ended(i, lockagent.LostExpired, m)
			return true
		}
	}
	return false
}

// overdue says why a grant is over by the clock, or 0 if it is not.
func (s *State) overdue(g *grant, now Instant) lockagent.LossReason {
	switch {
	case g.fixed != 0 && now >= g.fixed:
		return lockagent.LostExpired
	case now >= s.tenure.deadline:
		return lockagent.LostDeadline
	}
	return 0
}

func (s *State) refuseWhenClosed(e *Event) bool {
	if w := s.queue.head(); w != nil && s.closed {
		*e = Event{Kind: Answered, Request: w.Request, Err: lockagent.ErrClosed}
		return true
	}
	return false
}

// grantAgain grants a re-entry before all requests that wait: they wait for that owner anyway.
//
// A session comes to hold the lock and to wait for it by a grant, or by a request that just arrived.
// Then its requests are granted or refused before anything else is granted. So one session at a
// time does both, and none when the state has settled.
func (s *State) grantAgain(m Moment, e *Event) bool {
	if !s.queue.waits(s.twofold) {
		return false
	}
	w := s.queue.ofSession(s.twofold, func(r *Request) bool { return s.grants.again(r) != nil })
	if w == nil {
		return false
	}
	if !s.covered(&w.Request, m.Now) { // to wait for a longer lease would be to wait for the session itself
		*e = refused(w, errOutliveAgain)
		return true
	}
	end := s.sessionEnd(w.Owner, w.Lease, 0, m.Now)
	for i := range s.others(w.Owner, end, 0, m.Now) { // one after the other, before the session has the grant
		*e = Event{Kind: Extended, Request: s.grants.at(i).request, Fixed: end}
		if end == 0 {
			e.Own = s.grants.at(i).fixed
		}
		return true
	}
	*e = s.granted(w, m)
	e.Kind, e.How, e.Token, e.Holds = Reentered, 0, s.grants.again(&w.Request).token, 1
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
	if !s.queue.waits(s.twofold) {
		return false
	}
	w := s.queue.ofSession(s.twofold, s.grants.upgrades)
	if w == nil {
		return false
	}
	*e = refused(w, lockagent.ErrUpgrade)
	return true
}

// grantBeside grants the request at the head while other grants are held.
func (s *State) grantBeside(m Moment, e *Event) bool {
	w := s.queue.head()
	if s.grants.len() == 0 || w == nil || !s.mayGrant(&w.Request, m) {
		return false
	}
	*e = s.granted(w, m)
	return true
}

// answerLocally gives the answers that need no store while a local owner holds the lock: to
// the release after which the lock was handed off or rests, and to requests that do not wait.
func (s *State) answerLocally(m Moment, e *Event) bool {
	if s.call != 0 && (s.grants.len() > 0 || s.Resting()) {
		*e = Event{Kind: Unlocked, Call: s.call}
		return true
	}
	if id := s.queue.tries.first; id != 0 && s.grants.len() > 0 {
		left := s.end().Sub(m.Now)
		*e = refused(s.queue.find(id), &lockagent.HeldError{
			Name: s.name, Holder: string(s.grants.first().request.Owner), Left: left,
		})
		return true
	}
	return false
}

// recall finds a grant that lay in its channel for too long.
func (s *State) recall(m Moment, e *Event) bool {
	if s.grants.unclaimed == 0 {
		return false
	}
	g := s.grants.at(s.grants.unclaimed)
	if m.Now < g.claimBy {
		return false
	}
	*e = Event{Kind: Recalled, Request: g.request}
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
		case s.queue.len() > 0 && (m.Now >= s.notBefore && !s.heldBack || s.queue.tries.first != 0):
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
			*e = Event{Kind: Forgot, Tenure: s.attempt.number}
			return true
		case m.Now >= s.retryAt || s.queue.tries.first != 0 && !recalling(s.attempt.told, m.Now):
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
		case m.Now >= s.retryAt || s.queue.tries.first != 0:
			*e = s.returning()
			return true
		}
	}
	return false
}

// useTenure renews the tenure for its holders, hands it off to the next request, lets it rest, or returns
// it.
func (s *State) useTenure(m Moment, e *Event) bool {
	w := s.queue.head()
	// If the tenure is in doubt before its first hold, or too short for it, that hold waits for a renewal.
	keep := s.grants.len() > 0 ||
		s.tenure.holds == 0 && w != nil && (s.tenure.doubt || !s.covered(&w.Request, m.Now)) &&
			s.renewal.failures == 0 && m.Now < s.tenure.deadline
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

// renewing begins a renewal. It is urgent if the store should not put it off. The regular
// renewal of a kept lease, after a third of it, is not urgent. If only readers hold the lock, the renewal
// makes the tenure shared.
func (s *State) renewing(m Moment) Event {
	e := Event{Kind: Renewing, Tenure: s.tenure.number, Mode: s.tenure.mode, Lease: s.renewalLease(m)}
	if s.grants.len() > 0 && s.grants.shared() {
		e.Mode = Shared
	}
	// Without a grant this is the renewal that the first hold waits for.
	e.Urgent = s.grants.len() == 0 || s.tenure.falls || s.downgradeDue() <= m.Now ||
		s.tenure.deadline.Sub(m.Now) < min(e.Lease, roomy)/2
	return e
}

// downgradeDue is when the tenure has to become shared, or never: only readers hold the lock, and none but readers
// follow. A writer who follows can have the tenure as it is.
//
// It is at once.
func (s *State) downgradeDue() Instant {
	t := &s.tenure
	if t.mode == Shared || s.grants.len() == 0 || !s.grants.shared() {
		return never
	}
	if w := s.queue.head(); w != nil && w.Mode != Shared {
		return never
	}
	return t.sent
}

// sought reports whether the request at the head wants the tenure of the attempt. It does not
// if it has another mode: a tenure has one mode for its life.
func (s *State) sought() bool {
	w := s.queue.head()
	return w != nil && (w.Mode == s.attempt.mode || s.attempt.number == 0)
}

func (s *State) attempted(m Moment) Event {
	r := s.queue.head().Request
	e := Event{
		Kind: Attempted, Tenure: s.attempt.number, Lease: s.lease(&r), Token: s.floor, Request: r,
	}
	// A place needs a subscription, and a request that waits. An earlier call may have got a place already.
	waits := s.attempt.queued || s.attempt.unanswered || s.contended && s.queue.len() > s.queue.tries.len()
	e.Queue, e.Contends = waits && !s.cfg.Polls, waits && s.cfg.Polls
	if e.Tenure == 0 {
		e.Tenure = m.Fresh
	}
	e.Rests = s.wantsRest(&r, m)
	if e.Rests || r.Lease == 0 && s.beginsBriefly(m.Now) {
		e.Lease = min(e.Lease, lockagent.PassLease)
	}
	return e
}

// beginsBriefly reports whether a kept lease begins as that of a pass: if the agent has just had the lock for a moment,
// or if the attempt was made before with a lease as short. The earlier call may still arrive, after the store has lost
// its data.
func (s *State) beginsBriefly(now Instant) bool {
	before := s.attempt.open
	return s.habit.again(now) || before != 0 && before <= lockagent.PassLease
}

func (s *State) returning() Event {
	e := Event{Kind: Returning, Tenure: s.tenure.number, Token: s.tenure.last, Unanswered: s.tenure.unanswered}
	if s.leaving.withdraws {
		e.Kind = Withdrawing
	}
	return e
}

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
	w := s.queue.head()
	return w != nil && s.grants.len() > 0 && !s.covered(&w.Request, m.Now) && s.serves(&w.Request, m)
}

// serves is mayGrant for a tenure that is long enough for what is to outlive this process.
func (s *State) serves(r *Request, m Moment) bool {
	t := &s.tenure
	beside := s.grants.len() > 0
	need := max(s.lease(r), lockagent.PassLease)
	if s.grants.kept > 0 {
		need = max(need, s.cfg.Watchdog)
	}
	if i := s.grants.top(longest); i != 0 {
		need = max(need, s.grants.at(i).request.Lease)
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
	holds, until := s.budget()
	return joins || holds > 0 && m.Now < until
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
func (s *State) granted(w *waiter, m Moment) (e Event) {
	t := &s.tenure
	e = Event{
		Kind: Granted, Request: w.Request, Token: t.next(), How: lockagent.ByHandOff,
		Count: s.grants.of(&w.Request) + 1, Tenure: t.number, Sent: t.sent, Lease: t.lease, StoreTime: t.storeTime, Incarnation: t.incarnation,
		ClaimBy: m.Now.add(s.cfg.Claim), Replicas: t.replicas, Holds: s.holdsOf(&w.Request, m),
	}
	switch {
	case t.holds == 0:
		e.How = lockagent.ByStore
	case s.Resting():
		e.How = lockagent.ByRest
	}
	e.Fixed = s.fixedEnd(&w.Request, m.Now)
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
