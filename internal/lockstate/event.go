package lockstate

import (
	"time"

	"github.com/lockagent/lockagent"
)

// Kind says what happened in an [Event].
type Kind uint8

// The events. Each comment names the fields that are set beside Kind and Now, and what the
// shell has to do, if anything.
const (
	_ Kind = iota

	// Requested: a request arrived and waits. Request.
	Requested
	// Queued: a request cannot be granted at once. Request, Waiters.
	Queued
	// Answered: a request ends without a grant. Request, Err, TimedOut or Cancelled. The
	// shell delivers Err.
	Answered
	// Granted: a request is granted and leaves the queue. Request, Token, Holds (the tokens from Token on, so many, are
	// the owner's), How, Count (grants of the owner), Fixed, ClaimBy, Tenure, Sent, Lease, StoreTime, Incarnation,
	// Replicas. The shell delivers the grant.
	Granted
	// Reentered: as Granted, for an owner that holds the lock already.
	Reentered
	// Recalled: a grant lay in its channel for too long, or its request was cancelled. Request.
	// The shell tries to take the grant back. If it succeeds, it says so with [Unclaimed].
	Recalled
	// Ended: a grant is over, for Reason. Reason 0 means that the owner released it. Request,
	// Reason, Operator, Token, Tenure, Count (grants of the owner that are left), Since, Until,
	// Call, StoreTime and Lease (of the tenure's last confirmation). The shell tells the owner
	// before it does anything else.
	Ended
	// Unlocked: a call is answered. Call, and if it went wrong, Err or Reason (the hold had
	// been lost). The shell delivers the answer.
	Unlocked
	// AskBreak: a call wants to break a lock that this agent does not hold alone. Call. The
	// shell asks the store, and answers.
	AskBreak

	// Attempted: an attempt begins, in the mode of the request at the head. Tenure, Lease,
	// Token (the floor), Queue, Contends, FoundClosed, Rests, Request (the one at the head). The shell calls the store.
	Attempted
	// FoundBusy: another tenure or program has the lock. Tenure, RetryAt, Holder, Left, StoreTime,
	// Clock, Queued (from now on a release may pass the lock to the tenure), Set (if it is a semaphore, its number is
	// set), Told (since when the holder's agent knows that its lock is wanted, if the tenure may rest).
	FoundBusy
	// AttemptFailed: the attempt failed, and another one follows. Tenure, RetryAt, Err, Unanswered (the
	// attempt may have taken effect, or may do so later), Count (failures in a row). Request is
	// the one at the head, if it waits and no Queued has told of it.
	AttemptFailed
	// AttemptRefused: the attempt failed for good. Tenure, Err.
	AttemptRefused
	// Offered: a release passed the lock to the tenure while an attempt is under way. The
	// answer to the attempt comes first. Tenure, Token, StoreTime, Clock, Incarnation, Outsiders, Wanted.
	Offered
	// Began: the store granted the tenure, or passed the lock to it. Tenure, Sent, Lease,
	// Token (of the first hold), StoreTime, Incarnation, Outsiders, Replicas, Rests (it may rest), Unanswered (the
	// tenure may begin once more), Wanted.
	Began
	// Forgot: no request wants the tenure any more. Tenure.
	Forgot

	// Renewing: a renewal begins. Tenure, Mode (that the tenure is to have from now on), Lease, Urgent. The
	// shell calls the store.
	Renewing
	// Renewed: the store confirmed the renewal. Tenure, Mode, Sent, Lease, StoreTime, Replicas, Wanted.
	Renewed
	// RenewFailed: the renewal failed. The tenure goes on until its deadline. RetryAt,
	// Err, Tenure, Mode, Count (failures in a row).
	RenewFailed
	// BecameUncertain: the holds that depend on a renewal are over soon unless one succeeds. Tenure. See
	// [State.Uncertain].
	BecameUncertain
	// Denied: the tenure is over, for Reason: the store says so, or has granted the lock to
	// another tenure. Tenure, Mode, StoreTime, Count (holds that it served), Unanswered (the
	// tenure may begin once more). All its grants have Ended before.
	Denied

	// Rested: the last hold of the tenure has ended, and the tenure rests. Tenure.
	Rested
	// Returning: a release begins. Tenure, Token (of the last hold, or 0), Unanswered (an
	// attempt may still arrive). The shell calls the store.
	Returning
	// Withdrawing: as Returning, for a tenure that may have begun without the agent's
	// knowledge, or may yet begin.
	Withdrawing
	// Returned: the store confirmed the release of a Returning tenure. Tenure, Mode, StoreTime,
	// Released (it had the lock until then), Count (holds that it served), RetryAt (the agent
	// does not ask for the lock before), Wanted (the lock was passed on).
	Returned
	// Withdrawn: the store confirmed the release of a Withdrawing tenure. Tenure, StoreTime.
	Withdrawn
	// ReleaseFailed: the release failed, and is made again. RetryAt, Err, Tenure.
	ReleaseFailed
	// Dropped: the agent gives up the release, and the lease runs out. Tenure, Err.
	Dropped
	// Disowning: the store has a ghost. Tenure, Token (the floor). The shell calls the store
	// to release it.
	Disowning

	// Woke: an attempt may now succeed. RetryAt is when to make it. Queued (the subscription to a
	// latch stands).
	Woke
	// Contested: another agent waits for the lock that the tenure has, or may do so. Tenure, Wanted (it does).
	Contested
	// Doubted: the tenure is in doubt from now on.
	Doubted
	// Quieted: nobody has waited for a while, so the state does not want wake-ups any more.
	Quieted
	// Closed: nothing is granted any more.
	Closed
	// Detached: another process goes on with the holds. The shell forgets all grants.
	Detached

	// Extended: a fixed lease ends at Fixed, which is no earlier than before, or is kept if Fixed is 0. Then Own is the
	// earliest end that it has afterwards. Request, Fixed, Own. The shell answers an extension when the deadline of the
	// tenure is no longer before Fixed.
	Extended
)

