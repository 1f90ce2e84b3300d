package lockstate

import (
	"time"

	"github.com/lockagent/lockagent"
)

// phase is how far the agent's tenure is. See the package documentation.
type phase uint8

const (
	free phase = iota
	asking
	sleeping
	held
	returning
)

// State is one lock as one agent sees it: the fold of its events. The zero State
// is not usable; see [New].
type State struct {
	name  lockagent.Name
	cfg   *Config
	queue queue

	phase  phase
	closed bool
	// inFlight says that the store has been asked to return the tenure.
	inFlight bool
	// contended says that the lock was found busy, so that wake-ups are wanted,
	// until quietAt if nobody waits.
	contended bool
	quietAt   Instant

	attempt attempt // in phases asking and sleeping
	tenure  tenure  // in phases held and, in part, returning
	holder  holder  // empty but in phase held
	renewal renewal // in phase held

	// notBefore keeps the agent away from the store while it yields to others.
	notBefore Instant
	// retryAt is when a sleeping or returning tenure moves on by itself.
	retryAt Instant
	// dropAt is when a tenure that cannot be returned is left alone.
	dropAt Instant
	// failures counts the store calls of the current phase that failed in a row.
	failures int
	// call is the release to be answered once the hold has been passed on or the
	// tenure returned.
	call CallID
}

// attempt is a tenure that the store has been asked for.
type attempt struct {
	number uint64 // 0 if there is none
	sent   Instant
	lease  time.Duration
	tokens int
	upto   RequestID // the youngest request when it was sent
	unsure bool      // a call with this number may have succeeded
	queued bool      // it waits in the store's queue, and may be passed the lock unasked
	woken  bool      // a wake-up came while the call was under way
	doubt  bool      // the store was reset while the call was under way

	// The last call with this number that was answered busy was sent at busySent, and
	// the store's clock showed busyAt at some instant after that. Set if queued.
	busySent Instant
	busyAt   lockagent.StoreTime

	offer *lockagent.Pass // came while the call was under way

	longest time.Duration // lease that was asked for under this number
}

// tenure is the agent's time with the lock, as far as the store confirmed it.
type tenure struct {
	number      uint64
	began       Instant
	sent        Instant // when the last confirmed call was sent
	deadline    Instant
	lease       time.Duration
	longest     time.Duration       // lease that was asked for, confirmed or not
	storeTime   lockagent.StoreTime // when the store confirmed it
	incarnation string
	next, last  lockagent.Token // what is left of the range
	grants      int
	unsure      bool // an attempt before the one that was answered may arrive yet
	// early is by how much the next renewal comes before its time, so that those of
	// locks that were acquired together do not stay together.
	early time.Duration
}

// mayHave reports whether the tenure may get the lock, or have it, without our
// knowing. Then it must not be forgotten, but withdrawn.
func (a *attempt) mayHave() bool { return a.unsure || a.queued }

// storeUpper is the latest that the store's clock can show at now: it showed
// storeTime at some instant after the call was sent.
func (t *tenure) storeUpper(now Instant) lockagent.StoreTime {
	return t.storeTime.Add(now.Sub(t.sent)) + 1 // Add rounds down
}

// holder is the owner of the hold and its grants, in the order they were made.
type holder struct {
	token  lockagent.Token
	grants []grant // of one owner
}

func (h *holder) none() bool { return len(h.grants) == 0 }

// owner is who holds the lock, if anybody does.
func (h *holder) owner() lockagent.Owner { return h.grants[0].request.Owner }

type grant struct {
	request Request
	since   Instant
	fixed   Instant // when its fixed lease ends; 0 if kept
	claimBy Instant // 0 once it is known, or was found out, who has it
}

// renewal is what is known of the present renewal.
type renewal struct {
	inFlight bool
	sent     Instant
	lease    time.Duration
	failures int
	retryAt  Instant

	// doubts counts the store resets since the tenure was confirmed, and asked
	// how many of them the renewal under way will settle.
	doubts, asked int
}

// New returns a lock that nobody holds. cfg may be shared; it must not change.
func New(name lockagent.Name, cfg *Config) *State { return &State{name: name, cfg: cfg} }

// Recovering returns a lock that first ends the tenure with the given number in
// the store. It is where a shell that lost its state starts again.
func Recovering(name lockagent.Name, cfg *Config, number uint64, now Instant) *State {
	s := New(name, cfg)
	s.phase = returning
	s.tenure.number = number
	s.retryAt = now
	s.dropAt = now.add(cfg.Watchdog)
	return s
}

