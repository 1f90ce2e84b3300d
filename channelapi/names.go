package channelapi

import (
	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// What applications meet of package lockagent, so that they need one import only.
type (
	// Grant is the outcome of a request: a hold on a lock, or the reason why there is
	// none. Its methods are in [lockagent.Grant]. Err tells whether the lock was granted.
	// Context and Done end with the hold, and Cause tells why. Token goes with every
	// write. Held and Remaining ask the agent. Release gives the lock back, and Extend
	// has a fixed lease begin anew.
	Grant = lockagent.Grant
	// Token is the fencing number of a grant. Later grants have greater ones.
	Token = lockagent.Token
	// Name is the name of a lock.
	Name = lockagent.Name
	// Owner is who holds a lock.
	Owner = lockagent.Owner
	// Status is what is known of a lock at one moment.
	Status = lockagent.Status
	// Result is what a channel delivers that answers a question: a value or an error.
	Result[T any] = lockagent.Result[T]
)

// Errors that carry more than their text. Find them with errors.As.
type (
	// WaitError answers a request whose time ran out or whose context ended. It tells who
	// held the lock, or for how long the store has been silent.
	WaitError = lockagent.WaitError
	// HeldError answers a request that would not wait for a lock that is held.
	HeldError = lockagent.HeldError
	// LostError says how a hold was lost: the cause of the grant's context, and the
	// outcome of a release that came after that.
	LostError = lockagent.LostError
	// LossReason is the reason in a LostError.
	LossReason = lockagent.LossReason
	// NameError says why a lock cannot have a name.
	NameError = lockagent.NameError
	// OwnerError says why a session cannot have an owner.
	OwnerError = lockagent.OwnerError
	// OptionError says what is wrong with an option or a field of Config.
	OptionError = lockagent.OptionError
)

// Errors without more than their text. Test for them with errors.Is.
var (
	// ErrTimeout: time ran out before the lock was granted. It is a [*WaitError], and
	// context.DeadlineExceeded as well.
	ErrTimeout = lockagent.ErrTimeout
	// ErrHeld: the request would not wait. It is a [*HeldError].
	ErrHeld = lockagent.ErrHeld
	// ErrNotGranted: the channel had delivered its grant before, or it was taken back.
	ErrNotGranted = lockagent.ErrNotGranted
	// ErrLeaseTooShort: the fixed lease had run out before the store answered.
	ErrLeaseTooShort = lockagent.ErrLeaseTooShort
	// ErrStoreUnavailable: the store cannot be reached or is silent.
	ErrStoreUnavailable = lockagent.ErrStoreUnavailable
	// ErrWrongType: the store has something else than a lock under the name.
	ErrWrongType = lockagent.ErrWrongType
	// ErrNotPermitted: the store does not permit the call.
	ErrNotPermitted = lockagent.ErrNotPermitted
	// ErrClosed and ErrSessionClosed: the locks or the session were closed.
	ErrClosed        = lockagent.ErrClosed
	ErrSessionClosed = lockagent.ErrSessionClosed
	// ErrBadName, ErrBadOwner and ErrBadOption: a [*NameError], an [*OwnerError] or an
	// [*OptionError].
	ErrBadName   = lockagent.ErrBadName
	ErrBadOwner  = lockagent.ErrBadOwner
	ErrBadOption = lockagent.ErrBadOption
	// ErrInternal: the agent met a defect of its own. Please report it.
	ErrInternal = lockagent.ErrInternal

	// ErrReleased is the cause of a grant's context after its release.
	ErrReleased = lockagent.ErrReleased
	// ErrLost is what every [*LostError] is.
	ErrLost = lockagent.ErrLost
	// ErrNotHeld: it was released before, or never held.
	ErrNotHeld = lockagent.ErrNotHeld
	// ErrNotOwner: somebody else holds the lock that a session would release.
	ErrNotOwner = lockagent.ErrNotOwner
	// ErrUnconfirmed: the store has not confirmed the release yet. The hold is over all
	// the same.
	ErrUnconfirmed = lockagent.ErrUnconfirmed
)

// The ways to lose a hold.
const (
	// LostDeadline: the deadline passed before a renewal was confirmed.
	LostDeadline = lockagent.LostDeadline
	// LostDenied: the store says that the lock is not held any more.
	LostDenied = lockagent.LostDenied
	// LostExpired: the fixed lease ran out.
	LostExpired = lockagent.LostExpired
	// LostBroken: an operator broke the lock through this agent.
	LostBroken = lockagent.LostBroken
	// LostClosed and LostSessionClosed: the locks or the session were closed.
	LostClosed        = lockagent.LostClosed
	LostSessionClosed = lockagent.LostSessionClosed
	// LostUnclaimed: nobody received the grant in time, or nobody had it any more.
	LostUnclaimed = lockagent.LostUnclaimed
	// LostInternal: the agent met a defect of its own.
	LostInternal = lockagent.LostInternal
)

// Bounds of what can be asked for.
const (
	// MinLease and MaxLease bound the duration of [Lease].
	MinLease = lockagent.MinLease
	MaxLease = lockagent.MaxLease
	// MaxNameLen bounds the name of a lock and of an owner, in bytes.
	MaxNameLen = lockagent.MaxNameLen
)

// Defaults of [Config].
const (
	DefaultLease         = actor.DefaultLease
	DefaultClaim         = actor.DefaultClaim
	DefaultHandOffGrants = actor.DefaultHandOffGrants
	DefaultHandOffTime   = actor.DefaultHandOffTime
	DefaultIdle          = actor.DefaultIdle
)