// Commits reports whether a journal must have the state before the shell does what the event asks for. The shell then
// makes a call about a tenure, or tells an owner something to rely on. So [Resume] can go on from the journal, whenever
// this process ends. The journal must also have a new request when the step in which it arrived is over. It may get
// everything else later. The next process may then believe for a while in a request or a hold that was given up.
func (e *Event) Commits() bool {
	switch e.Kind {
	case Attempted, Renewing, Returning, Withdrawing, Granted, Reentered, Renewed, Extended:
		return true
	}
	return false
}

// Event is one change of the state. Kind decides which fields are set.
type Event struct {
	Kind    Kind
	Now     Instant
	Request Request
	Call    CallID

	Tenure      uint64
	Mode        Mode    // of the tenure
	Sent        Instant // the lease counts from here: when the confirmed call was sent, or the pass at the earliest
	Lease       time.Duration
	StoreTime   lockagent.StoreTime // when the store decided
	Clock       string              // the store's clock of StoreTime
	Incarnation string
	Token       lockagent.Token
	Outsiders   int
	Replicas    int // that are known to have the tenure

	How     lockagent.How
	Count   int
	Waiters int
	Fixed   Instant // when a fixed lease ends, or 0
	Own     Instant // before when a fixed lease does not end that another hold keeps now, or 0
	ClaimBy Instant
	Since   Instant             // when the grant was made
	Until   lockagent.StoreTime // the store's clock shows no more than this at Now
	Reason  lockagent.LossReason
	// Operator broke the lock, if Reason says that it was broken.
	Operator string

	RetryAt, Told        Instant
	Holder               string
	Left                 time.Duration
	Released, Unanswered bool
	Queue, Queued, Set   bool
	Contends             bool // of a lock that wakes nobody
	FoundClosed          bool // of a latch
	Rests                bool // the tenure may rest
	Wanted               bool // others wait for the lock
	Urgent               bool
	TimedOut, Cancelled  bool
	Holds                uint16
	Err                  error
}