// Idle reports whether nothing would be lost if the state were forgotten.
func (s *State) Idle() bool {
	return s.phase == free && s.queue.len() == 0 && !s.contended
}

// Listening reports whether wake-ups are wanted.
func (s *State) Listening() bool { return s.contended }

// Waiters is how many requests wait.
func (s *State) Waiters() int { return s.queue.len() }

// Holder tells who holds the lock through this agent. count is 0 if nobody does.
func (s *State) Holder() (owner lockagent.Owner, token lockagent.Token, count int, tenure uint64) {
	if s.holder.none() {
		return "", 0, 0, 0
	}
	return s.holder.owner(), s.holder.token, len(s.holder.grants), s.tenure.number
}

// Knows reports whether the tenure with that number is the present one, or is asked for.
func (s *State) Knows(number uint64) bool {
	return number == s.attempt.number || number == s.tenure.number
}

// Deadline is until when the tenure is trusted, or 0 if there is none.
func (s *State) Deadline() Instant { return s.tenure.deadline }

func (s *State) deadline(g *grant) Instant {
	if g.fixed != 0 {
		return min(g.fixed, s.tenure.deadline)
	}
	return s.tenure.deadline
}

// end is when the hold ends, unless it is renewed.
func (s *State) end() Instant {
	var end Instant
	for i := range s.holder.grants {
		end = max(end, s.deadline(&s.holder.grants[i]))
	}
	return end
}

// Alarm is when the state wants to be given a [Tick], if at all.
func (s *State) Alarm() (at Instant, ok bool) {
	at = never
	switch s.phase {
	case held:
		for i := range s.holder.grants {
			g := &s.holder.grants[i]
			at = min(at, s.deadline(g))
			if g.claimBy != 0 {
				at = min(at, g.claimBy)
			}
		}
		if !s.renewal.inFlight {
			at = min(at, s.renewalDue())
		}
	case free:
		switch {
		case s.queue.len() > 0:
			at = s.notBefore
		case s.contended:
			at = s.quietAt
		}
	case sleeping:
		at = s.retryAt
	case returning:
		if !s.inFlight {
			at = min(s.retryAt, s.dropAt)
		}
	}
	return at, at != never
}

// roomy is the shortest lease that leaves room for a late tick, and for a store that
// puts a renewal off for up to a tenth of a second.
const roomy = lockagent.PassLease

// renewalDue is when the lease has to be renewed for the sake of its holder. It
// is never if what the store has confirmed is enough.
func (s *State) renewalDue() Instant {
	at := never
	lease := min(s.cfg.Watchdog, s.tenure.lease) // a tenure that was passed the lock has a short one
	tiny := lease < min(s.cfg.Watchdog, roomy)   // so has one that was asked for by a short fixed lease
	for i := range s.holder.grants {
		switch g := &s.holder.grants[i]; {
		case g.fixed == 0 && tiny: // kept: a late tick would be too late
			at = s.tenure.sent
		case g.fixed == 0: // kept: renew when a third of the lease has passed
			at = min(at, s.beat(s.tenure.deadline.add(-s.cfg.trust(lease)+lease/3-min(s.tenure.early, lease/6))))
		case g.fixed > s.tenure.deadline: // handed off with less than it needs
			at = s.tenure.sent
		}
	}
	if s.renewal.doubts > 0 && !s.holder.none() {
		at = s.tenure.sent
	}
	if at == never {
		return never
	}
	return max(at, s.renewal.retryAt)
}

// beat is the last instant up to at at which renewals begin. Those of many locks that are
// due at about the same time begin together, which costs less than one after the other.
func (s *State) beat(at Instant) Instant {
	if s.cfg.Scatter == 0 {
		return at
	}
	return at - at%Instant(s.cfg.Scatter/beats)
}

// beats is how many there are in the time over which first renewals are scattered.
const beats = 50

// renewalLease is for how long to renew the lease now.
func (s *State) renewalLease(m Moment) time.Duration {
	lease := lockagent.MinLease
	for i := range s.holder.grants {
		switch g := &s.holder.grants[i]; {
		case g.fixed == 0:
			lease = max(lease, s.cfg.Watchdog)
		case g.fixed > s.tenure.deadline:
			lease = max(lease, s.cfg.leaseFor(g.fixed.Sub(m.Now)))
		}
	}
	if s.renewal.doubts > 0 {
		lease = max(lease, s.tenure.lease)
	}
	return lease
}
