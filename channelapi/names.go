package channelapi

import (
	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// The types of package lockagent that applications meet. So an application needs one import.
type (
	// Grant is the outcome of a request: a hold on a lock, or the reason why there is none.
	// See [lockagent.Grant] for its methods. Err tells whether the lock was granted. Context
	// and Done end with the hold, and Cause tells why. Pass Token with every write. Held and
	// Remaining tell whether, and how long, the agent trusts the lease. Release ends the
	// hold. Extend restarts a fixed lease. Replicas tells how many replicas of the store have it.
	// PermitIDs are the ids of the permits, of a grant of [Permits].
	Grant = lockagent.Grant
	// Token is the fencing number of a hold. Later holds have greater ones, except readers who share a lock.
	Token = lockagent.Token
	// Name is the name of a lock.
	Name = lockagent.Name
	// Owner is the identity of a holder.
	Owner = lockagent.Owner
	// PermitID is the id of one permit of [Permits]: 32 lower-case hexadecimal digits, as Redisson shows it.
	PermitID = lockagent.PermitID
	// Status describes a lock at one moment.
	Status = lockagent.Status
	// Result is the answer to a question, on a channel: a value or an error.
	Result[T any] = lockagent.Result[T]

	// Store arbitrates locks between processes, for [Config].
	Store = lockagent.Store
	// Recorder takes events, for [Config].
	Recorder = lockagent.Recorder
	// AgentID is the identity of an agent, for [Config].
	AgentID = lockagent.AgentID
	// Process describes a process, for the event log.
	Process = lockagent.Process
)

// NewAgentID makes a new random identity, for [Config].
func NewAgentID() AgentID { return lockagent.NewAgentID() }

// The errors that carry details. Find them with errors.As.
type (
	// WaitError answers a request whose time ran out or whose context ended. It tells who
	// held the lock, how long the store has been silent, and whether the store waited for the holders of before.
	WaitError = lockagent.WaitError
	// HeldError answers a request with [Try] for a lock that is held.
	HeldError = lockagent.HeldError
	// GraceError answers a request with [Try], a break or a change of permits while the store waits for the holders of
	// before, because it may have forgotten them. It tells how long that may last.
	GraceError = lockagent.GraceError
	// LostError says how a hold was lost. It is the cause of the grant's context, and the
	// outcome of a later release.
	LostError = lockagent.LostError
	// LossReason is the reason in a LostError.
	LossReason = lockagent.LossReason
	// NameError says why a lock cannot have a name.
	NameError = lockagent.NameError
	// KindError says that a name is in use as two kinds at once.
	KindError = lockagent.KindError
	// ReplicasError says that too few replicas of the store acknowledged a grant, which was given back.
	ReplicasError = lockagent.ReplicasError
	// OwnerError says why an owner cannot have a session.
	OwnerError = lockagent.OwnerError
	// OptionError says what is wrong with an option or a field of Config.
	OptionError = lockagent.OptionError
)

// The errors to test for with errors.Is.
var (
	// ErrTimeout: time ran out before the lock was granted. The error is a [*WaitError], which
	// is context.DeadlineExceeded as well.
	ErrTimeout = lockagent.ErrTimeout
	// ErrHeld: somebody holds the lock, and the request has [Try]. The error is a
	// [*HeldError].
	ErrHeld = lockagent.ErrHeld
	// ErrGrace: the store waits for the holders of before, because it may have forgotten them. It answers a request with
	// [Try], a break, and a change of permits that has waited for half a minute. Nothing has changed. The error is a
	// [*GraceError], which is ErrStoreUnavailable as well.
	ErrGrace = lockagent.ErrGrace
	// ErrNotGranted: the channel delivered its grant before, or the agent took the grant back.
	ErrNotGranted = lockagent.ErrNotGranted
	// ErrLeaseTooShort: the fixed lease had run out before the store answered.
	ErrLeaseTooShort = lockagent.ErrLeaseTooShort
	// ErrStoreUnavailable: the store cannot be reached or is silent.
	ErrStoreUnavailable = lockagent.ErrStoreUnavailable
	// ErrWrongType: the store has something that is no lock under the name.
	ErrWrongType = lockagent.ErrWrongType
	// ErrTooFewReplicas: too few replicas of the store acknowledged the grant. Nobody holds the lock. The error
	// is a [*ReplicasError].
	ErrTooFewReplicas = lockagent.ErrTooFewReplicas
	// ErrDeleted: somebody deleted the semaphore that the request waited for.
	ErrDeleted = lockagent.ErrDeleted
	// ErrNoPermit: no permit with that id is taken.
	ErrNoPermit = lockagent.ErrNoPermit
	// ErrWrongKind: the name is in use as another kind. The error is a [*KindError].
	ErrWrongKind = lockagent.ErrWrongKind
	// ErrLatchSet, ErrNoLatch and ErrLatchGone: a latch was set twice, was counted down but not
	// set, or disappeared under its waiters.
	ErrLatchSet  = lockagent.ErrLatchSet
	ErrNoLatch   = lockagent.ErrNoLatch
	ErrLatchGone = lockagent.ErrLatchGone
	// ErrNotPermitted: the store does not permit the call.
	ErrNotPermitted = lockagent.ErrNotPermitted
	// ErrNoTokens: what counts the tokens in the store is at its end, or spoilt.
	ErrNoTokens = lockagent.ErrNoTokens
	// ErrClosed and ErrSessionClosed: the locks or the session were closed.
	ErrClosed        = lockagent.ErrClosed
	ErrSessionClosed = lockagent.ErrSessionClosed
	// ErrIdentityInUse: another agent that is alive has the identity of these locks, so they are closed.
	ErrIdentityInUse = lockagent.ErrIdentityInUse
	// ErrBadName, ErrBadOwner and ErrBadOption: a [*NameError], an [*OwnerError] or an
	// [*OptionError].
	ErrBadName   = lockagent.ErrBadName
	ErrBadOwner  = lockagent.ErrBadOwner
	ErrBadOption = lockagent.ErrBadOption
	// ErrInternal: the agent met a defect of its own. Please report it.
	ErrInternal = lockagent.ErrInternal

	// ErrReleased is the cause of a grant's context after its release.
	ErrReleased = lockagent.ErrReleased
	// ErrUpgrade: a session that holds the read lock asked for the write lock.
	ErrUpgrade = lockagent.ErrUpgrade

	// ErrLost matches every [*LostError].
	ErrLost = lockagent.ErrLost
	// ErrNotHeld: the grant was released before, or never held.
	ErrNotHeld = lockagent.ErrNotHeld
	// ErrReentry: the session holds the lock or waits for it already, and the request has
	// [NoReentry].
	ErrReentry = lockagent.ErrReentry
	// ErrNotOwner: a session released a lock that another owner of the same Locks holds.
	ErrNotOwner = lockagent.ErrNotOwner
	// ErrUnconfirmed: the store has not confirmed the release, or whether the hold was lost before is not known. The
	// hold is over all the same.
	ErrUnconfirmed = lockagent.ErrUnconfirmed
)

// The ways to lose a hold.
const (
	// LostDeadline: the deadline passed before the store confirmed a renewal. A client of a daemon may have given up
	// the hold some time before that, because it needs the time to stop its work.
	LostDeadline = lockagent.LostDeadline
	// LostDenied: the store says that the lock is not held any more.
	LostDenied = lockagent.LostDenied
	// LostExpired: the fixed lease ran out, or nobody renewed the time to live of a claim on a daemon.
	LostExpired = lockagent.LostExpired
	// LostBroken: an operator broke the lock.
	LostBroken = lockagent.LostBroken
	// LostClosed and LostSessionClosed: the locks or the session were closed.
	LostClosed        = lockagent.LostClosed
	LostSessionClosed = lockagent.LostSessionClosed
	// LostUnclaimed: nobody received the grant in time, or the application dropped it without
	// a release. Or the client of a daemon did not come back after a restart of the daemon.
	LostUnclaimed = lockagent.LostUnclaimed
	// LostInternal: the agent met a defect of its own.
	LostInternal = lockagent.LostInternal
	// LostIdentity: another agent that is alive has the identity of this one.
	LostIdentity = lockagent.LostIdentity
)

// Limits of leases and names.
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
