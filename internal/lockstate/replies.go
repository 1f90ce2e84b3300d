package lockstate

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
)

func (s *State) acquireReplied(c AcquireReplied, m Moment, out []Event) []Event {
	if s.phase != asking || c.Tenure != s.attempt.number {
		return out
	}
	withdrawn := errors.Is(c.Err, lockagent.ErrWithdrawn)
	grace, waits := errors.AsType[*lockagent.GraceError](c.Err)
	switch {
	case waits: // nothing is known of the lock, and a message tells when the store grants again
		c.Reply = lockagent.AcquireReply{Remaining: min(grace.Left, graceSleep)}
		return s.foundBusy(&c, grace, m, out)
	case c.Err != nil && lockagent.Definite(c.Err) && !withdrawn:
		return s.attemptRefused(c.Err, out)
	case c.Err != nil:
		return s.attemptFailed(c.Err, withdrawn, m, out)
	case c.Reply.Granted:
		return s.attemptGranted(&c.Reply, m, out)
	}
	return s.foundBusy(&c, nil, m, out)
}

// graceSleep is how often a waiter asks in a grace period, if no message tells that it is over.
const graceSleep = time.Second

func (s *State) attemptRefused(err error, out []Event) []Event {
	for w := range s.requests.waiters {
		out = append(out, refused(w, err))
	}
	return append(out, Event{Kind: AttemptRefused, Tenure: s.attempt.number, Err: err})
}

func (s *State) attemptFailed(err error, withdrawn bool, m Moment, out []Event) []Event {
	failed := Event{
		Kind: AttemptFailed, Tenure: s.attempt.number, Traits: Traits{Unanswered: !withdrawn}, Err: err,
		Retry: Retry{RetryAt: m.Now.add(s.cfg.backoff(int(s.failures)+1, m)), Failures: s.failures + 1},
	}
	if w := s.requests.head(); w != nil && !w.queued && !w.Try {
		failed.Request = w.Request
	}
	out = append(out, failed)
	if e, ok := s.begunBy(s.attempt.offer, s.attempt.busy, m); ok && s.attempt.queued() && !withdrawn {
		return append(out, e)
	}
	if withdrawn { // the agent used a number twice: a defect, which no application can mend
		err = lockagent.ErrInternal
	}
	return s.answerTries(s.attempt.upto, err, out)
}

func (s *State) attemptGranted(r *lockagent.AcquireReply, m Moment, out []Event) []Event {
	a := &s.attempt
	out = append(out, Event{
		Kind: Began, Tenure: a.number, Traits: Traits{Rests: r.Rests},
		Hold:      Hold{Token: r.Token},
		Decision:  Decision{StoreTime: r.At, Incarnation: r.Incarnation},
		Confirmed: Confirmed{Sent: a.sent, Lease: a.lease, Replicas: r.Replicas},
		Others:    Others{Outsiders: r.Outsiders, Wanted: r.Contested},
	})
	if m.Now < a.sent.add(s.cfg.trust(a.lease)) {
		return out
	}
	// The reply came when its lease was over. The next reply may come as late. So the request
	// that asked for that lease is answered, and so are those that do not wait.
	if w := s.requests.head(); w != nil && w.Lease == a.lease && w.Arrived <= a.sent && !w.Try {
		out = append(out, refused(w, lockagent.ErrLeaseTooShort))
	}
	for w := range s.requests.triesUpto(a.upto) {
		err := errLate // nobody asked for a lease of that length
		if w.Lease == a.lease {
			err = lockagent.ErrLeaseTooShort
		}
		out = append(out, refused(w, err))
	}
	return out
}

var errLate = fmt.Errorf("%w: it answered when the lease was over", lockagent.ErrStoreUnavailable)

// foundBusy decides about a reply that does not grant the lock. grace is why the store grants nothing, or nil.
func (s *State) foundBusy(c *AcquireReplied, grace error, m Moment, out []Event) []Event {
	r := &c.Reply
	if e, ok := s.begunBy(s.attempt.offer, busyness{s.attempt.sent, r.At, r.Clock}, m); ok {
		return append(out, e)
	}
	most := s.attempt.trustsMessages(r.Queued)
	if r.AskWithin > 0 {
		most = min(most, r.AskWithin)
	}
	retryAt := m.Now.add(s.cfg.sleep(r.Remaining, most, m))
	if s.cfg.Polls && r.Holder != "" { // if nobody has it, the store keeps the lock for others
		pause := s.attempt.rival.updated(r.Holder, r.Remaining, r.At, r.Clock).pause
		// Two agents should not follow each other for ever.
		retryAt = min(retryAt, m.Now.add(pause/2+m.scatter(pause/2)))
	}
	notified := s.attempt.notifiedBy(r, m.Now)
	if s.attempt.woken || s.attempt.offer != nil {
		retryAt = m.Now
	}
	holder := r.Holder
	if r.NotSet {
		holder = lockagent.PermitsNotSet
	}
	ghost := s.ghost(c)
	awaited := ghost
	if ghost == s.attempt.disowned { // the store could not end the ghost
		awaited = 0
	}
	out = append(out, Event{
		Kind: FoundBusy, Tenure: s.attempt.number,
		Busy: Busy{
			Holder: holder, Left: r.Remaining, Notified: notified, Queued: r.Queued, Set: grace == nil && !r.NotSet,
			Ghost: awaited,
		},
		Retry:    Retry{RetryAt: retryAt},
		Decision: Decision{StoreTime: r.At, Clock: r.Clock},
	})
	if ghost != 0 {
		out = s.disowning(ghost, out)
	}
	if w := s.requests.head(); w != nil && !w.queued && !w.Try {
		out = append(out, queued(w.Request, s.requests.waiting.len()))
	}
	if awaited != 0 || recalling(notified, m.Now) {
		return out
	}
	if grace == nil {
		grace = &lockagent.HeldError{Name: s.name, Holder: holder, Left: r.Remaining}
	}
	return s.answerTries(s.attempt.upto, grace, out)
}

