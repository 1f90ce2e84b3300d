package lockstate

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// attempt is a tenure that the store has been asked for.
type attempt struct {
	number uint64 // 0 if there is none
	mode   Mode
	sent   Instant
	lease  time.Duration
	upto   RequestID // the youngest request when it was sent
	queued bool      // it has a place in the store's queue: the lock may be passed to it
	placed bool      // the call under way asks for such a place
	woken  bool      // something changed while the call was under way: ask again

	// doubt says that what the store last said may not be true any more. If the attempt was
	// woken as well, so may its answer, and a grant has to be checked.
	doubt bool

	contested bool // another agent waits for it

	// unanswered says that an earlier call with this number may have succeeded, or may
	// yet, and open is the longest lease of such calls.
	unanswered bool
	open       time.Duration

	busy busyness // of the last call with this number that was answered so

	offer *Passed // came while the call was under way
}

// busyness tells that a call was sent at an instant and found the lock busy, when the
// store's clock showed a time: at some instant after that.
type busyness struct {
	sent  Instant
	at    lockagent.StoreTime
	clock string
}

// mayHave reports whether the tenure may get the lock, or have it, without our
// knowing. Then it must not be forgotten, but withdrawn.
func (a *attempt) mayHave() bool { return a.unanswered || a.queued }

// trustsMessages is for how long the messages of a store that found the lock busy are
// trusted. One that has no place for who asks may not wake it either: say the lock moves to
// another node.
func (a *attempt) trustsMessages(queued bool) time.Duration {
	switch {
	case queued:
		return queuedSleep
	case a.placed:
		return unplacedSleep
	}
	return unboundedSleep
}

// tenure is the agent's time with the lock, as far as the store confirmed it.
type tenure struct {
	number      uint64
	mode        Mode
	began       Instant
	sent        Instant // when the last confirmed call was sent
	deadline    Instant
	lease       time.Duration
	replied     Instant             // when that was answered
	storeTime   lockagent.StoreTime // when the store confirmed it
	incarnation string
	outsiders   bool            // somebody waits who has no place in the store's queue
	contested   bool            // another agent waits
	first       lockagent.Token // of the first hold
	last        lockagent.Token // of the last hold, or 0
	holds       int             // how many it has served
	doubt       bool            // it has to be checked with the store

	// What the store has confirmed runs out there by until. Calls that it did not answer
	// may take effect at any time; open is the longest of their leases, and unanswered
	// says that the tenure may begin once more.
	until      Instant
	open       time.Duration
	unanswered bool

	// early is by how much the next renewal comes before its time, so that those of
	// locks that were acquired together do not stay together.
	early time.Duration
}

// next is the token of the next hold.
func (t *tenure) next() lockagent.Token { return t.first + lockagent.Token(t.holds) }

// ending reports whether too little of the lease is left for a hand-off. The next owner would
// lose the lock before it can be renewed.
func (t *tenure) ending(now Instant) bool { return t.deadline.Sub(now) < t.lease/10 }

// tokenSlack is how far a tenure's tokens may run ahead of the store's clock.
const tokenSlack = time.Millisecond

// greatest is the greatest token that the tenure may use now. A later tenure begins with
// the time of the store's clock, which shows more by then.
func (t *tenure) greatest(now Instant) lockagent.Token {
	return lockagent.Token(t.storeTime.Add(now.Sub(t.replied) + tokenSlack))
}

// storeUpper is the latest that the store's clock can show at now: it showed
// storeTime at some instant after the call was sent.
func (t *tenure) storeUpper(now Instant) lockagent.StoreTime {
	return t.storeTime.Add(now.Sub(t.sent)) + 1 // Add rounds down
}

// renewal is what is known of the present renewal.
type renewal struct {
	inFlight bool
	sent     Instant
	lease    time.Duration
	stale    bool // doubt arose after it was sent
	failures int
	retryAt  Instant
}

// leaving is what is known of the release of a tenure.
type leaving struct {
	withdraws  bool // it may have begun without our knowing, or may yet
	inFlight   bool
	inTime     bool    // the first call was sent before the deadline of a tenure that we had
	unanswered bool    // a call may have released it
	dropAt     Instant // when it is left alone
}

// grant is one that is held.
type grant struct {
	request Request
	token   lockagent.Token
	since   Instant
	fixed   Instant // when its fixed lease ends; 0 if kept
	claimBy Instant // 0 once it is known, or was found out, who has it
}

// grants are those that are held, in the order they were made.
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

// shared reports whether all grants leave room for others.
func (g grants) shared() bool {
	return !slices.ContainsFunc(g, func(g grant) bool { return g.request.Mode == Exclusive })
}

// again is the grant that lets its owner in once more, or nil: any grant of the owner for
// a shared request, and an exclusive one for another exclusive one.
func (g grants) again(r *Request) *grant {
	for i := range g {
		if g := &g[i]; r.Session && g.request.Owner == r.Owner && g.request.Mode <= r.Mode {
			return g
		}
	}
	return nil
}

// left is how long the store may keep the tenure at the most, if nothing more is asked of
// it.
func (s *State) left(now Instant) time.Duration {
	left := max(s.tenure.until.Sub(now), s.tenure.open)
	if s.renewal.inFlight {
		left = max(left, s.renewal.lease)
	}
	return left
}

// lease is what a request needs of the store.
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

// gridPart says how far apart the instants are at which kept leases are renewed: a lease of 30 s
// at every tenth of a second. An agent that keeps many locks then wakes up for many of them at once.
const gridPart = 300

// renewalDue is when the lease has to be renewed for the sake of the grants, or of the
// request at the head, which waits until a tenure in doubt is checked. It is never if
// what the store has confirmed is enough.
func (s *State) renewalDue() Instant {
	at := never
	lease := min(s.cfg.Watchdog, s.tenure.lease) // a tenure that was passed the lock has a short one
	tiny := lease < min(s.cfg.Watchdog, roomy)   // so has one that was asked for by a short fixed lease
	for i := range s.grants {
		switch g := &s.grants[i]; {
		case g.fixed == 0 && tiny: // kept: a late tick would be too late
			at = s.tenure.sent
		case g.fixed == 0: // kept: renew when a third of the lease has passed
			third := s.tenure.deadline.add(-s.cfg.trust(lease) + lease/3 - min(s.tenure.early, lease/6))
			at = min(at, third.roundUp(lease/gridPart))
		case g.fixed > s.tenure.deadline: // handed off with less than it needs
			at = s.tenure.sent
		}
	}
	if s.tenure.doubt {
		at = s.tenure.sent
	}
	if at == never {
		return never
	}
	return max(at, s.renewal.retryAt)
}

// renewalLease is for how long to renew the lease now.
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

// renewAgain is when to renew after a failure: not at once, but soon enough for several
// tries before the deadline, and at once if the store has come back since.
func (s *State) renewAgain(m Moment) Instant {
	if s.renewal.stale {
		return m.Now
	}
	const tries = 4
	pause := min(s.cfg.backoff(s.renewal.failures+1, m), s.tenure.deadline.Sub(m.Now)/tries)
	return m.Now.add(max(pause, s.cfg.RetryMin/2))
}
