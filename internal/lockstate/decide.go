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
		if g := s.requests.findGrant(c.ID); g != nil {
			out = s.leaseAnew(g, m, append(out, s.ended(g, lockagent.LostUnclaimed, m)))
		}
	case Extend:
		return s.extend(c, m, out)
	case Break:
		if c.Token != 0 {
			return s.breakHold(c, m, out)
		}
		return s.breakLock(c, m, out)
	case OwnerGone:
		return s.ownerGone(c, m, out)
	case Close:
		if !s.closed {
			out = append(out, Event{Kind: Closed})
		}
	case Detach:
		if s.call != 0 {
			out = append(out, unlocked(s.call, lockagent.ErrUnconfirmed))
		}
		out = append(out, Event{Kind: Detached})
	case Woken:
		if s.phase == asking || s.phase == sleeping {
			at := max(m.Now, s.notBefore)
			if s.requests.tries.n > 0 { // a request that does not wait does not yield either
				at = m.Now
			}
			out = append(out, woke(at))
		}
	case Passed:
		return s.passed(&c, m, out)
	case Standby:
		return s.standby(c, m, out)
	case Wanted:
		return s.wanted(c, m, out)
	case Broken:
		return s.broken(c, m, out)
	case Vacate:
		return s.contested(false, out)
	case displaced:
		return s.lost(&loss{why: lockagent.LostDenied, at: c.at, until: c.until}, m, out)
	case Missed:
		return s.doubted(s.contested(false, out)) // another agent may wait: its message may be lost, too
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

// concerns reports whether a command is about a tenure, a request or a grant of the part of a [Fair].
func (s *State) concerns(c Command, m Moment) bool {
	serves := func(id RequestID) bool { return s.requests.find(id) != nil }
	switch c := c.(type) {
	case Woken:
		return s.phase == asking || s.phase == sleeping
	case Cancel:
		return serves(c.ID)
	case Unclaimed:
		return serves(c.ID)
	case Extend:
		return serves(c.ID)
	case Release:
		return serves(c.ID) || c.ID == 0 && s.requests.holds(c.Owner)
	case OwnerGone:
		return s.requests.holds(c.Owner) || s.requests.waits(c.Owner)
	case Break:
		if c.Token != 0 {
			return s.holdWith(c.Token) != nil
		}
		return s.requests.held.n > 0
	case Tick:
		at, ok := s.Alarm()
		return ok && at <= m.Now
	case Passed:
		return s.has(c.Tenure)
	case Standby:
		return s.has(c.Tenure)
	case Wanted:
		return s.has(c.Tenure)
	case Broken:
		return s.has(c.Tenure)
	case AcquireReplied:
		return s.has(c.Tenure)
	case RenewReplied:
		return s.has(c.Tenure)
	case ReleaseReplied:
		return s.has(c.Tenure)
	}
	return true // Vacate, Missed, StoreReset, DisownReplied, Close, Detach
}

func (s *State) acquire(c Acquire, m Moment, out []Event) []Event {
	r := c.Request
	r.ID, r.Arrived = RequestID(m.Fresh), m.Now
	out = append(out, Event{Kind: Requested, Request: r})
	atOnce := s.phase == free && m.Now >= s.notBefore || s.phase == held && s.mayGrant(&r, m)
	if s.requests.again(&r) == nil && !s.requests.upgrades(&r) && (!atOnce || s.requests.waiting.n > 0) && !r.Try &&
		!s.closed {
		out = append(out, queued(r, s.requests.waiting.len()+1))
	}
	return out
}

func (s *State) cancel(c Cancel, out []Event) []Event {
	switch r := s.requests.find(c.ID); {
	case r == nil:
	case !r.held:
		out = append(out, Event{
			Kind: Answered, Request: r.Request, Wait: Wait{TimedOut: c.TimedOut, Cancelled: !c.TimedOut}, Err: c.Err,
		})
	case r.claimBy != 0:
		out = append(out, Event{Kind: Reclaiming, Request: r.Request})
	}
	return out
}

func (s *State) release(c Release, m Moment, out []Event) []Event {
	g := s.requests.findGrant(c.ID)
	if g == nil {
		err := lockagent.ErrNotHeld
		if c.ID == 0 && s.requests.held.n > 0 && !s.requests.holds(c.Owner) {
			err = lockagent.ErrNotOwner
		}
		return append(out, unlocked(c.Call, err))
	}
	out = append(out, s.ended(g, c.Lost, m))
	if why := out[len(out)-1].Reason; why != c.Lost {
		return append(out, Event{Kind: Unlocked, Call: c.Call, End: End{Reason: why}})
	}
	return s.leaseAnew(g, m, s.answered(c.Call, out))
}

// answered adds the answer to a call. out has the events of that call, and ends with the last
// grant that it ended, if any. If no grant is left, the answer has to wait until the lock has
// been handed off, or the tenure is over.
func (s *State) answered(call CallID, out []Event) []Event {
	ended := 0
	for i := range out {
		if out[i].Kind == Ended {
			ended++
		}
	}
	if ended == 0 || ended < s.requests.held.len() {
		return append(out, unlocked(call, nil))
	}
	out[len(out)-1].Call = call
	return out
}

