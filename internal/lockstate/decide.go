package lockstate

import (
	"github.com/lockagent/lockagent"
)

// decide returns the events that follow from a command at once. settle finds those that
// follow later. decide only reads the state.
func (s *State) decide(c Command, m Moment, out []Event) []Event {
	switch c := c.(type) {
	case Acquire:
		return s.acquire(c, m, out)
	case Cancel:
		return s.cancel(c, out)
	case Release:
		return s.release(c, m, out)
	case Unclaimed:
		if i := s.grants.find(c.ID); i >= 0 {
			out = append(out, s.ended(i, s.grants, lockagent.LostUnclaimed, m))
		}
	case Extend:
		return s.extend(c, m, out)
	case Break:
		if len(s.grants) == 0 || s.tenure.mode == Shared { // other agents may share the lock
			return append(out, Event{Kind: AskBreak, Call: c.Call})
		}
		return s.answered(c.Call, s.endAll(&loss{why: lockagent.LostBroken, operator: c.Operator}, m, out))
	case OwnerGone:
		return s.ownerGone(c, m, out)
	case Close:
		if !s.closed {
			out = append(out, Event{Kind: Closed})
		}
	case Detach:
		if s.call != 0 {
			out = append(out, Event{Kind: Unlocked, Call: s.call, Err: lockagent.ErrUnconfirmed})
		}
		out = append(out, Event{Kind: Detached})
	case Woken:
		if s.phase == asking || s.phase == sleeping {
			out = append(out, Event{Kind: Woke, RetryAt: max(m.Now, s.notBefore)})
		}
	case Passed:
		return s.passed(&c, m, out)
	case Standby:
		return s.standby(c, m, out)
	case Wanted:
		return s.wanted(c, m, out)
	case Broken:
		return s.broken(c, m, out)
	case displaced:
		return s.lost(&loss{why: lockagent.LostDenied, at: c.at, until: c.until}, m, out)
	case Missed:
		return s.doubted(s.contested(out)) // another agent may wait: its message may be lost, too
	case StoreReset:
		return s.doubted(out)
	case AcquireReplied:
		return s.acquireReplied(c, m, out)
	case RenewReplied:
		return s.renewReplied(c, m, out)
	case ReleaseReplied:
		return s.releaseReplied(c, m, out)
	case DisownReplied:
		return s.disownReplied(c, m, out)
	case Tick: // settle does what is due
	}
	return out
}

func (s *State) acquire(c Acquire, m Moment, out []Event) []Event {
	r := c.Request
	r.ID, r.Arrived = RequestID(m.Fresh), m.Now
	out = append(out, Event{Kind: Requested, Request: r})
	atOnce := s.phase == free && m.Now >= s.notBefore || s.phase == held && s.mayGrant(&r, m)
	if s.grants.again(&r) == nil && !s.grants.upgrades(&r) && (!atOnce || s.queue.len() > 0) && !r.Try && !s.closed {
		out = append(out, Event{Kind: Queued, Request: r, Waiters: s.queue.len() + 1})
	}
	return out
}

func (s *State) cancel(c Cancel, out []Event) []Event {
	if w := s.queue.find(c.ID); w != nil {
		return append(out, Event{Kind: Answered, Request: w.Request, Err: c.Err, TimedOut: c.TimedOut, Cancelled: !c.TimedOut})
	}
	if i := s.grants.find(c.ID); i >= 0 && s.grants[i].claimBy != 0 {
		return append(out, Event{Kind: Recalled, Request: s.grants[i].request})
	}
	return out
}

func (s *State) release(c Release, m Moment, out []Event) []Event {
	i := s.grants.find(c.ID)
	if i < 0 {
		err := lockagent.ErrNotHeld
		if c.ID == 0 && len(s.grants) > 0 && s.grants.of(c.Owner) == 0 {
			err = lockagent.ErrNotOwner
		}
		return append(out, Event{Kind: Unlocked, Call: c.Call, Err: err})
	}
	e := s.ended(i, s.grants, 0, m)
	if e.Reason != 0 {
		return append(out, e, Event{Kind: Unlocked, Call: c.Call, Reason: e.Reason})
	}
	return s.answered(c.Call, append(out, e))
}

// answered adds the answer to a call. out has the events of that call, and ends with the last
// grant that it ended, if any. If no grant is left, the answer has to wait until the lock has
// been handed off or the tenure returned.
func (s *State) answered(call CallID, out []Event) []Event {
	ended := 0
	for i := range out {
		if out[i].Kind == Ended {
			ended++
		}
	}
	if ended == 0 || ended < len(s.grants) {
		return append(out, Event{Kind: Unlocked, Call: call})
	}
	out[len(out)-1].Call = call
	return out
}

func (s *State) ownerGone(c OwnerGone, m Moment, out []Event) []Event {
	out = s.refuse(func(r *Request) bool { return r.Owner == c.Owner }, lockagent.ErrSessionClosed, out)
	for i := len(s.grants) - 1; i >= 0; i-- {
		if s.grants[i].request.Owner == c.Owner {
			out = append(out, s.ended(i, s.grants[:i+1], lockagent.LostSessionClosed, m))
		}
	}
	return s.answered(c.Call, out)
}

// refuse answers every waiting request that match accepts.
func (s *State) refuse(match func(*Request) bool, err error, out []Event) []Event {
	for i := s.queue.first; i < len(s.queue.items); i++ {
		if w := &s.queue.items[i]; !w.gone && match(&w.Request) {
			out = append(out, Event{Kind: Answered, Request: w.Request, Err: err})
		}
	}
	return out
}

// endAll ends every grant, the youngest first.
func (s *State) endAll(by *loss, m Moment, out []Event) []Event {
	for i := len(s.grants) - 1; i >= 0; i-- {
		e := s.ended(i, s.grants[:i+1], by.why, m)
		e.Operator = by.operator
		if by.until != 0 {
			e.Until = by.until
		}
		out = append(out, e)
	}
	return out
}

// ended is the event that ends the i-th grant. among are the grants that are held until then.
func (s *State) ended(i int, among grants, why lockagent.LossReason, m Moment) Event {
	g, t := &s.grants[i], &s.tenure
	// A process that was suspended may end a hold before its tick. The clock was first. What the
	// store says stays the reason.
	if over := s.overdue(g, m.Now); over != 0 && why != lockagent.LostDenied && why != lockagent.LostBroken {
		why = over
	}
	return Event{
		Kind: Ended, Request: g.request, Reason: why, Token: g.token, Tenure: t.number,
		Count: among.of(g.request.Owner) - 1, Since: g.since, Until: storeUpper(t.storeTime, t.sent, m.Now),
		StoreTime: t.storeTime, Lease: t.lease,
	}
}
