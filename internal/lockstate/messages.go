package lockstate

import (
	"github.com/lockagent/lockagent"
)

// passed decides about a pass to a tenure of this agent. If an attempt is under way, its
// answer comes first: it may be older than the pass or younger.
func (s *State) passed(p *Passed, m Moment, out []Event) []Event {
	a := &s.attempt
	switch {
	case !s.has(p.Tenure): // for example: its withdrawal never reached the store
		return s.disowning(p.Tenure, out)
	case p.Tenure != a.number: // it is held already, or is being released
		return out
	case p.Unconfirmed: // the answer to an attempt under way may be older
		return append(out, woke(m.Now))
	case s.phase == asking:
		return append(out, Event{
			Kind: Offered, Tenure: p.Tenure, Hold: Hold{Token: p.Token},
			Decision: Decision{StoreTime: p.At, Clock: p.Clock, Incarnation: p.Incarnation},
			Others:   Others{Outsiders: p.Outsiders, Wanted: p.Contested},
		})
	}
	if e, ok := s.begunBy(p, a.busy, m); ok && a.queued() {
		return append(out, e)
	}
	// The next attempt finds out whether the tenure still has the lock.
	return append(out, woke(m.Now))
}

// begunBy returns the event by which the tenure begins with the pass p. busy is the last
// attempt that found the lock busy. It reports false if there is no pass, or none that can
// be trusted.
//
// When did the lease begin? The store's clock showed busy.at after the attempt was sent, and
// p.At when the lease began. So the lease began no earlier than
//
//	busy.sent + (p.At - busy.at)
//
// however late the message arrives. Both times have to be of one clock. The margin of the
// lease makes up for rounding, and for a clock that runs at another rate.
//
// A store that lost its data may pass the lock with a token that is not above the floor. The
// pass does not count then. The next attempt is granted, and its tokens are above the floor.
func (s *State) begunBy(p *Passed, busy busyness, m Moment) (Event, bool) {
	// If the lock was busy after the pass, the tenure has lost it again. Of a pass before the first answer, nothing
	// tells when its lease began.
	if p == nil || busy == (busyness{}) || p.Clock != busy.clock || p.At < busy.at || p.Token <= s.floor {
		return Event{}, false
	}
	began := min(m.Now, busy.sent.add(p.At.Sub(busy.at)))
	if m.Now >= began.add(s.cfg.trust(lockagent.PassLease)) {
		return Event{}, false
	}
	return Event{
		Kind: Began, Tenure: s.attempt.number,
		// If both have the same time, the pass may have come first. The attempt then gave the
		// tenure another place in the queue.
		Traits:    Traits{Unanswered: p.At == busy.at},
		Hold:      Hold{Token: p.Token},
		Decision:  Decision{StoreTime: p.At, Incarnation: p.Incarnation},
		Confirmed: Confirmed{Sent: began, Lease: lockagent.PassLease},
		Others:    Others{Outsiders: p.Outsiders, Wanted: p.Contested},
	}, true
}

// standby shortens the sleep of the tenure. When the lease of the tenure ahead is over, the
// lock is free, and perhaps no message says so. So this tenure asks the store then. If nothing
// remains, the lock may be free already. A tenure that the agent does not know has a place that a failover brought
// back: everybody behind it would wait in vain.
func (s *State) standby(c Standby, m Moment, out []Event) []Event {
	switch {
	case !s.has(c.Tenure):
		return s.disowning(c.Tenure, out)
	case c.Tenure != s.attempt.number:
		return out
	}
	retryAt := m.Now
	if c.Remaining > 0 {
		retryAt = m.Now.add(s.cfg.sleep(c.Remaining, queuedSleep, m))
	}
	switch s.phase {
	case asking: // the answer may be older than the pass
		out = append(out, woke(0))
	case sleeping:
		if retryAt < s.retryAt {
			out = append(out, woke(retryAt))
		}
	}
	return out
}

