package lockstate

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// attempt is a tenure that the agent asks the store for.
type attempt struct {
	number uint64 // 0 if there is none
	mode   Mode
	sent   Instant
	lease  time.Duration
	upto   RequestID // the youngest request when the call was sent
	queued bool      // the tenure has a place in the store's queue: a release may pass the lock to it
	placed bool      // the call under way asks for a place
	polls  int       // how many calls found the lock busy
	woken  bool      // a wake-up came while the call was under way: ask again

	// doubt says that the store's last answer may not be true any more. If the attempt was
	// woken as well, the next answer may not be true either. A tenure that it grants is in
	// doubt.
	doubt bool

	contested bool // another agent waits for the lock of the tenure

	// unanswered says that an earlier call with this number may have taken effect, or may do
	// so later. open is the longest lease of such calls.
	unanswered bool
	open       time.Duration

	busy busyness // the last call with this number that found the lock busy

	offer *Passed // arrived while the call was under way
}

// busyness tells of a call that found the lock busy. The call was sent at the instant sent.
// The store's clock showed at when the call arrived there, some time later.
type busyness struct {
	sent  Instant
	at    lockagent.StoreTime
	clock string
}

// mayHave reports whether the tenure may have the lock, or get it, without the agent's
// knowledge. Such a tenure has to be withdrawn.
func (a *attempt) mayHave() bool { return a.unanswered || a.queued }

// trustsMessages bounds the sleep after a busy answer. queued says that the answer gave the
// tenure a place. A store that gives no place may send no wake-up either: for example while
// the lock moves to another node.
func (a *attempt) trustsMessages(queued bool) time.Duration {
	switch {
	case queued:
		return queuedSleep
	case a.placed:
		return unplacedSleep
	}
	return unboundedSleep
}

// tenure is the agent's time with the lock, as the store confirmed it.
type tenure struct {
	number      uint64
	mode        Mode
	began       Instant
	sent        Instant // when the last confirmed call was sent
	deadline    Instant
	lease       time.Duration
	replied     Instant             // when that call was answered
	storeTime   lockagent.StoreTime // when the store decided about that call
	incarnation string
	replicas    int             // that had what the last confirmed call wrote
	outsiders   bool            // outsiders wait for the lock
	contested   bool            // another agent waits for the lock
	first       lockagent.Token // of the first hold
	ahead       lockagent.Token // by how much that is ahead of the store's clock, as tokens that other programs count may be
	last        lockagent.Token // of the last hold, or 0
	holds       int             // how many holds the tenure has served
	doubt       bool            // a renewal has to confirm the tenure
	falls       bool            // the tenure was exclusive, and no renewal has confirmed yet that it is shared

	// All confirmed leases have run out in the store by until. Unanswered calls may take
	// effect at any time, and open is the longest of their leases. If unanswered, the tenure
	// may begin once more.
	until      Instant
	open       time.Duration
	unanswered bool
}

// next is the token of the next hold.
func (t *tenure) next() lockagent.Token { return t.first + lockagent.Token(t.holds) }

// ending reports whether too little of the lease is left for a hand-off: the next owner would
// lose the lock before a renewal could be confirmed.
func (t *tenure) ending(now Instant) bool { return t.deadline.Sub(now) < t.lease/10 }

// tokenSlack is how far a tenure's tokens may run ahead of the store's clock.
const tokenSlack = time.Millisecond

// greatest is the greatest token that the tenure may use now. A later tenure takes its first
// token from the store's clock, which shows more by then, or as far ahead of that clock.
func (t *tenure) greatest(now Instant) lockagent.Token {
	return lockagent.Token(t.storeTime.Add(now.Sub(t.replied)+tokenSlack)) + t.ahead
}

// storeUpper is the latest time that the store's clock can show at now. It showed at at some
// instant after sent.
func storeUpper(at lockagent.StoreTime, sent, now Instant) lockagent.StoreTime {
	return at.Add(now.Sub(sent)) + 1 // Add rounds down
}

// loss is how a tenure ended against the will of its holders.
type loss struct {
	why        lockagent.LossReason
	operator   string              // who broke it, if it was broken
	at         lockagent.StoreTime // when the store found it over
	until      lockagent.StoreTime // the store's clock shows no more than this now; 0 if only the tenure tells
	unanswered bool                // it may begin once more
}

// renewal is what is known of the present renewal.
type renewal struct {
	inFlight bool
	sent     Instant
	lease    time.Duration
	stale    bool // the doubt arose after the renewal was sent, which cannot end it
	failures int
	retryAt  Instant
}

// leaving is what is known of the release of a tenure.
type leaving struct {
	withdraws  bool // Withdrawing, not Returning
	inFlight   bool
	inTime     bool    // Returning, and the first call was sent before the deadline
	unanswered bool    // an earlier call may have released the tenure
	dropAt     Instant // when the agent gives up
}

