package lockstate

import (
	"github.com/lockagent/lockagent"
)

// apply folds an event into the state. It decides nothing: the same events lead to the same
// state.
func (s *State) apply(e *Event) {
	switch e.Kind {
	case Requested:
		s.requests.arrive(e.Request)
	case Queued:
		s.requests.find(e.Request.ID).queued = true
	case Answered:
		s.requests.remove(s.requests.find(e.Request.ID))
		s.touch(e.Now)
	case Granted, Reentered:
		of := grant{token: e.Token, since: e.Now, fixed: e.Fixed, claimBy: e.ClaimBy, confirmed: e.StoreTime}
		if first := s.requests.again(&e.Request); e.Kind == Reentered && first != nil {
			of.confirmed = first.confirmed
		}
		s.requests.grant(s.requests.find(e.Request.ID), of)
		if e.Kind == Granted {
			s.tenure.rests = s.tenure.rests && !e.Request.NoRest
			if s.tenure.resting {
				s.habit.gap(e.Now.Sub(s.tenure.restedAt))
				s.tenure.resting = false
			}
			s.tenure.joined = s.tenure.holds > 0
			s.tenure.holds += int(e.Holds)
			s.tenure.last = e.Token + lockagent.Token(e.Holds-1)
			s.floor = max(s.floor, s.tenure.last)
		}
	case Reclaiming:
		s.requests.claimed(s.requests.find(e.Request.ID))
	case Extended:
		s.requests.extend(s.requests.find(e.Request.ID), e.Fixed, e.Own)
	case Ended:
		s.requests.remove(s.requests.find(e.Request.ID))
		if e.Call != 0 {
			s.call = e.Call
		}
	case Unlocked:
		if e.Call == s.call {
			s.call = 0
		}
	case AskBreak, Disowning: // for the shell alone

	case Attempted:
		s.phase = asking
		a := &s.attempt // what is not set here is zero, or comes from earlier calls with this number
		a.number, a.mode, a.sent, a.lease, a.upto = e.Tenure, e.Request.Mode, e.Now, e.AskedLease, s.requests.last()
		a.placed, a.rests, a.woken, a.offer, a.ghost = e.Queue, e.Rests, false, nil, 0
	case FoundBusy:
		s.phase = sleeping
		s.retryAt, s.failures = e.RetryAt, 0
		s.contended = true
		s.habit.streak = 0
		s.attempt.notified = e.Notified
		s.attempt.ghost, s.attempt.disowned = e.Ghost, 0
		s.attempt.rival = s.attempt.rival.updated(e.Holder, e.Left, e.StoreTime, e.Clock)
		if e.Queued && !s.attempt.queued() {
			s.attempt.arrived = max(e.StoreTime, 1) // 0 is for no place
		}
		s.attempt.set = s.attempt.set || e.Set
		s.attempt.doubt = s.attempt.doubt && s.attempt.woken
		s.attempt.busy = busyness{s.attempt.sent, e.StoreTime, e.Clock}
		s.met(e.Now)
	case AttemptFailed:
		s.phase = sleeping
		s.retryAt = e.RetryAt
		s.failures++
		if !e.Unanswered { // the number is spent
			s.attempt = attempt{}
			break
		}
		s.attempt.unanswered, s.attempt.open = true, max(s.attempt.open, s.attempt.lease)
	case AttemptRefused:
		s.phase = sleeping // settle withdraws it from there, if an earlier call may have taken effect
		s.retryAt = never
	case Offered:
		s.attempt.offer = &Passed{
			Tenure: e.Tenure, Token: e.Token, At: e.StoreTime, Clock: e.Clock, Incarnation: e.Incarnation,
			Outsiders: e.Outsiders,
			Contested: e.Wanted,
		}
	case Began:
		rests := e.Rests && !s.attempt.contested
		s.met(e.Now)
		s.habit.began(e.Sent, s.attempt.busy == busyness{} && e.Outsiders == 0, s.cfg.Rest)
		if s.attempt.rests && !rests { // another agent wants the lock, or nothing rests in this store
			s.habit.recalled()
		}
		// An answer ends the doubt that arose before its call was sent. A pass does not.
		doubt := s.attempt.doubt && (s.attempt.woken || s.phase != asking)
		s.phase = held
		s.renewal = renewal{}
		s.failures = 0
		s.tenure = tenure{
			number: e.Tenure, mode: s.attempt.mode, began: e.Now, begun: e.StoreTime, incarnation: e.Incarnation,
			first: e.Token, outsiders: e.Outsiders > 0, contested: s.attempt.contested || e.Wanted && s.attempt.mode == Shared,
			doubt: doubt, open: s.attempt.open,
			unanswered: s.attempt.unanswered || e.Unanswered,
			budgetFrom: e.Now, rests: rests, wanted: s.attempt.wanted || e.Wanted,
		}
		s.attempt = attempt{}
		s.confirm(e)
		s.tenure.ahead = max(e.Token, lockagent.Token(e.StoreTime)) - lockagent.Token(e.StoreTime)
	case Forgot:
		s.free()

	case Renewing:
		s.renewal.inFlight, s.renewal.stale, s.renewal.wanted = true, false, false
		s.renewal.sent, s.renewal.lease = e.Now, e.AskedLease
		if e.Mode != s.tenure.mode { // those who want to read can have the lock now. The answer tells of the others
			s.tenure.downgrading, s.tenure.wanted = true, false
		}
		s.tenure.mode = e.Mode // from now on it may be shared in the store
		s.tenure.joined = false
		s.tenure.rests = false // the lease is long from now on
	case Renewed:
		s.confirm(e)
		s.tenure.doubt, s.tenure.downgrading = s.renewal.stale, false
		if s.tenure.mode == Shared { // the answer counts outsiders, too
			s.tenure.contested, s.tenure.outsiders = e.Wanted || s.renewal.wanted, false
			s.tenure.wanted = s.tenure.wanted && s.renewal.wanted
		}
		s.tenure.wanted = s.tenure.wanted || e.Wanted
		s.renewal = renewal{}
		s.requests.trim() // a hold that was renewed may last for much longer
	case BecameUncertain:
		s.tenure.uncertain = true
	case RenewFailed:
		s.tenure.open = max(s.tenure.open, s.renewal.lease)
		s.renewal.inFlight = false
		s.renewal.failures, s.renewal.retryAt = e.Failures, e.RetryAt
	case Denied:
		if e.Unanswered {
			s.withdraw(tenure{number: e.Tenure, last: s.tenure.last, unanswered: true, open: s.left(e.Now)}, e.Now)
			break
		}
		s.free()

	case Rested:
		s.tenure.resting, s.tenure.restedAt = true, e.Now

	case Returning, Withdrawing:
		if s.phase != releasing {
			if s.tenure.rests && s.tenure.holds > 1 {
				s.habit.paid()
			}
			s.leaving = leaving{
				withdraws: e.Kind == Withdrawing, inTime: e.Kind == Returning && e.Now < s.tenure.deadline,
				dropAt: e.Now.add(max(s.left(e.Now), s.attempt.open, s.cfg.Watchdog)),
			}
			if e.Kind == Withdrawing {
				s.tenure = tenure{number: e.Tenure, unanswered: e.Unanswered}
			}
			s.phase = releasing
			s.attempt = attempt{}
			s.renewal = renewal{}
			s.failures = 0
			// Only the store knows of programs that poll. It has to hear that requests still wait.
			s.contended = s.contended || s.requests.waiting.len() > s.requests.tries.len()
		}
		s.leaving.inFlight = true
	case ReleaseFailed:
		s.leaving.inFlight, s.leaving.unanswered = false, true
		s.failures++
		s.retryAt = e.RetryAt
	case Returned, Withdrawn, Dropped:
		s.habit.ended, s.habit.brief = e.Now, s.tenure.holds > 0 && e.Now.Sub(s.tenure.began) < lockagent.PassLease
		if e.Wanted {
			s.habit.streak = 0
		}
		// Others that were woken may only linger. Two agents would keep each other at it.
		if e.Wanted || s.cfg.Polls {
			s.touch(max(e.Now, e.RetryAt))
		}
		s.free()
		s.notBefore = e.RetryAt

	case Woke:
		s.attempt.woken = s.phase == asking
		s.retryAt = e.RetryAt
		if e.Tenure != 0 {
			s.attempt.ghost, s.attempt.disowned = 0, e.Tenure
		}
	case Contested:
		s.attempt.contested, s.tenure.contested = s.attempt.mode == Shared || s.attempt.rests, s.tenure.mode == Shared
		s.attempt.wanted = s.attempt.number != 0 && (s.attempt.wanted || e.Wanted)
		s.tenure.wanted = s.tenure.number != 0 && (s.tenure.wanted || e.Wanted)
		if t := &s.tenure; t.rests {
			t.rests, t.budgetFrom, t.unbudgeted = false, e.Now, t.holds
			s.habit.recalled()
		}
		s.renewal.wanted = s.renewal.inFlight
	case Doubted:
		if s.phase == asking || s.phase == sleeping {
			s.attempt.doubt, s.attempt.woken = true, s.phase == asking
			s.retryAt = e.Now
			break
		}
		s.tenure.doubt = true
		s.renewal.stale = s.renewal.inFlight
		s.renewal.failures, s.renewal.retryAt = 0, 0
	case Quieted:
		s.contended = false
	case Detached:
		s.closed = true
		s.requests.forgetGrants()
		s.free()
	case Closed:
		s.closed = true
		s.retryAt = 0 // try a last time to release a tenure, if there is one
	}
}

