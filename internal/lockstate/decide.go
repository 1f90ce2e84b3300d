package lockstate

import (
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
		if i := s.grants.find(c.ID); i >= 0 {
			out = append(out, s.ended(i, len(s.grants)-1, lockagent.LostUnclaimed, m))
		}
	case Break:
		if len(s.grants) == 0 {
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
		return s.passed(&c, m, out)
	case Standby:
		return s.standby(c, m, out)
	case Wanted:
		return s.wanted(c, out)
	case Broken:
		return s.broken(c, m, out)
	case Missed, StoreReset:
		return s.doubted(m, out)
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
	again := r.Session && r.Owner == s.grants.owner()
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
	if i := s.grants.find(c.ID); i >= 0 && s.grants[i].claimBy != 0 {
		return append(out, Event{Kind: Recalled, Request: s.grants[i].request})
	}
	return out
}

func (s *State) release(c Release, m Moment, out []Event) []Event {
	i := s.grants.find(c.ID)
	if i < 0 {
		err := lockagent.ErrNotHeld
		if c.ID == 0 && len(s.grants) > 0 && s.grants.owner() != c.Owner {
			err = lockagent.ErrNotOwner
		}
		return append(out, Event{Kind: Unlocked, Call: c.Call, Err: err})
	}
	left := len(s.grants) - 1
	end := s.ended(i, left, 0, m)
	if left > 0 {
		return append(out, end, Event{Kind: Unlocked, Call: c.Call})
	}
	end.Call = c.Call // answered when the hold has been handed off or the tenure returned
	return append(out, end)
}

func (s *State) ownerGone(c OwnerGone, m Moment, out []Event) []Event {
	for i := s.queue.first; i < len(s.queue.items); i++ {
		if w := &s.queue.items[i]; !w.gone && w.Owner == c.Owner {
			out = append(out, Event{Kind: Answered, Request: w.Request, Err: lockagent.ErrSessionClosed})
		}
	}
	if len(s.grants) == 0 || s.grants.owner() != c.Owner {
		return append(out, Event{Kind: Unlocked, Call: c.Call})
	}
	out = s.endAll(lockagent.LostSessionClosed, m, out)
	out[len(out)-1].Call = c.Call
	return out
}

// endAll ends every grant, the youngest first.
func (s *State) endAll(why lockagent.LossReason, m Moment, out []Event) []Event {
	for i := len(s.grants) - 1; i >= 0; i-- {
		out = append(out, s.ended(i, i, why, m))
	}
	return out
}

// ended is the end of the i-th grant, after which left are left.
func (s *State) ended(i, left int, why lockagent.LossReason, m Moment) Event {
	g := &s.grants[i]
	return Event{
		Kind: Ended, Request: g.request, Reason: why, Token: g.token, Tenure: s.tenure.number,
		Count: left, Since: g.since, Until: s.tenure.storeUpper(m.Now),
	}
}