// answerTries answers the requests that do not wait. upto was the youngest request when the
// store was asked. For a request that came later the answer may be too old.
func (s *State) answerTries(upto RequestID, err error, out []Event) []Event {
	for w := range s.requests.triesUpto(upto) {
		out = append(out, refused(w, err))
	}
	return out
}

func (s *State) renewReplied(c RenewReplied, m Moment, out []Event) []Event {
	if s.phase != held || c.Tenure != s.tenure.number || !s.renewal.inFlight {
		return out
	}
	switch {
	case c.Err != nil:
		return append(out, Event{
			Kind: RenewFailed, Tenure: c.Tenure, Traits: Traits{Mode: s.tenure.mode}, Err: c.Err,
			Retry: Retry{RetryAt: s.renewAgain(m), Failures: s.renewal.failures + 1},
		})
	case !c.Reply.Held:
		return s.renewalDenied(c.Reply.At, m, out)
	}
	return append(out, Event{
		Kind: Renewed, Tenure: c.Tenure, Traits: Traits{Mode: s.tenure.mode},
		End:       End{Served: s.tenure.holds > 0},
		Decision:  Decision{StoreTime: c.Reply.At},
		Confirmed: Confirmed{Sent: s.renewal.sent, Lease: s.renewal.lease, Replicas: c.Reply.Replicas},
		Others:    Others{Wanted: c.Reply.Contested},
	})
}

// renewalDenied ends a tenure that the store denied at a time. That time bounds the ends of the
// holds better than the last confirmation does: if somebody set the store's clock forward, leases
// ended early, and the clock shows more than the last confirmation tells.
func (s *State) renewalDenied(at lockagent.StoreTime, m Moment, out []Event) []Event {
	by := loss{why: lockagent.LostDenied, at: at, unanswered: s.tenure.unanswered}
	if at >= s.tenure.storeTime { // otherwise it is of a clock that is behind
		by.until = storeUpper(at, s.renewal.sent, m.Now)
	}
	return s.denied(&by, m, out)
}

// denied ends a tenure that the store does not have any more.
func (s *State) denied(by *loss, m Moment, out []Event) []Event {
	t := &s.tenure
	out = append(s.endAll(by, m, out), Event{
		Kind: Denied, Tenure: t.number, Traits: Traits{Mode: t.mode, Unanswered: by.unanswered},
		End:      End{Reason: by.why, Served: t.holds > 0},
		Decision: Decision{StoreTime: by.at},
	})
	if s.call != 0 { // a release that waited for the renewal
		answer := unlocked(s.call, nil)
		answer.Reason, answer.Operator = by.why, by.operator
		out = append(out, answer)
	}
	return out
}

func (s *State) releaseReplied(c ReleaseReplied, m Moment, out []Event) []Event {
	if s.phase != releasing || c.Tenure != s.tenure.number || !s.leaving.inFlight {
		return out
	}
	answer := unlocked(s.call, nil)
	switch {
	case c.Err != nil && (lockagent.Definite(c.Err) || s.closed):
		answer.Err = c.Err
		if !lockagent.Definite(c.Err) {
			answer.Err = lockagent.ErrUnconfirmed
		}
		out = append(out, Event{Kind: Dropped, Tenure: c.Tenure, Err: c.Err})
	case c.Err != nil:
		answer.Err = lockagent.ErrUnconfirmed
		out = append(out, Event{
			Kind: ReleaseFailed, Tenure: c.Tenure, Err: c.Err,
			Retry: Retry{RetryAt: m.Now.add(s.cfg.backoff(int(s.failures)+1, m))},
		})
		out = s.answerTries(s.requests.last(), c.Err, out)
	default:
		e := s.returned(&c.Reply, m)
		switch {
		case e.Kind != Returned || e.Released:
		case s.leaving.inTime:
			answer.Reason = lockagent.LostDenied
		default: // the release waited for a renewal until the deadline: perhaps only the lease ran out
			answer.Err = lockagent.ErrUnconfirmed
		}
		out = append(out, e)
	}
	if answer.Call != 0 {
		out = append(out, answer)
	}
	return out
}

// returned is the event for a release that the store has confirmed.
func (s *State) returned(r *lockagent.ReleaseReply, m Moment) Event {
	if s.leaving.withdraws {
		return Event{Kind: Withdrawn, Tenure: s.tenure.number}
	}
	e := Event{
		Kind: Returned, Tenure: s.tenure.number, Traits: Traits{Mode: s.tenure.mode},
		End: End{
			// If there was nothing to release, an earlier call without an answer may have released
			// the tenure. Otherwise its lease ended after the deadline, when no hold depended on it.
			Released: r.Released || s.leaving.unanswered && s.leaving.inTime,
			Served:   s.tenure.holds > 0,
		},
		Decision: Decision{StoreTime: r.At},
		Others:   Others{Wanted: r.Passed}, // others that were woken may have no waiters any more
	}
	if e.Released && s.leaving.unanswered {
		e.Until = r.At // a store that forgot the release, too, says that it released the tenure now
	}
	// After a pass there is nobody to yield to: the next attempt only gets a place in the
	// queue.
	if r.Others != 0 && !r.Passed || s.cfg.Polls && s.requests.waiting.n > 0 {
		e.RetryAt = m.Now.add(s.cfg.Yield)
	}
	return e
}