// confirm moves the bounds of the tenure, which the store has granted or renewed.
func (s *State) confirm(e *Event) {
	t := &s.tenure
	t.sent, t.replied, t.lease, t.storeTime, t.replicas = e.Sent, e.Now, e.Lease, e.StoreTime, e.Replicas
	t.deadline = max(t.deadline, e.Sent.add(s.cfg.trust(e.Lease)))
	t.until = max(t.until, e.Now.add(e.Lease))
	t.third, t.uncertain = s.third(), false
}

// withdraw begins the withdrawal of a tenure. Only the fields of t that are set are known of it.
func (s *State) withdraw(t tenure, now Instant) {
	s.phase = releasing
	s.tenure = t
	s.renewal = renewal{}
	s.leaving = leaving{withdraws: true, dropAt: now.add(max(t.open, s.cfg.Watchdog))}
	s.retryAt, s.failures = now, 0
}

// free forgets the attempt and the tenure.
func (s *State) free() {
	s.phase = free
	s.attempt = attempt{}
	s.tenure = tenure{}
	s.renewal = renewal{}
	s.leaving = leaving{}
	s.notBefore, s.retryAt, s.failures = 0, 0, 0
}

// met notes that the attempt met others until now, if it did. A lock that rests elsewhere does not count: perhaps
// nobody used it.
func (s *State) met(now Instant) {
	if a := &s.attempt; a.busy != (busyness{}) && a.notified == 0 {
		s.touch(now)
	}
}

// touch puts off the end of the subscription to wake-ups: another agent contends for the lock.
func (s *State) touch(now Instant) { s.quietAt = now.add(s.cfg.Linger) }
