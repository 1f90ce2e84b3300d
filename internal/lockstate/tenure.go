package lockstate

import (
	"time"

	"github.com/lockagent/lockagent"
)

// attempt is a tenure that the agent asks the store for.
type attempt struct {
	number uint64 // 0 if there is none
	sent   Instant
	lease  time.Duration
	upto   RequestID // the youngest request when the call was sent
	mode   Mode
	queued bool  // the tenure has a place in the store's queue: a release may pass the lock to it
	placed bool  // the call under way asks for a place
	woken  bool  // a wake-up came while the call was under way: ask again
	rival  rival // who has the lock

	// doubt says that the store's last answer may not be true any more. If the attempt was
	// woken as well, the next answer may not be true either. A tenure that it grants is in
	// doubt.
	doubt bool

	contested bool // another agent waits for the lock of the tenure
	wanted    bool // see [tenure]
	rests     bool // the call under way asks for a tenure that may rest
	set       bool // the store has said that a semaphore is set

	// unanswered says that an earlier call with this number may have taken effect, or may do
	// so later. open is the longest lease of such calls.
	unanswered bool
	open       time.Duration

	busy busyness // the last call with this number that found the lock busy
	told Instant  // since when the agent of a holder that may rest knows that the lock is wanted, or 0

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
	began       Instant
	sent        Instant // when the last confirmed call was sent
	deadline    Instant
	third       Instant // when a kept lease is renewed: after about a third of it, see [State.third]
	lease       time.Duration
	replied     Instant             // when that call was answered
	storeTime   lockagent.StoreTime // when the store decided about that call
	incarnation string
	replicas    int             // that had what the last confirmed call wrote
	first       lockagent.Token // of the first hold
	ahead       lockagent.Token // by how much that is ahead of the store's clock, as tokens that other programs count may be
	last        lockagent.Token // of the last hold, or 0
	holds       int             // how many holds the tenure has served, or may have served by owners who make several of a grant
	mode        Mode
	outsiders   bool // outsiders wait for the lock
	contested   bool // another agent waits for the lock
	wanted      bool // it is known that one cannot have the lock while the tenure has it, see [State.Wanted]
	uncertain   bool // see [State.Uncertain]
	reused      bool // readers joined whom the store has not heard of: see [tenure.unaware]
	doubt       bool // a renewal has to confirm the tenure
	falls       bool // the tenure was exclusive, and no renewal has confirmed yet that it is shared
	unanswered  bool // the tenure may begin once more

	// All confirmed leases have run out in the store by until. Unanswered calls may take
	// effect at any time, and open is the longest of their leases.
	until Instant
	open  time.Duration

	// The budget of hand-offs counts from here. That is the beginning, or when another agent wanted the lock of a tenure that could rest.
	budgetFrom Instant
	unwanted   int // how many holds the tenure had served by then

	rests    bool // the tenure may rest: the store tells when another agent wants the lock
	resting  bool // it rests, since restedAt
	restedAt Instant
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
	stale    bool // the doubt arose after the renewal was sent, which cannot end it
	wanted   bool // a message said that another agent waits after the renewal was sent, whose answer may be older
	failures int32
	sent     Instant
	lease    time.Duration
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
	if i := s.grants.top(endsLast); i != 0 && s.grants.kept == 0 {
		return s.deadline(s.grants.at(i))
	}
	return s.tenure.deadline
}

// roomy is the shortest lease that leaves room for a late tick, and for a store that
// puts a renewal off for up to a tenth of a second.
const roomy = lockagent.PassLease

// unaware reports whether others may wait for a shared tenure without the agent's knowledge: since the store was asked
// last, readers have joined who did not ask it. Outsiders cannot tell the agent that they wait. The answer to a
// renewal can.
func (t *tenure) unaware() bool {
	return t.reused && t.mode == Shared && !t.contested && !t.outsiders
}

// bars reports whether requests to read wait only because others do, who may have given up. No message says that.
func (s *State) bars() bool {
	w := s.queue.head()
	return s.tenure.mode == Shared && (s.tenure.contested || s.tenure.outsiders) && w != nil && w.Mode == Shared
}

// longestUnaware is for how long readers join, or are kept out, before the agent asks the store.
const longestUnaware = 300 * time.Millisecond

// renewalDue is when the next renewal is due, or never if the confirmed lease is enough. A
// tenure in doubt is due at once, and so is one whose first hold waits for it, and most often one that has to become shared. A renewal that failed is tried again in any case:
// until one succeeds, there is no hand-off.
func (s *State) renewalDue() Instant {
	at := never
	lease := min(s.cfg.Watchdog, s.tenure.lease) // a pass has a short lease, and so may a fixed request
	tiny := lease < min(s.cfg.Watchdog, roomy)
	kept := s.grants.kept > 0
	if i := s.grants.top(endsLast); i != 0 && s.grants.at(i).fixed > s.tenure.deadline { // the lease of the tenure is shorter than the fixed one
		at = s.tenure.sent
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
	if s.tenure.doubt || s.tenure.falls || s.renewal.failures > 0 || s.grants.len() == 0 { // without a grant, the first one waits for it
		at = s.tenure.sent
	}
	if at == never {
		return never
	}
	return max(at, s.renewal.retryAt)
}

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

// renewalLease is the lease to ask for now: the longest that a grant needs. If nobody holds the
// lock yet, it is the lease of the request at the head. If only its lease keeps that from joining them, it counts as theirs do.
func (s *State) renewalLease(m Moment) time.Duration {
	lease := lockagent.MinLease
	if s.grants.kept > 0 {
		lease = max(lease, s.cfg.Watchdog)
	}
	if i := s.grants.top(endsLast); i != 0 {
		lease = max(lease, s.cfg.leaseFor(s.grants.at(i).fixed.Sub(m.Now)))
	}
	switch w := s.queue.head(); {
	case w != nil && s.grants.len() == 0:
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
