package lockstate

import "github.com/lockagent/lockagent"

// passed is what it means that the lock was passed on to a tenure of this agent. The
// answer to a call under way may be older than the pass or younger, so it is heard
// first.
func (s *State) passed(p *lockagent.Pass, m Moment, out []Event) []Event {
	a := &s.attempt
	if p.Tenure.Number != a.number {
		return out // that tenure was withdrawn, or has begun by an answer of the store
	}
	if s.phase == asking {
		return append(out, Event{
			Kind: Offered, Tenure: a.number, Lease: p.Lease, Token: p.Token, Tokens: p.Tokens, StoreTime: p.At, Incarnation: p.Incarnation,
		})
	}
	if e, ok := s.begunBy(p, a.busySent, a.busyAt, m); ok && a.queued {
		return append(out, e)
	}
	// The next attempt finds out whether the tenure has the lock still.
	return append(out, Event{Kind: Woke, RetryAt: m.Now})
}

// begunBy is the beginning of the tenure by a pass, given that a call was sent at
// some instant and the store answered that it was busy at some time. It reports false
// if there is no pass, or none that is trusted any more.
//
// The lease began when the store's clock showed the time of the pass. It showed the
// time of the answer after the call was sent, so it showed the time of the pass no
// earlier than as much later as it says, if the clocks run at the same rate, and to the
// microsecond; the margin of the lease pays for both. This holds however late the
// pass is.
func (s *State) begunBy(p *lockagent.Pass, sent Instant, busyAt lockagent.StoreTime, m Moment) (Event, bool) {
	if p == nil || p.At < busyAt { // busy after the pass: the tenure has lost the lock
		return Event{}, false
	}
	began := min(m.Now, sent.add(p.At.Sub(busyAt)))
	if m.Now >= began.add(s.cfg.trust(p.Lease)) {
		return Event{}, false
	}
	return Event{
		Kind: Began, Tenure: s.attempt.number, Sent: began, Lease: p.Lease,
		Token: p.Token, Tokens: p.Tokens, StoreTime: p.At, Incarnation: p.Incarnation,
		// If they are of the same time, the pass may have come first after all, and the
		// tenure be in the queue again.
		Unsure: p.At == busyAt,
	}, true
}
