package lockstate

import (
	"time"

	"github.com/lockagent/lockagent"
)

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
	begun       lockagent.StoreTime // when the store began the tenure; 0 if another process had it before
	incarnation string
	replicas    int             // that had what the last confirmed call wrote
	first       lockagent.Token // of the first hold
	ahead       lockagent.Token // how far first was ahead of the store's clock, or 0: see [tenure.greatest]
	last        lockagent.Token // of the last hold, or 0
	holds       int             // that the tenure has served, or may have: an owner may make several of a grant
	mode        Mode
	outsiders   bool // outsiders wait for the lock
	contested   bool // another agent may wait for the lock; only of a shared tenure
	wanted      bool // another agent is known to wait for what this tenure has, see [State.Wanted]
	uncertain   bool // see [State.Uncertain]
	joined      bool // readers joined whom the store has not heard of: see [tenure.unaware]
	doubt       bool // a renewal has to confirm the tenure
	downgrading bool // the tenure was exclusive, and no renewal has confirmed yet that it is shared
	unanswered  bool // the tenure may begin once more

	// All confirmed leases have run out in the store by until. Unanswered calls may take
	// effect at any time, and open is the longest of their leases.
	until Instant
	open  time.Duration

	// The budget of hand-offs counts from here. That is the beginning, or when another agent wanted the lock of a
	// tenure that could rest.
	budgetFrom Instant
	unbudgeted int // how many holds the tenure had served by then: they do not count

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

// greatest is the greatest token that the tenure may use now. A later tenure takes its first token from the store's
// clock, which shows more by then. Only the tokens of a fenced lock may be ahead of that clock: Redisson counts them in
// the same key, and somebody may have set the key to a greater number. A later tenure counts on from there, so its
// tokens are at least as far ahead.
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
func (s *State) deadline(g *slot) Instant {
	if g.fixed != 0 {
		return min(g.fixed, s.tenure.deadline)
	}
	return s.tenure.deadline
}

// end is when the last of the grants ends, unless the tenure is renewed.
func (s *State) end() Instant {
	if g := s.requests.endsLast(); g != nil && s.requests.kept == 0 {
		return s.deadline(g)
	}
	return s.tenure.deadline
}
