package lockstate

import (
	"github.com/lockagent/lockagent"
)

// passed is what it means that the lock was passed to a tenure of this agent. The
// answer to a call under way may be older than the pass or younger, so it is heard
// first.
func (s *State) passed(p *Passed, m Moment, out []Event) []Event {
	a := &s.attempt
	switch {
	case !s.has(p.Tenure): // its withdrawal never reached the store, or nobody knows of it
		return s.disowning(p.Tenure, out)
	case p.Tenure != a.number:
		return out // it has begun by an answer of the store, or is being withdrawn
	case s.phase == asking:
		return append(out, Event{
			Kind: Offered, Tenure: p.Tenure, Token: p.Token, StoreTime: p.At, Clock: p.Clock,
			Incarnation: p.Incarnation, Outsiders: p.Outsiders,
		})
	}
	if e, ok := s.begunBy(p, a.busy, m); ok && a.queued {
		return append(out, e)
	}
	// The next attempt finds out whether the tenure has the lock still.
	return append(out, Event{Kind: Woke, RetryAt: m.Now})
}

// begunBy is the beginning of the tenure by a pass, given a call that found the lock
// busy. It reports false if there is no pass, or none that is trusted.
//
// The store's clock showed busy.at after the call was sent, and p.At when the lease began.
// So the lease began at busy.sent + (p.At - busy.at) or later, however late we hear of it.
// That needs one clock for both times. If it runs at another rate than ours, or rounds, the
// margin of the lease pays for that.
//
// A store that has forgotten may pass the lock with a token that is not above the floor.
// The next attempt finds its own tenure and has tokens above it.
func (s *State) begunBy(p *Passed, busy busyness, m Moment) (Event, bool) {
	if p == nil || p.Clock != busy.clock || p.At < busy.at || p.Token <= s.floor { // busy after the pass: the tenure has lost the lock
		return Event{}, false
	}
	began := min(m.Now, busy.sent.add(p.At.Sub(busy.at)))
	if m.Now >= began.add(s.cfg.trust(lockagent.PassLease)) {
		return Event{}, false
	}
	return Event{
		Kind: Began, Tenure: s.attempt.number, Sent: began, Lease: lockagent.PassLease,
		Token: p.Token, StoreTime: p.At, Incarnation: p.Incarnation, Outsiders: p.Outsiders,
		// If they are of the same time, the pass may have come first after all, and the
		// tenure be in the queue again.
		Unanswered: p.At == busy.at,
	}, true
}

// standby has the tenure look again when the lease of the one in front is over. If that
// one did not take the lock up, it is free then, and nobody is told.
func (s *State) standby(c Standby, m Moment, out []Event) []Event {
	if c.Tenure != s.attempt.number {
		return out
	}
	retryAt := m.Now.add(s.cfg.sleep(c.Remaining, queuedSleep, m))
	switch s.phase {
	case asking: // the answer may be older
		out = append(out, Event{Kind: Woke})
	case sleeping:
		if retryAt < s.retryAt {
			out = append(out, Event{Kind: Woke, RetryAt: retryAt})
		}
	}
	return out
}

// wanted ends a tenure that nobody here has, which a failover may have brought back. A
// tenure that this agent has begins to drain. One that it waits for was passed the lock,
// and the message was lost.
func (s *State) wanted(c Wanted, m Moment, out []Event) []Event {
	switch {
	case !s.has(c.Tenure):
		return s.disowning(c.Tenure, out)
	case s.phase == releasing:
		return out
	case s.phase == sleeping:
		out = append(out, Event{Kind: Woke, RetryAt: m.Now})
	}
	return s.contested(out)
}

// contested keeps more readers from sharing the tenure. One that is exclusive is handed
// off for a short time only, whoever wants it.
func (s *State) contested(out []Event) []Event {
	a, t := &s.attempt, &s.tenure
	if a.mode == Shared && !a.contested || t.mode == Shared && !t.contested {
		out = append(out, Event{Kind: Contested})
	}
	return out
}

// disowning has the store end a tenure that nobody here has. A lock that was closed or detached
// cannot tell: the lease may have to stay, or be another process' by now.
func (s *State) disowning(tenure uint64, out []Event) []Event {
	if s.closed {
		return out
	}
	return append(out, Event{Kind: Disowning, Tenure: tenure, Token: s.floor})
}

// disownReplied has the store asked again for the lock that a tenure had which nobody
// here has. If that could not be ended, after a pause.
func (s *State) disownReplied(c DisownReplied, m Moment, out []Event) []Event {
	if s.phase != sleeping {
		return out
	}
	retryAt := m.Now
	if c.Err != nil || !c.Reply.Released {
		retryAt = m.Now.add(s.cfg.backoff(1, m))
	}
	if retryAt < s.retryAt {
		out = append(out, Event{Kind: Woke, RetryAt: retryAt})
	}
	return out
}

// broken ends every hold of a tenure that somebody broke.
func (s *State) broken(c Broken, m Moment, out []Event) []Event {
	switch {
	case c.Tenure == s.attempt.number && s.phase != free:
		return s.doubted(out) // the answer to a call, or a pass, may come yet
	case s.phase == held && c.Tenure == s.tenure.number:
		return s.lost(lockagent.LostBroken, c.At, m, out)
	}
	return out
}

// lost is the end of a tenure that the store did not have at an instant, unless the store
// has confirmed it since. If it was confirmed at that very instant, that may have come after.
func (s *State) lost(why lockagent.LossReason, at lockagent.StoreTime, m Moment, out []Event) []Event {
	if at < s.tenure.storeTime {
		return out
	}
	return s.denied(why, at, s.tenure.unanswered || at == s.tenure.storeTime, m, out)
}

// doubted has the store asked, because what it last said may not be true any more.
func (s *State) doubted(out []Event) []Event {
	if s.phase == asking || s.phase == sleeping || s.phase == held {
		out = append(out, Event{Kind: Doubted})
	}
	return out
}
