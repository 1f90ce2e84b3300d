package lockstate

import (
	"time"

	"github.com/lockagent/lockagent"
)

// Kind says what happened in an [Event].
type Kind uint8

// The events. Each comment names the fields that are set beside Kind and Now, and
// what the shell has to do about it, if anything.
const (
	_ Kind = iota

	// Requested: a request arrived and waits. Request.
	Requested
	// Queued: it cannot be granted at once. Request, Waiters.
	Queued
	// Answered: a request ends without a grant. Request, Err, TimedOut or
	// Cancelled. The shell delivers it.
	Answered
	// Granted: the lock goes to the request, which leaves the queue. Request,
	// Token, How, Count (grants of the owner), Fixed, ClaimBy, Tenure and the fields of
	// its confirmation. The shell delivers it.
	Granted
	// Reentered: as Granted, to an owner who holds the lock already.
	Reentered
	// Recalled: the grant of a request shall be taken back if nobody received it.
	// Request. The shell tries, and if it could, says so with [Unclaimed].
	Recalled
	// Ended: a grant is over, for Reason, or released by its owner if that is 0.
	// Request, Reason, Token, Tenure, Count (grants of the owner that are left), Since,
	// Until, Call. The shell tells the owner, before it does anything else.
	Ended
	// Unlocked: the answer to a call. Call, and if it went wrong, Err or Reason (the
	// hold had been lost). The shell delivers it.
	Unlocked
	// AskBreak: a call to break a lock that this agent does not hold. Call. The
	// shell asks the store and answers.
	AskBreak

	// Attempted: the lock is asked of the store, in the mode of the request. Tenure, Lease,
	// Token (the floor), Queue, Request (the one at the head). The shell calls the store.
	Attempted
	// FoundBusy: somebody else has the lock. RetryAt, Holder, Left, StoreTime, Clock, Queued
	// (the lock may be passed to the tenure from now on).
	FoundBusy
	// AttemptFailed: the answer is unknown. RetryAt, Err, Unanswered (the attempt may
	// have succeeded, or may yet).
	AttemptFailed
	// AttemptRefused: the attempt failed for good. Err.
	AttemptRefused
	// Offered: the lock was passed to the tenure while the store is being asked,
	// whose answer comes first. Tenure, Token, StoreTime, Clock, Incarnation, Outsiders.
	Offered
	// Began: the store granted the tenure, or passed the lock to it. Tenure, Sent,
	// Lease, Token (of the first hold), StoreTime, Incarnation, Outsiders, Unanswered (it
	// may begin once more).
	Began
	// Forgot: nobody waits for the tenure any more.
	Forgot

	// Renewing: the lease shall start anew. Tenure, Lease, Urgent. The shell calls the
	// store.
	Renewing
	// Renewed: the store confirmed that. Tenure, Sent, Lease, StoreTime.
	Renewed
	// RenewFailed: it did not, and the tenure goes on until its deadline. RetryAt,
	// Err, Count (failures in a row).
	RenewFailed
	// Denied: the store says that the tenure is over, for Reason. Tenure, StoreTime, Count
	// (holds that it served), Unanswered (it may begin once more). All grants have Ended
	// before.
	Denied

	// Returning: the tenure shall end in the store. Tenure, Token (of the last hold, or
	// 0), Unanswered (so may an attempt be). The shell calls the store.
	Returning
	// Withdrawing: the same for a tenure that may have begun without our knowing, or may
	// yet.
	Withdrawing
	// Returned: the store confirmed that. Tenure, StoreTime, Released (it had the lock
	// until then), Count (holds that it served), RetryAt (the lock is not to be asked for
	// before).
	Returned
	// Withdrawn: the store confirmed that. Tenure, StoreTime.
	Withdrawn
	// ReleaseFailed: it did neither. RetryAt, Err.
	ReleaseFailed
	// Dropped: the tenure is left to run out by itself. Tenure, Err.
	Dropped
	// Disowning: the store has a tenure of this agent that this lock does not have. It
	// shall end there. Tenure, Token (the floor). The shell has the store release it.
	Disowning

	// Woke: something may be different now; RetryAt is when to look.
	Woke
	// Contested: another agent waits for what the tenure has.
	Contested
	// Doubted: the store shall be asked whether the tenure still is.
	Doubted
	// Quieted: nobody has waited for a while: no need for wake-ups.
	Quieted
	// Closed: nothing is granted any more.
	Closed
	// Detached: what the agent had is another's to go on with. The shell forgets all grants.
	Detached
)

// Event is one thing that happened to the lock. Which fields are set depends on
// Kind.
type Event struct {
	Kind    Kind
	Now     Instant
	Request Request
	Call    CallID

	Tenure      uint64
	Sent        Instant // when the call was sent that last confirmed the tenure, or as if
	Lease       time.Duration
	StoreTime   lockagent.StoreTime // when the store confirmed it
	Clock       string              // that StoreTime was read from
	Incarnation string
	Token       lockagent.Token
	Outsiders   int

	How     lockagent.How
	Count   int
	Waiters int
	Fixed   Instant // when a fixed lease ends, or 0
	ClaimBy Instant
	Since   Instant             // when the grant was made
	Until   lockagent.StoreTime // the latest the store's clock can show at Now
	Reason  lockagent.LossReason

	RetryAt              Instant
	Holder               string
	Left                 time.Duration
	Released, Unanswered bool
	Queue, Queued        bool
	Urgent               bool
	TimedOut, Cancelled  bool
	Err                  error
}
