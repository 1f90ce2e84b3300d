package lockstate

import (
	"github.com/lockagent/lockagent"
)

// phase is how far the agent's tenure has come. If nobody else wants the lock, these are all phases. The holds of a
// tenure follow each other in phase Held:
//
//	     Attempted         Began         Returning            Returned
//	Free ---------> Asking -----> Held ------------> Releasing --------> Free
//	                              ^  |
//	                              +--+ Granted, Ended, Renewing, Renewed, RenewFailed
//
// A busy lock, or a store that does not answer, adds the phase Sleeping:
//
//	       FoundBusy, AttemptFailed,           Attempted    (woken, or it is time)
//	       AttemptRefused                     +---------> Asking
//	Asking ------------------------> Sleeping +---------> Held        Began (a release passed the lock)
//	                                          +---------> Free        Forgot (no request wants the tenure)
//	                                          +---------> Releasing   Withdrawing (the same, but it may have begun)
//
// A tenure can also end in other ways:
//
//	Held      ---------> Free        Denied (the store says that the tenure is over)
//	Held      ---------> Releasing   Denied (the same, but it may begin once more), Withdrawing
//	Releasing ---------> Releasing   ReleaseFailed; then Returning or Withdrawing again
//	Releasing ---------> Free        Withdrawn; or Dropped (no answer for as long as a lease)
//
// A tenure may also stay in phase Held while nobody holds the lock, see rest.go:
//
//	      Ended          Rested                 Granted (the next request, without the store)
//	Held -------> Held ---------> Held (rests) ---------> Held
//	                                           ---------> Releasing
//	                                            Returning (wanted, or it has rested for long enough)
type phase uint8

const (
	free      phase = iota // no tenure, and none is asked for
	asking                 // an attempt is under way
	sleeping               // the attempt failed, or found the lock busy: another one follows
	held                   // the agent has the tenure
	releasing              // the tenure goes back, or is withdrawn
)

// State is one lock as one agent sees it, or one part of a [Fair]: the fold of its events. The zero State
// is not usable; see [New].
type State struct {
	name     lockagent.Name
	cfg      *Config
	requests table
	part     uint64 // the number of this part of a [Fair], or 0
	// heldBack: the part does not ask the store yet, because many calls of other parts are under way. See [Fair.admit].
	heldBack bool

	phase  phase
	closed bool
	// contended says that the lock was found busy, or returned while requests waited. From then on the
	// state wants wake-ups, and the store is told that somebody waits. If nobody waits here any more, that
	// lasts until quietAt. Uses of the lock that meet nobody do not put quietAt off.
	contended bool
	// failures counts the attempts or releases that failed in a row.
	failures int32
	quietAt  Instant // see contended

	attempt attempt // in phases asking and sleeping
	tenure  tenure  // in phases held and releasing
	habit   habit
	renewal renewal // in phase held
	leaving leaving // in phase releasing

	// floor is the greatest token that this agent knows of.
	floor lockagent.Token
	// notBefore keeps the agent away from the store while it yields to others.
	notBefore Instant
	// retryAt is when a sleeping tenure asks again, and a releasing one is released again.
	retryAt Instant
	// call ended the last hold. It is answered when the lock has been handed off, when the
	// tenure is over, or when its release has failed. 0 if there is none.
	call CallID
}

// New returns a lock that nobody holds. Several states may share cfg, which must not change.
func New(name lockagent.Name, cfg *Config) *State { return &State{name: name, cfg: cfg} }

// Idle reports whether the state can be forgotten: the agent has no tenure, nobody waits, and no wake-ups are wanted.
func (s *State) Idle() bool {
	return s.phase == free && s.requests.waiting.n == 0 && !s.contended
}

// Listening reports whether wake-ups are wanted.
func (s *State) Listening() bool { return s.contended && !s.cfg.Polls }

// Waiters is how many requests wait.
func (s *State) Waiters() int { return s.requests.waiting.len() }

// Hold is the oldest grant of this agent that is held. count is how many grants its owner
// holds, or 0 if nobody holds the lock.
func (s *State) Hold() (owner lockagent.Owner, token lockagent.Token, count int, tenure uint64) {
	if s.requests.held.n == 0 {
		return "", 0, 0, 0
	}
	g := s.requests.oldest()
	return g.Owner, g.token, max(1, s.requests.holdsBeside(&g.Request)), s.tenure.number
}

// Grants iterates over the requests whose grants an owner holds, the youngest first.
func (s *State) Grants(o lockagent.Owner, yield func(RequestID) bool) {
	s.requests.grantsOf(o, func(g *slot) bool { return yield(g.ID) })
}

// Asked reports whether a session holds the lock or waits for it.
func (s *State) Asked(session lockagent.Owner) bool {
	_, asked := s.requests.sessions[session]
	return asked
}

// InDoubt reports whether the store may have forgotten a tenure with holds: until a renewal has shown that it has not,
// or the tenure is over. A grace period that ended during the release would end the last hold as lost.
func (s *State) InDoubt() bool { return s.tenure.doubt && s.tenure.holds > 0 }

// Resting reports whether the agent keeps the lock, and nobody holds it.
func (s *State) Resting() bool { return s.phase == held && s.tenure.resting }

// Unheld is the tenure that the store may have for this agent, although nobody holds the lock: it rests, or it goes
// back. It is 0 if there is none, or if other agents may share it.
func (s *State) Unheld() uint64 {
	if s.tenure.mode == Shared || !s.Resting() && s.phase != releasing {
		return 0
	}
	return s.tenure.number
}

// has reports whether the agent has the tenure or asks for it.
func (s *State) has(number uint64) bool {
	return number == s.attempt.number || number == s.tenure.number
}

// lets reports whether the part can grant a request as a re-entry, now or later: the session
// of the request holds the lock in this part, or waits in it.
func (s *State) lets(r *Request) bool {
	return r.Session && (s.requests.again(r) != nil || s.requests.waits(r.Owner))
}

// Deadline is until when the agent trusts a tenure, or 0 if the tenure is not the present one.
func (s *State) Deadline(tenure uint64) Instant {
	if tenure != s.tenure.number {
		return 0
	}
	return s.tenure.deadline
}

// Alarm is when the state wants a [Tick], if at all.
func (s *State) Alarm() (at Instant, ok bool) {
	at = never
	switch s.phase {
	case held:
		at = min(s.tenure.deadline, s.uncertainAt())
		if g := s.requests.endsFirst(); g != nil {
			at = min(at, g.fixed)
		}
		if g := s.requests.firstUnclaimed(); g != nil {
			at = min(at, g.claimBy)
		}
		switch {
		case s.Resting(): // nobody needs a renewal
			at = min(at, s.restUntil())
		case !s.renewal.inFlight:
			at = min(at, s.renewalDue())
		}
	case free:
		switch {
		case s.heldBack:
		case s.requests.waiting.n > 0:
			at = s.notBefore
		case s.contended:
			at = s.quietAt
		}
	case sleeping:
		at = s.retryAt
		if s.requests.tries.n > 0 && s.attempt.ghost == 0 { // it sleeps only while the lock is being recalled, see moveOn
			at = min(at, s.attempt.notified.add(recallTime))
		}
	case releasing:
		if !s.leaving.inFlight {
			at = min(s.retryAt, s.leaving.dropAt)
		}
	}
	return at, at != never
}

// Floor is the greatest token that the agent knows of.
func (s *State) Floor() lockagent.Token { return s.floor }
