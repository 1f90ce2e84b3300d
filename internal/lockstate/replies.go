package lockstate

import (
	"errors"

	"github.com/lockagent/lockagent"
)

func (s *State) acquireReplied(c AcquireReplied, m Moment, out []Event) []Event {
	if s.phase != asking || c.Tenure != s.attempt.number {
		return out
	}
	withdrawn := errors.Is(c.Err, lockagent.ErrWithdrawn)
	switch {
	case c.Err != nil && lockagent.Definite(c.Err) && !withdrawn:
		return s.attemptRefused(c.Err, out)
	case c.Err != nil:
		return s.attemptFailed(c.Err, withdrawn, m, out)
	case c.Reply.Granted:
		return s.attemptGranted(&c.Reply, m, out)
	}
	return s.foundBusy(&c.Reply, m, out)
}

func (s *State) attemptRefused(err error, out []Event) []Event {
	for i := s.queue.first; i < len(s.queue.items); i++ {
		if w := &s.queue.items[i]; !w.gone {
			out = append(out, Event{Kind: Answered, Request: w.Request, Err: err})
		}
	}
	return append(out, Event{Kind: AttemptRefused, Err: err})
}

func (s *State) attemptFailed(err error, withdrawn bool, m Moment, out []Event) []Event {
	out = append(out, Event{Kind: AttemptFailed, RetryAt: m.Now.add(s.cfg.backoff(s.failures+1, m)), Err: err, Unanswered: !withdrawn})
	if e, ok := s.begunBy(s.attempt.offer, s.attempt.busy, m); ok && s.attempt.queued && !withdrawn {
		return append(out, e)
	}
	if withdrawn { // a number was used twice, which no application can do anything about
		err = lockagent.ErrInternal
	}
	return s.answerTries(s.attempt.upto, err, out)
}

func (s *State) attemptGranted(r *lockagent.AcquireReply, m Moment, out []Event) []Event {
	a := &s.attempt
	out = append(out, Event{
		Kind: Began, Tenure: a.number, Sent: a.sent, Lease: a.lease,
		Token: r.Token, StoreTime: r.At, Incarnation: r.Incarnation, Outsiders: r.Outsiders,
	})
	if m.Now < a.sent.add(s.cfg.trust(a.lease)) {
		return out
	}
	// A reply that was slower than the lease would be as slow next time, so whoever
	// asked for that lease, or for one try, is told.
	if w := s.queue.head(); w != nil && w.Lease == a.lease && w.Arrived <= a.sent && !w.Try {
		out = append(out, Event{Kind: Answered, Request: w.Request, Err: lockagent.ErrLeaseTooShort})
	}
	return s.answerTries(a.upto, lockagent.ErrLeaseTooShort, out)
}

func (s *State) foundBusy(r *lockagent.AcquireReply, m Moment, out []Event) []Event {
	if e, ok := s.begunBy(s.attempt.offer, busyness{s.attempt.sent, r.At, r.Clock}, m); ok {
		return append(out, e)
	}
	retryAt := m.Now.add(s.cfg.sleep(r.Remaining, s.attempt.trustsMessages(r.Queued), m))
	if s.attempt.woken || s.attempt.offer != nil {
		retryAt = m.Now
	}
	out = append(out, Event{Kind: FoundBusy, RetryAt: retryAt, Holder: r.Holder, Left: r.Remaining, StoreTime: r.At, Clock: r.Clock, Queued: r.Queued})
	// A tenure of this agent has the lock, but this is the only one that it knows of.
	if t, ok := lockagent.ParseTenure(r.Holder); ok && t.Agent == s.cfg.Agent {
		out = s.disowning(t.Number, out)
	}
	if w := s.queue.head(); w != nil && !w.queued && !w.Try {
		out = append(out, Event{Kind: Queued, Request: w.Request, Waiters: s.queue.len()})
	}
	return s.answerTries(s.attempt.upto, &lockagent.HeldError{Name: s.name, Holder: r.Holder, Left: r.Remaining}, out)
}

// answerTries answers the requests that would not wait, up to the one that was
// the youngest when the store was asked. For one that came later, the answer may
// be too old.
func (s *State) answerTries(upto RequestID, err error, out []Event) []Event {
	if s.queue.tries == 0 {
		return out
	}
	for i := s.queue.first; i < len(s.queue.items); i++ {
		if w := &s.queue.items[i]; !w.gone && w.Try && w.ID <= upto {
			out = append(out, Event{Kind: Answered, Request: w.Request, Err: err})
		}
	}
	return out
}

func (s *State) renewReplied(c RenewReplied, m Moment, out []Event) []Event {
	if s.phase != held || c.Tenure != s.tenure.number || !s.renewal.inFlight {
		return out
	}
	switch {
	case c.Err != nil:
		return append(out, Event{Kind: RenewFailed, Err: c.Err, Tenure: c.Tenure, Count: s.renewal.failures + 1, RetryAt: s.renewAgain(m)})
	case !c.Reply.Held:
		return s.denied(lockagent.LostDenied, c.Reply.At, s.tenure.unanswered, m, out)
	}
	return append(out, Event{Kind: Renewed, Tenure: c.Tenure, Sent: s.renewal.sent, Lease: s.renewal.lease, StoreTime: c.Reply.At})
}

// denied is the end of a tenure that the store does not have any more.
func (s *State) denied(why lockagent.LossReason, at lockagent.StoreTime, again bool, m Moment, out []Event) []Event {
	t := &s.tenure
	return append(s.endAll(why, m, out), Event{Kind: Denied, Tenure: t.number, Reason: why, StoreTime: at, Count: t.holds, Unanswered: again})
}

func (s *State) releaseReplied(c ReleaseReplied, m Moment, out []Event) []Event {
	if s.phase != releasing || c.Tenure != s.tenure.number || !s.leaving.inFlight {
		return out
	}
	answer := Event{Kind: Unlocked, Call: s.call}
	switch {
	case c.Err != nil && (lockagent.Definite(c.Err) || s.closed):
		answer.Err = c.Err
		if !lockagent.Definite(c.Err) {
			answer.Err = lockagent.ErrUnconfirmed
		}
		out = append(out, Event{Kind: Dropped, Tenure: c.Tenure, Err: c.Err})
	case c.Err != nil:
		answer.Err = lockagent.ErrUnconfirmed
		out = append(out, Event{Kind: ReleaseFailed, Tenure: c.Tenure, Err: c.Err, RetryAt: m.Now.add(s.cfg.backoff(s.failures+1, m))})
		out = s.answerTries(s.queue.last(), c.Err, out)
	default:
		e := s.returned(&c.Reply, m)
		if e.Kind == Returned && !e.Released {
			answer.Reason = lockagent.LostDenied
		}
		out = append(out, e)
	}
	if answer.Call != 0 {
		out = append(out, answer)
	}
	return out
}

// returned is the end of a tenure in the store.
func (s *State) returned(r *lockagent.ReleaseReply, m Moment) Event {
	if s.leaving.withdraws {
		return Event{Kind: Withdrawn, Tenure: s.tenure.number, StoreTime: r.At}
	}
	e := Event{
		Kind: Returned, Tenure: s.tenure.number, StoreTime: r.At, Count: s.tenure.holds,
		// If there was nothing to release, an earlier call without an answer released it.
		// Or it ended after the deadline, when no hold depended on it.
		Released: r.Released || s.leaving.unanswered && s.leaving.inTime,
	}
	// After a pass there is nobody to yield to. Asking again at once takes the next
	// place in the queue.
	if r.Others != 0 && !r.Passed {
		e.RetryAt = m.Now.add(s.cfg.Yield)
	}
	return e
}