// grant is a grant that is held.
type grant struct {
	request Request
	token   lockagent.Token
	since   Instant
	fixed   Instant // when the fixed lease ends, or 0 for a kept lease
	claimBy Instant // when the grant is recalled if nobody has received it; 0 afterwards
}

// grants are the grants that are held, the oldest first.
type grants []grant

// find is the index of the grant of a request, or -1.
func (g grants) find(id RequestID) int {
	return slices.IndexFunc(g, func(g grant) bool { return g.request.ID == id })
}

// of counts the grants of an owner.
func (g grants) of(o lockagent.Owner) (n int) {
	for i := range g {
		if g[i].request.Owner == o {
			n++
		}
	}
	return n
}

// shared reports whether all grants are shared.
func (g grants) shared() bool {
	return !slices.ContainsFunc(g, func(g grant) bool { return g.request.Mode == Exclusive })
}

// again returns the grant that makes r a re-entry, or nil. A shared request re-enters beside
// any grant of its session, an exclusive request only beside an exclusive grant.
func (g grants) again(r *Request) *grant {
	for i := range g {
		if g := &g[i]; r.Session && g.request.Owner == r.Owner && g.request.Mode <= r.Mode {
			return g
		}
	}
	return nil
}

// upgrades reports whether r asks for the lock alone while its session only shares it.
func (g grants) upgrades(r *Request) bool {
	return r.Session && r.Mode == Exclusive && g.of(r.Owner) > 0 && g.again(r) == nil
}

// left is how long the store keeps the tenure at most, if the agent makes no more calls.
func (s *State) left(now Instant) time.Duration {
	left := max(s.tenure.until.Sub(now), s.tenure.open)
	if s.renewal.inFlight {
		left = max(left, s.renewal.lease)
	}
	return left
}

// lease is the lease that a request needs in the store.
func (s *State) lease(r *Request) time.Duration {
	if r.Lease == 0 {
		return s.cfg.Watchdog
	}
	return r.Lease
}

// deadline is until when a grant is trusted.
func (s *State) deadline(g *grant) Instant {
	if g.fixed != 0 {
		return min(g.fixed, s.tenure.deadline)
	}
	return s.tenure.deadline
}

// end is when the last of the grants ends, unless the tenure is renewed.
func (s *State) end() Instant {
	var end Instant
	for i := range s.grants {
		end = max(end, s.deadline(&s.grants[i]))
	}
	return end
}

// roomy is the shortest lease that leaves room for a late tick, and for a store that
// puts a renewal off for up to a tenth of a second.
const roomy = lockagent.PassLease

// renewalDue is when the next renewal is due, or never if the confirmed lease is enough. A
// tenure in doubt is due at once, and so is one that has to become shared.
func (s *State) renewalDue() Instant {
	at := never
	lease := min(s.cfg.Watchdog, s.tenure.lease) // a pass has a short lease, and so may a fixed request
	tiny := lease < min(s.cfg.Watchdog, roomy)
	kept := false
	for i := range s.grants {
		g := &s.grants[i]
		kept = kept || g.fixed == 0
		if g.fixed > s.tenure.deadline { // the lease of the tenure is shorter than the fixed one
			at = s.tenure.sent
		}
	}
	switch {
	case kept && tiny: // after a third of the lease it might be too late
		at = s.tenure.sent
	case kept: // renew when a third of the lease has passed
		third := s.tenure.deadline.add(-s.cfg.trust(lease) + lease/3)
		at = min(at, s.tenure.beat(third, min(s.cfg.Scatter, lease/6)))
	}
	if s.tenure.doubt || s.tenure.falls || s.downgrades() {
		at = s.tenure.sent
	}
	if at == never {
		return never
	}
	return max(at, s.renewal.retryAt)
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

// renewalLease is the lease to ask for now: the longest that a grant needs. If nobody holds the
// lock yet, it is the lease of the request at the head.
func (s *State) renewalLease(m Moment) time.Duration {
	lease := lockagent.MinLease
	for i := range s.grants {
		if g := &s.grants[i]; g.fixed == 0 {
			lease = max(lease, s.cfg.Watchdog)
		} else {
			lease = max(lease, s.cfg.leaseFor(g.fixed.Sub(m.Now)))
		}
	}
	if w := s.queue.head(); w != nil && len(s.grants) == 0 {
		lease = s.lease(&w.Request)
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
	pause := min(s.cfg.backoff(s.renewal.failures+1, m), s.tenure.deadline.Sub(m.Now)/tries)
	return m.Now.add(max(pause, s.cfg.RetryMin/2))
}
