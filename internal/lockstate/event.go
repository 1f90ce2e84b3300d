package lockstate

import (
	"time"

	"github.com/lockagent/lockagent"
)

// Kind says what happened in an [Event].
type Kind uint8

// The events. Each comment says what has happened, and what the shell has to do about it, if anything. It ends with the
// payload: the fields of the [Event] that may be set beside Kind and Now. A test compares it with events.
const (
	_ Kind = iota

	// Requested: a request arrived and waits. Request.
	Requested
	// Queued: a request cannot be granted at once. Request, Wait.
	Queued
	// Answered: a request ends without a grant. The shell delivers the error. Request, Wait, Err.
	Answered
	// Granted: a request is granted and leaves the queue. The shell delivers the grant. Request, Tenure, Hold, Grant,
	// Decision, Confirmed.
	Granted
	// Reentered: as Granted, for an owner that holds the lock already. Request, Tenure, Hold, Grant, Decision,
	// Confirmed.
	Reentered
	// Reclaiming: a grant lay in its channel for too long, or its request was cancelled. The shell tries to take the
	// grant back. If it succeeds, it says so with [Unclaimed]. Request.
	Reclaiming
	// Ended: a grant is over. The shell tells the owner before it does anything else. If the event has a call, its
	// answer follows when the lock has been handed off or the tenure returned. Request, Call, Tenure, Hold, End,
	// Decision, Confirmed.
	Ended
	// Unlocked: a call is answered. The shell delivers the answer. If there is a reason, the hold had been lost before.
	// Call, Err, End.
	Unlocked
	// AskBreak: a call wants to break a lock that this agent does not hold alone. The shell asks the store, and
	// answers. Call.
	AskBreak

	// Attempted: an attempt begins, for the request at the head, and in the mode of that request. The shell calls the
	// store. Request, Tenure, Traits, Ask.
	Attempted
	// FoundBusy: another tenure or program has the lock. Another attempt follows. Tenure, Busy, Retry, Decision.
	FoundBusy
	// AttemptFailed: the attempt failed, and another one follows. The request is the one at the head, if it waits and
	// no Queued has told of it. Request, Tenure, Traits, Err, Retry.
	AttemptFailed
	// AttemptRefused: the attempt failed for good. Tenure, Err.
	AttemptRefused
	// Offered: a release passed the lock to the tenure while an attempt is under way. The answer to the attempt comes
	// first. Tenure, Hold, Decision, Others.
	Offered
	// Began: the store granted the tenure, or passed the lock to it. Tenure, Traits, Hold, Decision, Confirmed, Others.
	Began
	// Forgot: no request wants the tenure any more. Tenure.
	Forgot

	// Renewing: a renewal begins. From now on the tenure has the mode that the event tells. The shell calls the store.
	// Tenure, Traits, Ask.
	Renewing
	// Renewed: the store confirmed the renewal. Tenure, Traits, End, Decision, Confirmed, Others.
	Renewed
	// RenewFailed: the renewal failed, and another one follows. The tenure goes on until its deadline. Tenure, Traits,
	// Err, Retry.
	RenewFailed
	// BecameUncertain: the holds that depend on a renewal are over soon unless one succeeds, see [State.Uncertain].
	// Tenure.
	BecameUncertain
	// Denied: the tenure is over: the store says so, or has granted the lock to another tenure. All its grants have
	// Ended before. Tenure, Traits, End, Decision.
	Denied

	// Rested: the last hold of the tenure has ended, and the tenure rests. Tenure.
	Rested
	// Returning: a release begins. The shell calls the store. Tenure, Traits, Ask.
	Returning
	// Withdrawing: as Returning, for a tenure that may have begun without the agent's knowledge, or may yet begin.
	// Tenure, Traits, Ask.
	Withdrawing
	// Returned: the store confirmed the release of a Returning tenure. The agent does not ask for the lock before the
	// next attempt is due. Tenure, Traits, End, Retry, Decision, Others.
	Returned
	// Withdrawn: the store confirmed the release of a Withdrawing tenure. Tenure.
	Withdrawn
	// ReleaseFailed: the release failed, and is made again. Tenure, Err, Retry.
	ReleaseFailed
	// Dropped: the agent gives up the release, and the lease runs out. Tenure, Err.
	Dropped
	// Disowning: the store has a ghost. The shell calls the store to release it. Tenure, Ask.
	Disowning

	// Woke: an attempt may now succeed, and is made when it is due. Tenure is the ghost in the way about which the store
	// has answered, or 0. Tenure, Retry.
	Woke
	// Contested: another agent waits for the lock that the tenure has, or may do so. Tenure, Others.
	Contested
	// Doubted: the tenure is in doubt from now on.
	Doubted
	// Quieted: nobody has waited for a while, so the state does not want wake-ups any more.
	Quieted
	// Closed: nothing is granted any more.
	Closed
	// Detached: another process goes on with the holds. The shell forgets all grants.
	Detached

	// Extended: the fixed lease of a grant has another end, or is kept from now on. The shell answers an extension when
	// the deadline of the tenure is no longer before the end. Request, Grant.
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

// Event is one change of the state. Its Kind tells what its payload is. All other fields are zero.
type Event struct {
	Kind Kind
	Traits
	Now     Instant // of the step
	Request Request // that the event is about; its ID is 0 if there is none
	Call    CallID  // that is answered, now or later; 0 if there is none
	Tenure  uint64  // the number of the tenure that the event is about, or 0
	Err     error   // what went wrong, or nil

	Wait
	Hold
	Grant
	End
	Ask
	Retry
	Busy
	Decision
	Confirmed
	Others
}

// Traits are those of the tenure.
type Traits struct {
	Mode       Mode // if it is renewed or over; before that the tenure has the mode of the request that it began for
	Rests      bool // it may rest; in an attempt: it is to be one that may
	Unanswered bool // it may begin by an attempt that arrives late, also once more
}

// Wait is how the wait of a request goes on, or ended.
type Wait struct {
	Waiters   int  // how many requests wait now, with this one; 0 if it waits no more
	TimedOut  bool // its time has passed
	Cancelled bool // its context has ended
}

// Hold is the hold that was granted or is over, or the first one of a tenure.
type Hold struct {
	Token lockagent.Token // of the hold; the first one if its owner may make several holds
	Count int             // how many grants of the lock the owner has now; 0 for a tenure
}

// Grant is what an owner got.
type Grant struct {
	How     lockagent.How // it came about; 0 for a re-entry
	Holds   uint16        // how many holds the owner may make, one after the other: they have the tokens from Token on
	ClaimBy Instant       // when the grant is reclaimed if nobody has received it
	Fixed   Instant       // when a fixed lease ends, or 0 if it is kept; an extension never moves it to an earlier instant
	Own     Instant       // before when a fixed lease does not end that another hold keeps now, or 0
}

// End is how a hold or a tenure ended. Of a renewal only Served is set.
type End struct {
	Reason   lockagent.LossReason // 0 if its owner or its agent released it
	Released bool                 // the store had the tenure until its agent released it
	Served   bool                 // the tenure has served a hold; false for a hold
	Operator string               // who broke the hold, if Reason says that it was broken
	Since    Instant              // when the hold was granted; 0 for a tenure
	// The store's clock shows no more than Until at Now. Of a tenure, Until is 0 unless an answer was lost. Then the
	// store may have ended the tenure earlier.
	Until lockagent.StoreTime
}

// Ask is what the shell has to ask the store for.
type Ask struct {
	AskedLease  time.Duration       // of an attempt or a renewal; 0 for a release
	Floor       lockagent.Token     // tenures that begin later have greater tokens; 0 for a renewal, and if none is known
	Queue       bool                // the attempt asks for a place in the store's queue
	Arrived     lockagent.StoreTime // when the tenure got its place there, by the store's first answer about it; or 0
	Contends    bool                // the attempt tells that somebody waits for a lock that wakes nobody
	FoundClosed bool                // an attempt has found the latch closed before
	Urgent      bool                // the store should not put the renewal off
}

// Retry is when the next call follows.
type Retry struct {
	RetryAt    Instant // 0 if it may be made at once
	Failures   int32   // how many attempts or renewals have failed in a row; 0 for a release
	Subscribed bool    // the subscription to the wake-ups of a latch stands
}

// Busy is what the store said to an attempt that found the lock busy.
type Busy struct {
	Holder   string        // who has the lock, in the words of the store; empty if nobody is known to have it
	Left     time.Duration // of the holder's lease; below 0 if it has no end
	Notified Instant       // since when the holder's agent knows that the lock is wanted, if the lock may rest there; or 0
	Queued   bool          // from now on a release may pass the lock to the tenure
	Set      bool          // false for a semaphore if nobody has set the number of its permits
	Ghost    uint64        // the ghost whose end requests that do not wait go on for, or 0
}

// Decision is when the store decided. Grants and their ends have the decision that confirmed the tenure last. But the
// first grant of a tenure has that which began the tenure, because the token is of that time.
type Decision struct {
	StoreTime lockagent.StoreTime
	// Again is when the store confirmed the tenure before its first grant, or 0 if no renewal was needed.
	Again       lockagent.StoreTime
	Clock       string // the store's clock that showed StoreTime; empty unless the lock is busy, or offered
	Incarnation string // of the store; empty unless a tenure begins, or a lock is offered or granted
}

// Confirmed is what the store has confirmed of the tenure, by the last call or pass.
type Confirmed struct {
	Sent     Instant // the lease counts from here: when the call was sent, or the pass at the earliest; 0 for a grant
	Lease    time.Duration
	Replicas int // how many are known to have the tenure; 0 for the end of a grant
}

// Others is who waits for the lock elsewhere.
type Others struct {
	Outsiders int  // how many waited when the tenure began, or the lock was offered; 0 later
	Wanted    bool // another agent waits, or has just been passed the lock
}
