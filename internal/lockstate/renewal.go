package lockstate

import (
	"time"

	"github.com/lockagent/lockagent"
)

// renewal is what is known of the present renewal.
type renewal struct {
	inFlight bool
	stale    bool // the doubt arose after the renewal was sent, which cannot end it
	wanted   bool // a message said that another agent waits after the renewal was sent, whose answer may be older
	failures int32
	sent     Instant
	lease    time.Duration
	retryAt  Instant
}

// renewing begins a renewal. It is urgent if the store should not put it off. The regular
// renewal of a kept lease, after a third of it, is not urgent. If only readers hold the lock, the renewal
// makes the tenure shared.
func (s *State) renewing(m Moment) Event {
	e := Event{
		Kind: Renewing, Tenure: s.tenure.number, Traits: Traits{Mode: s.tenure.mode},
		Ask: Ask{AskedLease: s.renewalLease(m), Floor: s.tenure.last},
	}
	if s.requests.held.n > 0 && s.requests.shared() {
		e.Mode = Shared
	}
	// Without a grant this is the renewal that the first hold waits for.
	e.Urgent = s.requests.held.n == 0 || s.tenure.downgrading || s.downgradeDue() <= m.Now ||
		s.tenure.deadline.Sub(m.Now) < min(e.AskedLease, roomy)/2
	return e
}

// renewalDue is when the next renewal is due, or never if the confirmed lease is enough. A tenure in doubt is due at
// once. So is one whose first hold waits for the renewal, and most often one that has to become shared. A renewal that
// failed is tried again in any case: until one succeeds, there is no hand-off.
func (s *State) renewalDue() Instant {
	at := never
	lease := min(s.cfg.Watchdog, s.tenure.lease) // a pass has a short lease, and so may a fixed request
	tiny := lease < min(s.cfg.Watchdog, roomy)
	kept := s.requests.kept > 0
	if g := s.requests.endsLast(); g != nil && g.fixed > s.tenure.deadline {
		at = s.tenure.sent // the lease of the tenure is shorter than the fixed one
	}
	switch {
	case kept && tiny: // after a third of the lease it might be too late
		at = s.tenure.sent
	case kept:
		at = min(at, s.tenure.third)
	}
	if s.tenure.unaware() || s.bars() {
		at = min(at, s.tenure.replied.add(longestUnaware))
	}
	at = min(at, s.downgradeDue())
	// Without a grant, the first one waits for the renewal.
	if s.tenure.doubt || s.tenure.downgrading || s.renewal.failures > 0 || s.requests.held.n == 0 {
		at = s.tenure.sent
	}
	if at == never {
		return never
	}
	return max(at, s.renewal.retryAt)
}

// roomy is the shortest lease that leaves room for a late tick, and for a store that
// puts a renewal off for up to a tenth of a second.
const roomy = lockagent.PassLease

// downgradeDue is when the tenure has to become shared, or never. It is at once if only readers hold the lock, and none
// but readers follow. A writer who follows can have the tenure as it is.
func (s *State) downgradeDue() Instant {
	t := &s.tenure
	if t.mode == Shared || s.requests.held.n == 0 || !s.requests.shared() {
		return never
	}
	if w := s.requests.head(); w != nil && w.Mode != Shared {
		return never
	}
	return t.sent
}

// unaware reports whether others may wait for a shared tenure without the agent's knowledge: since the store was asked
// last, readers have joined who did not ask it. Outsiders cannot tell the agent that they wait. The answer to a
// renewal can.
func (t *tenure) unaware() bool {
	return t.joined && t.mode == Shared && !t.contested && !t.outsiders
}

// bars reports whether requests to read wait only because others do, who may have given up. No message says that.
func (s *State) bars() bool {
	w := s.requests.head()
	return s.tenure.mode == Shared && (s.tenure.contested || s.tenure.outsiders) && w != nil && w.Mode == Shared
}

// longestUnaware is for how long readers join, or are kept out, before the agent asks the store.
const longestUnaware = 300 * time.Millisecond

// third is when a third of the lease of the tenure has passed, or somewhat earlier: at a beat.
func (s *State) third() Instant {
	lease := min(s.cfg.Watchdog, s.tenure.lease)
	return s.tenure.beat(s.tenure.deadline.add(-s.cfg.trust(lease)+lease/3), min(s.cfg.Scatter, lease/6))
}

// beats is how many tenures can be told apart by their instants of renewal. For example: leases
// of 30 s are renewed at tenths of a second. So an agent with many locks renews many of them
// each time that it wakes up.
const beats = 50

// beat is the last instant up to at when the tenure may be renewed. Such instants are so far
// apart as every says, and differ from tenure to tenure: see Config.Scatter.
func (t *tenure) beat(at Instant, every time.Duration) Instant {
	if every <= 0 {
		return at
	}
	first := Instant(Moment{Fresh: t.number}.scatter(beats)) * Instant(every/beats)
	past := (at - first) % Instant(every)
	if past < 0 { // a clock that was resumed may show less than 0
		past += Instant(every)
	}
	return at - past
}

// renewalLease is the lease to ask for now: the longest that a grant needs. If nobody holds the lock yet, it is the
// lease of the request at the head. That lease also counts if nothing else keeps its request from joining the grants.
func (s *State) renewalLease(m Moment) time.Duration {
	lease := lockagent.MinLease
	if s.requests.kept > 0 {
		lease = max(lease, s.cfg.Watchdog)
	}
	if g := s.requests.endsLast(); g != nil {
		lease = max(lease, s.cfg.leaseFor(g.fixed.Sub(m.Now)))
	}
	switch w := s.requests.head(); {
	case w != nil && s.requests.held.n == 0:
		lease = s.lease(&w.Request)
	case s.lacksCover(m):
		lease = max(lease, w.Lease)
	}
	return lease
}

// renewAgain is when to renew after a failure. It leaves time for several tries before the
// deadline. If a doubt arose meanwhile, the store may be back: then it is now.
func (s *State) renewAgain(m Moment) Instant {
	if s.renewal.stale {
		return m.Now
	}
	const tries = 4
	pause := min(s.cfg.backoff(int(s.renewal.failures)+1, m), s.tenure.deadline.Sub(m.Now)/tries)
	return m.Now.add(max(pause, s.cfg.RetryMin/2))
}
