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
	placed bool  // the call under way asks for a place
	woken  bool  // a wake-up came while the call was under way: ask again
	rival  rival // who has the lock

	// arrived is when the store first said that the tenure has a place in its queue, or 0. From then on a release may
	// pass the lock to the tenure. The place may be lost, but a needless withdrawal does no harm.
	arrived lockagent.StoreTime

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

	busy     busyness // the last call with this number that found the lock busy
	notified Instant  // since when the holder's agent knows that the lock is wanted, if the lock may rest there; or 0

	// ghost is the ghost that has the lock, if the store was asked to end it and has not answered; or 0. disowned is
	// the one about which the store has answered since the last busy answer, or 0.
	ghost, disowned uint64

	offer *Passed // arrived while the call was under way
}

// busyness tells of a call that found the lock busy. The call was sent at the instant sent.
// The store's clock showed at when the call arrived there, some time later.
type busyness struct {
	sent  Instant
	at    lockagent.StoreTime
	clock string
}

func (a *attempt) queued() bool { return a.arrived != 0 }

// mayHave reports whether the tenure may have the lock, or get it, without the agent's
// knowledge. Such a tenure has to be withdrawn.
func (a *attempt) mayHave() bool { return a.unanswered || a.queued() }

// spares reports whether requests that do not wait go on for a moment, because the lock is about to become free: it is
// recalled, or the store ends a ghost that has the lock.
func (a *attempt) spares(now Instant) bool { return a.ghost != 0 || recalling(a.notified, now) }

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

// sought reports whether the request at the head wants the tenure of the attempt. It does not
// if it has another mode: a tenure has one mode for its life.
func (s *State) sought() bool {
	w := s.requests.head()
	return w != nil && (w.Mode == s.attempt.mode || s.attempt.number == 0)
}

func (s *State) attempted(m Moment) Event {
	r := s.requests.head().Request
	e := Event{
		Kind: Attempted, Request: r, Tenure: s.attempt.number,
		Traits: Traits{Rests: s.wantsRest(&r, m)}, Ask: Ask{AskedLease: s.lease(&r), Floor: s.floor},
	}
	// A place needs a subscription, and a request that waits. An earlier call may have got a place already.
	waits := s.attempt.queued() || s.attempt.unanswered || s.contended &&
		s.requests.waiting.len() > s.requests.tries.len()
	e.Queue, e.Contends = waits && !s.cfg.Polls, waits && s.cfg.Polls
	e.Arrived = s.attempt.arrived
	if e.Tenure == 0 {
		e.Tenure = m.Fresh
	}
	if e.Rests || r.Lease == 0 && s.beginsBriefly(m.Now) {
		e.AskedLease = min(e.AskedLease, lockagent.PassLease)
	}
	return e
}

// beginsBriefly reports whether a kept lease begins as that of a pass: if the agent has just had the lock for a moment,
// or if the attempt was made before with a lease as short. The earlier call may still arrive, after the store has lost
// its data.
func (s *State) beginsBriefly(now Instant) bool {
	before := s.attempt.open
	return s.habit.again(now) || before != 0 && before <= lockagent.PassLease
}