// wanted decides about a tenure of this agent whose lock another agent wants. A ghost ends. A tenure that is held
// becomes contested. If an attempt sleeps, the tenure may have been passed the lock, and the message of the pass was
// lost: the agent asks the store.
func (s *State) wanted(c Wanted, m Moment, out []Event) []Event {
	switch {
	case !s.has(c.Tenure):
		return s.disowning(c.Tenure, out)
	case s.phase == releasing:
		return out
	case s.phase == sleeping:
		out = append(out, woke(m.Now))
	}
	return s.contested(true, out)
}

// contested bounds how long readers go on joining a shared tenure, and how long a tenure that may rest goes on. Any
// other exclusive tenure needs no such bound: its hand-offs are always bounded. known says that another agent waits for
// sure. Then holders learn of it.
func (s *State) contested(known bool, out []Event) []Event {
	a, t := &s.attempt, &s.tenure
	bounds := a.rests && !a.contested || s.phase == held && t.rests || a.mode == Shared && !a.contested ||
		t.mode == Shared && (!t.contested || s.renewal.inFlight && !s.renewal.wanted)
	if bounds || known && !a.wanted && !t.wanted {
		out = append(out, Event{Kind: Contested, Tenure: max(a.number, t.number), Others: Others{Wanted: known}})
	}
	return out
}

// disowning asks the store to end a tenure that the agent does not know, if it is a ghost.
func (s *State) disowning(tenure uint64, out []Event) []Event {
	if !s.disowns(tenure) {
		return out
	}
	return append(out, Event{Kind: Disowning, Tenure: tenure, Ask: Ask{Floor: s.floor}})
}

// disowns reports whether a tenure that the agent does not know is a ghost. A lock that was closed or detached cannot
// tell: the tenure may outlive the agent, or another process may have it by now. See [Config.Used].
func (s *State) disowns(tenure uint64) bool {
	return !s.closed && (s.cfg.Used == nil || s.cfg.Used(tenure))
}

// ghost returns the ghost that has the lock, according to the answer of an attempt, or 0. If a tenure of this agent has
// the lock, the tenure is a ghost: the only one known is asking.
func (s *State) ghost(c *AcquireReplied) uint64 {
	t, ok := lockagent.ParseTenure(c.Reply.Holder)
	if !ok || t.Agent != s.cfg.Agent || c.sibling || !s.disowns(t.Number) {
		return 0
	}
	return t.Number
}

// disownReplied ends the sleep of a tenure that found the lock held by a ghost. If the ghost
// is not known to have ended, the tenure pauses first. For a request that does not wait, the store is
// asked at once.
func (s *State) disownReplied(c DisownReplied, m Moment, out []Event) []Event {
	if s.phase != sleeping {
		return out
	}
	retryAt := m.Now
	if c.Err != nil || !c.Reply.Released {
		retryAt = m.Now.add(s.cfg.backoff(1, m))
	}
	met := c.Tenure == s.attempt.ghost
	if retryAt < s.retryAt || met {
		e := woke(min(retryAt, s.retryAt))
		if met {
			e.Tenure = c.Tenure
		}
		out = append(out, e)
	}
	return out
}

// broken decides about a tenure that somebody broke.
func (s *State) broken(c Broken, m Moment, out []Event) []Event {
	switch {
	case c.Tenure == s.attempt.number && s.phase != free:
		return s.doubted(out) // an older answer or pass may still arrive
	case s.phase == held && c.Tenure == s.tenure.number:
		return s.lost(&loss{why: lockagent.LostBroken, operator: c.Operator, at: c.At}, m, out)
	}
	return out
}

// lost ends a tenure that was over in the store at a time, unless the store confirmed it
// after that. If the store confirmed it at the same time, the order is unknown: the tenure is
// over here, but may still have the lock.
func (s *State) lost(by *loss, m Moment, out []Event) []Event {
	if by.at < s.tenure.storeTime {
		return out
	}
	by.unanswered = s.tenure.unanswered || by.at == s.tenure.storeTime
	return s.denied(by, m, out)
}

// doubted puts the tenure into doubt, or the attempt: the store's last answer may not be true
// any more.
func (s *State) doubted(out []Event) []Event {
	if s.phase != free {
		out = append(out, Event{Kind: Doubted})
	}
	return out
}
