package lockstate

import (
	"errors"

	"github.com/lockagent/lockagent"
)

// decide says what a command means: the events that follow from it at once. What
// follows from those is for settle to find out. It only reads the state.
func (s *State) decide(c Command, m Moment, out []Event) []Event {
	switch c := c.(type) {
	case Acquire:
		return s.acquire(c, m, out)
	case Cancel:
		return s.cancel(c, out)
	case Release:
		return s.release(c, m, out)
	case Unclaimed:
		if i := s.holder.find(c.ID); i >= 0 {
			out = append(out, s.ended(i, len(s.holder.grants)-1, lockagent.LostUnclaimed, m))
		}
	case Extend:
		return s.extend(c, m, out)
	case Break:
		if s.holder.none() {
			return append(out, Event{Kind: AskBreak, Call: c.Call})
		}
		out = s.endAll(lockagent.LostBroken, m, out)
		out[len(out)-1].Call = c.Call // answered as a release is
		return out
	case OwnerGone:
		return s.ownerGone(c, m, out)
	case Close:
		if !s.closed {
			out = append(out, Event{Kind: Closed})
		}
	case Woken:
		if s.phase == asking || s.phase == sleeping {
			out = append(out, Event{Kind: Woke, RetryAt: max(m.Now, s.notBefore)})
		}
	case Passed:
		return s.passed(&c.Pass, m, out)
	case StoreReset:
		switch s.phase {
		case asking, held:
			out = append(out, Event{Kind: Doubted})
		case sleeping:
			out = append(out, Event{Kind: Woke, RetryAt: m.Now})
		}
	case AcquireReplied:
		return s.acquireReplied(c, m, out)
	case RenewReplied:
		return s.renewReplied(c, m, out)
	case ReleaseReplied:
		return s.releaseReplied(c, m, out)
	case Tick: // settle does what is due
	}
	return out
}

func (s *State) acquire(c Acquire, m Moment, out []Event) []Event {
	r := c.Request
	r.ID, r.Arrived = RequestID(m.Fresh), m.Now
	out = append(out, Event{Kind: Requested, Request: r})
	again := !s.holder.none() && r.Session && r.Owner == s.holder.owner()
	atOnce := s.phase == free && s.queue.len() == 0 && m.Now >= s.notBefore
	if !again && !atOnce && !r.Try && !s.closed {
		out = append(out, Event{Kind: Queued, Request: r, Waiters: s.queue.len() + 1})
	}
	return out
}

func (s *State) cancel(c Cancel, out []Event) []Event {
	if w := s.queue.find(c.ID); w != nil {
		return append(out, Event{Kind: Answered, Request: w.Request, Err: c.Err, TimedOut: c.TimedOut, Cancelled: !c.TimedOut})
	}
	if i := s.holder.find(c.ID); i >= 0 && s.holder.grants[i].claimBy != 0 {
		return append(out, Event{Kind: Recalled, Request: s.holder.grants[i].request})
	}
	return out
}

func (s *State) release(c Release, m Moment, out []Event) []Event {
	i := s.holder.find(c.ID)
	if c.ID == 0 {
		switch {
		case s.holder.none():
		case s.holder.owner() != c.Owner:
			return append(out, Event{Kind: Unlocked, Call: c.Call, Err: lockagent.ErrNotOwner})
		default:
			i = len(s.holder.grants) - 1
		}
	}
	if i < 0 {
		return append(out, Event{Kind: Unlocked, Call: c.Call, Err: lockagent.ErrNotHeld})
	}
	left := len(s.holder.grants) - 1
	end := s.ended(i, left, 0, m)
	if left > 0 {
		return append(out, end, Event{Kind: Unlocked, Call: c.Call})
	}
	end.Call = c.Call // answered when the hold has been passed on or returned
	return append(out, end)
}