func (s *State) ownerGone(c OwnerGone, m Moment, out []Event) []Event {
	s.requests.waitersOf(c.Owner, func(w *slot) bool {
		out = append(out, refused(w, lockagent.ErrSessionClosed))
		return true
	})
	gone := 0
	s.requests.grantsOf(c.Owner, func(g *slot) bool {
		e := s.ended(g, lockagent.LostSessionClosed, m)
		e.Count = max(0, e.Count-gone)
		gone++
		out = append(out, e)
		return true
	})
	return s.answered(c.Call, out)
}

// refused is the event that answers a request with an error.
func refused(w *slot, err error) Event { return Event{Kind: Answered, Request: w.Request, Err: err} }

// queued is the event that a request cannot be granted at once. waiters is how many requests wait.
func queued(r Request, waiters int) Event {
	return Event{Kind: Queued, Request: r, Wait: Wait{Waiters: waiters}}
}

// unlocked is the event that answers a call. err is nil if all went well.
func unlocked(call CallID, err error) Event { return Event{Kind: Unlocked, Call: call, Err: err} }

// woke is the event that an attempt may succeed from an instant on.
func woke(at Instant) Event { return Event{Kind: Woke, Retry: Retry{RetryAt: at}} }

// endAll ends every grant, the youngest first.
func (s *State) endAll(by *loss, m Moment, out []Event) []Event {
	gone := make(map[lockagent.Owner]int)
	for g := range s.requests.grantsBackward {
		e := s.ended(g, by.why, m)
		if g.Session {
			e.Count -= gone[g.Owner]
			gone[g.Owner]++
		}
		if e.Reason == lockagent.LostBroken {
			e.Operator = by.operator
		}
		if by.until != 0 {
			e.Until = by.until
		}
		out = append(out, e)
	}
	return out
}

// breakLock frees the lock, whoever holds it. If somebody here holds it and nobody else can, the store need not know
// that it was broken.
func (s *State) breakLock(c Break, m Moment, out []Event) []Event {
	out = s.unrest(out)
	if s.requests.held.n == 0 || s.tenure.mode == Shared { // other agents may hold or share the lock
		return append(out, Event{Kind: AskBreak, Call: c.Call})
	}
	return s.answered(c.Call, s.endAll(&loss{why: lockagent.LostBroken, operator: c.Operator}, m, out))
}

// unrest keeps the tenure from resting, because of a break: the lock is to be free. A message that the store has ended
// the tenure may come late.
func (s *State) unrest(out []Event) []Event {
	if s.phase == held && s.tenure.rests {
		out = append(out, Event{Kind: Contested, Tenure: s.tenure.number})
	}
	return out
}

// breakHold ends the grants that have a token: those of one owner. The hold is this agent's own, and so the store need
// not know that it was broken. What else there is in the tenure goes on, and the lock goes to whoever is next.
func (s *State) breakHold(c Break, m Moment, out []Event) []Event {
	if s.holdWith(c.Token) != nil {
		out = s.unrest(out)
	}
	gone := 0
	for g := range s.requests.grantsBackward {
		if !s.hasToken(g, c.Token) {
			continue
		}
		e := s.ended(g, lockagent.LostBroken, m)
		e.Count = max(0, e.Count-gone)
		if e.Reason == lockagent.LostBroken {
			e.Operator = c.Operator
		}
		gone++
		out = append(out, e)
	}
	if gone == 0 {
		return append(out, unlocked(c.Call, lockagent.ErrNotHeld))
	}
	return s.answered(c.Call, out)
}

// holdWith is the youngest grant with a token, or nil.
func (s *State) holdWith(token lockagent.Token) *slot {
	for g := range s.requests.grantsBackward {
		if s.hasToken(g, token) {
			return g
		}
	}
	return nil
}

// hasToken reports whether a token is one of a grant's. Only the last grant of a tenure has several.
func (s *State) hasToken(g *slot, token lockagent.Token) bool {
	return token == g.token || g.Holds > 1 && g.token < token && token <= s.tenure.last
}

// ended is the event that ends a grant.
func (s *State) ended(g *slot, why lockagent.LossReason, m Moment) Event {
	t := &s.tenure
	// A process that was suspended may end a hold before its tick, or hear first that the store or an operator ended
	// it. The clock was before that.
	if over := s.overdue(g, m.Now); over != 0 {
		why = over
	}
	return Event{
		Kind: Ended, Request: g.Request, Tenure: t.number,
		Hold:      Hold{Token: g.token, Count: max(0, s.requests.holdsBeside(&g.Request)-1)},
		End:       End{Reason: why, Since: g.since, Until: storeUpper(t.storeTime, t.sent, m.Now)},
		Decision:  Decision{StoreTime: t.storeTime},
		Confirmed: Confirmed{Lease: t.lease},
	}
}