func (s *State) ownerGone(c OwnerGone, m Moment, out []Event) []Event {
	for i := s.queue.first; i < len(s.queue.items); i++ {
		if w := &s.queue.items[i]; !w.gone && w.Owner == c.Owner {
			out = append(out, Event{Kind: Answered, Request: w.Request, Err: lockagent.ErrSessionClosed})
		}
	}
	if s.holder.none() || s.holder.owner() != c.Owner {
		return append(out, Event{Kind: Unlocked, Call: c.Call})
	}
	out = s.endAll(lockagent.LostSessionClosed, m, out)
	out[len(out)-1].Call = c.Call
	return out
}

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
	out = append(out, Event{Kind: AttemptFailed, RetryAt: m.Now.add(s.cfg.backoff(s.failures+1, m)), Err: err, Unsure: !withdrawn})
	if e, ok := s.begunBy(s.attempt.offer, s.attempt.busySent, s.attempt.busyAt, m); ok && s.attempt.queued && !withdrawn {
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
		Token: r.Token, Tokens: a.tokens, StoreTime: r.At, Incarnation: r.Incarnation,
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
	if e, ok := s.begunBy(s.attempt.offer, s.attempt.sent, r.At, m); ok {
		return append(out, e)
	}
	retryAt := m.Now.add(s.cfg.sleep(r.Remaining, m))
	if s.attempt.woken || s.attempt.doubt || s.attempt.offer != nil {
		retryAt = m.Now
	}
	out = append(out, Event{Kind: FoundBusy, RetryAt: retryAt, Holder: r.Holder, Left: r.Remaining, StoreTime: r.At, Queued: r.Queued})
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
		return append(out, Event{
			Kind: RenewFailed, Err: c.Err, Tenure: c.Tenure, Count: s.renewal.failures + 1,
			RetryAt: m.Now.add(s.cfg.backoff(s.renewal.failures+1, m)),
		})
	case !c.Reply.Held:
		out = s.endAll(lockagent.LostDenied, m, out)
		if s.tenure.unsure { // an early attempt may begin it anew, so withdraw it
			return append(out, Event{Kind: Returning, Tenure: c.Tenure})
		}
		return append(out, Event{Kind: Denied, Tenure: c.Tenure, StoreTime: c.Reply.At, Count: s.tenure.grants})
	}
	return append(out, Event{Kind: Renewed, Tenure: c.Tenure, Sent: s.renewal.sent, Lease: s.renewal.lease, StoreTime: c.Reply.At})
}

func (s *State) releaseReplied(c ReleaseReplied, m Moment, out []Event) []Event {
	if s.phase != returning || c.Tenure != s.tenure.number || !s.inFlight {
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
		out = append(out, Event{Kind: ReturnFailed, Tenure: c.Tenure, Err: c.Err, RetryAt: m.Now.add(s.cfg.backoff(s.failures+1, m))})
		out = s.answerTries(s.queue.last(), c.Err, out)
	default:
		if !c.Reply.Released {
			answer.Reason = lockagent.LostDenied
		}
		e := Event{Kind: Returned, Tenure: c.Tenure, StoreTime: c.Reply.At, Released: c.Reply.Released, Count: s.tenure.grants}
		// After a pass there is nobody to yield to. Asking again at once takes the next
		// place in the queue, and the answer shows the short lease of the pass, so this
		// agent looks again when that ends: if the one that was passed the lock does not
		// take it up, those who wait do not depend on its lease for longer.
		if c.Reply.Others != 0 && !c.Reply.Passed {
			e.RetryAt = m.Now.add(s.cfg.Yield)
		}
		out = append(out, e)
	}
	if answer.Call != 0 {
		out = append(out, answer)
	}
	return out
}

// endAll ends every grant of the hold, the youngest first.
func (s *State) endAll(why lockagent.LossReason, m Moment, out []Event) []Event {
	for i := len(s.holder.grants) - 1; i >= 0; i-- {
		out = append(out, s.ended(i, i, why, m))
	}
	return out
}

// ended is the end of the i-th grant, after which left are left.
func (s *State) ended(i, left int, why lockagent.LossReason, m Moment) Event {
	g := &s.holder.grants[i]
	return Event{
		Kind: Ended, Request: g.request, Reason: why, Token: s.holder.token, Tenure: s.tenure.number,
		Count: left, Since: g.since, Until: s.tenure.storeUpper(m.Now),
	}
}
