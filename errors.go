package lockagent

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The errors of requests, releases and stores. Test for them with errors.Is. The typed
// errors below carry details; find them with errors.As.
var (
	// ErrNotGranted is the error of the zero [Grant].
	ErrNotGranted = errors.New("lockagent: not granted: the channel's grant was received before, or was taken back " +
		"because nobody received it in time")

	// ErrHeld answers a request that does not wait (a try) if somebody else holds the
	// lock. The error is a [*HeldError].
	ErrHeld = errors.New("lockagent: lock is held")

	// ErrGrace answers a request that does not wait (a try), or a break, while the store waits for the holders of
	// before, because it may have forgotten them. It also answers a change of permits, which then has changed nothing. The
	// error is a [*GraceError]. It is [ErrStoreUnavailable] as well.
	ErrGrace = errors.New("lockagent: the store waits for the holders of before")

	// ErrTimeout answers a request whose wait passed, or whose context reached its
	// deadline, before the lock was granted. The error is a [*WaitError], which is
	// [context.DeadlineExceeded] as well.
	ErrTimeout = errors.New("lockagent: wait for the lock timed out")

	// ErrClosed is returned by every use of an agent or a store that is closed. It also
	// answers the requests that wait when the agent is closed.
	ErrClosed = errors.New("lockagent: closed")

	// ErrIdentityInUse is returned by every use of an agent whose identity another agent has that is alive and came
	// first. It also answers the requests that wait. It is [ErrClosed] as well: the agent has ended.
	ErrIdentityInUse error = identityInUse{}

	// ErrSessionClosed is returned by every use of a session that is closed. It also
	// answers the requests of the session that wait when it is closed.
	ErrSessionClosed = errors.New("lockagent: session is closed; open another")

	// ErrReleased is the cause of a hold's context after its owner released it.
	ErrReleased = errors.New("lockagent: released")

	// ErrNotHeld is returned by the release of a grant that was released before, or was
	// never held.
	ErrNotHeld = errors.New("lockagent: not held: the grant was released before or never held")

	// ErrNotOwner is returned by a session's release of a lock that another owner of this agent
	// holds.
	ErrNotOwner = errors.New("lockagent: not the owner of the lock; release it through the session or the grant that " +
		"holds it, or break it")

	// ErrUpgrade answers a request for a write lock by a session that holds the read lock only. The
	// session would wait for itself.
	ErrUpgrade = errors.New("lockagent: the session holds the read lock, which cannot become a write lock; release " +
		"it first")

	// ErrReentry answers a request that must not be a re-entry, if its session holds the lock or waits
	// for it already.
	ErrReentry = errors.New("lockagent: the session holds the lock or waits for it already, and the request must not " +
		"be a re-entry")

	// ErrLost matches every [*LostError].
	ErrLost = errors.New("lockagent: lost")

	// ErrUnconfirmed is returned by a release that the store has not confirmed. The hold
	// is over for its owner. The agent repeats the release until the lease has run out. Then
	// the lock is free at the latest. ErrUnconfirmed is also returned if the release waited for a renewal until the
	// deadline, and the store then had no such tenure: whether the hold was lost before is not known.
	ErrUnconfirmed = errors.New("lockagent: release not confirmed by the store; the lock is free at the latest " +
		"when its lease has run out")

	// ErrLeaseTooShort answers a request whose fixed lease had run out before the store's
	// answer arrived.
	ErrLeaseTooShort = errors.New("lockagent: the lease ran out before the store had answered; ask for a longer one")

	// ErrInternal answers the requests that were under way when the agent met a defect of
	// its own. The lock recovers. Please report the defect.
	ErrInternal = errors.New("lockagent: internal error")

	// ErrStoreUnavailable is returned when the store could not be reached, or did not
	// answer in time. The call may have taken effect all the same.
	ErrStoreUnavailable = errors.New("lockagent: store unavailable")

	// ErrWrongType is returned when the store has something that is no lock under the
	// name of the lock.
	ErrWrongType = errors.New("lockagent: the key is used for something else than a lock; choose another name or " +
		"remove the key")

	// ErrWrongKind matches every [*KindError].
	ErrWrongKind = errors.New("lockagent: the name is in use as another kind")

	// ErrDeleted answers the requests that wait for a semaphore which was deleted meanwhile.
	ErrDeleted = errors.New("lockagent: deleted while requests waited for it; set its number and ask again")

	// ErrNoPermit is returned by the release or the extension of a permit by its id, if no such
	// permit is taken.
	ErrNoPermit = errors.New("lockagent: no such permit is taken: it was released, or its lease is over")

	// ErrLatchGone answers the waiters of a latch that is gone. As far as the store knows, nobody counted
	// it down: somebody deleted it, it expired, or the store lost its data.
	ErrLatchGone = errors.New("lockagent: the latch is gone, and was not counted down to 0")

	// ErrLatchSet is returned when a latch is set that is set already.
	ErrLatchSet = errors.New("lockagent: the latch is set already; delete it first, or count it down")

	// ErrNoLatch is returned when a latch is counted down that nobody has set, or that is open
	// already.
	ErrNoLatch = errors.New("lockagent: there is no latch to count down: nobody has set it, or it is open already")

	// ErrNotPermitted is returned when the store does not permit the call.
	ErrNotPermitted = errors.New("lockagent: not permitted by the store; check the user, its password and its access " +
		"rules")

	// ErrNoTokens is returned when the store cannot begin a tenure with a greater token than before: what
	// counts the tokens is at its end, or somebody has spoilt it. That stays so until an operator sets it right.
	ErrNoTokens = errors.New("lockagent: no tokens are left: what counts them in the store is at its end, or spoilt; " +
		"an operator has to set it right")

	// ErrTooFewReplicas matches every [*ReplicasError].
	ErrTooFewReplicas = errors.New("lockagent: too few replicas have acknowledged it")

	// ErrWithdrawn is returned by [Store.Acquire] for a tenure that was released
	// before. Applications never see it.
	ErrWithdrawn = errors.New("lockagent: tenure was withdrawn")

	// ErrBadURL is returned for a store address that cannot be understood.
	ErrBadURL = errors.New("lockagent: bad store URL")

	// ErrBadName, ErrBadOwner and ErrBadOption match every [*NameError], [*OwnerError] and
	// [*OptionError].
	ErrBadName   = errors.New("lockagent: bad name")
	ErrBadOwner  = errors.New("lockagent: bad owner")
	ErrBadOption = errors.New("lockagent: bad option")
)

// identityInUse is the type of [ErrIdentityInUse].
type identityInUse struct{}

func (identityInUse) Error() string {
	return "lockagent: another agent that is alive has the identity of this one, so this one has ended; " +
		"give each agent an identity of its own: leave Config.ID out, and copy no state of a daemon"
}

// Is reports whether target is [ErrClosed].
func (identityInUse) Is(target error) bool { return target == ErrClosed }

// Definite reports whether it is of no use to repeat a call to a [Store] that returned err. [Store] lists these
// errors, and says whether the call took effect.
func Definite(err error) bool {
	for _, definite := range []error{
		ErrWrongType, ErrWrongKind, ErrDeleted, ErrLatchGone, ErrNotPermitted, ErrNoTokens, ErrWithdrawn, ErrBadName,
		ErrBadOption, ErrTooFewReplicas, ErrClosed,
	} {
		if errors.Is(err, definite) {
			return true
		}
	}
	return false
}

// CauseOf is the error of a call that ended because ctx did. It wraps the cause of ctx, and is ctx.Err() as well:
// [context.Canceled] or [context.DeadlineExceeded]. Its text is that of the cause. CauseOf is nil while ctx has not
// ended.
func CauseOf(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return &contextError{cause: cause, ended: err}
}

// contextError is the cause of a context that says in other words why it ended.
type contextError struct{ cause, ended error }

func (e *contextError) Error() string   { return e.cause.Error() }
func (e *contextError) Unwrap() []error { return []error{e.cause, e.ended} }

// LossReason says how a hold was lost.
type LossReason uint8

// The ways to lose a hold.
const (
	_ LossReason = iota
	// LostDeadline: the deadline passed before the store confirmed a renewal. A client of a daemon may have given up
	// the hold some time before that, because it needs the time to stop its work.
	LostDeadline
	// LostDenied: the store answered that the tenure is over. Somebody deleted the lock, the
	// store forgot it, or the message about a break did not arrive.
	LostDenied
	// LostExpired: the fixed lease ran out, or nobody renewed the time to live of a claim on a daemon.
	LostExpired
	// LostBroken: an operator broke the lock, through this agent or another.
	LostBroken
	// LostClosed: the agent was closed, or the locks of a program that has them by a daemon.
	LostClosed
	// LostSessionClosed: the session was closed.
	LostSessionClosed
	// LostUnclaimed: nobody received the grant in time, or the application dropped it
	// without a release. Or the client of a daemon did not come back after a restart of the daemon.
	LostUnclaimed
	// LostInternal: the agent met a defect of its own.
	LostInternal
	// LostIdentity: another agent that is alive has the identity of this one, see [ErrIdentityInUse].
	LostIdentity

	// LostUnknown: the log has a reason that this version does not know.
	LostUnknown LossReason = 255
)

var lossNames = [...]string{
	LostDeadline:      "deadline",
	LostDenied:        "denied",
	LostExpired:       "expired",
	LostBroken:        "broken",
	LostClosed:        "closed",
	LostSessionClosed: "sessionclosed",
	LostUnclaimed:     "unclaimed",
	LostInternal:      "internal",
	LostIdentity:      "identity",
}

// String is the reason as one lower-case word, or empty for none.
func (r LossReason) String() string {
	if int(r) >= len(lossNames) {
		return "unknown"
	}
	return lossNames[r]
}

// ParseLossReason is the inverse of [LossReason.String]. It reports false for a
// word that names no reason.
func ParseLossReason(s string) (LossReason, bool) {
	for r, name := range lossNames {
		if name == s {
			return LossReason(r), true
		}
	}
	return 0, false
}

var lossTexts = [...]string{
	0:                 "for no known reason",
	LostDeadline:      "its deadline passed before the store confirmed a renewal",
	LostDenied:        "the store says it is not held any more",
	LostExpired:       "its lease ran out",
	LostBroken:        "an operator broke it",
	LostClosed:        "the agent was closed",
	LostSessionClosed: "the session was closed",
	LostUnclaimed:     "nobody received the grant in time, or nobody had it any more",
	LostInternal:      "of an internal error",
	LostIdentity:      "another agent that is alive has the identity of this one",
}

// LostError says that a hold ended against the will of its owner. It is the cause of the
// hold's context, and the outcome of a later release.
type LostError struct {
	Name   Name
	Owner  Owner
	Token  Token
	Reason LossReason
	// Operator is who broke the lock, if Reason is [LostBroken] and it is known.
	Operator string
}

func (e *LostError) Error() string {
	text := lossTexts[0]
	if int(e.Reason) < len(lossTexts) {
		text = lossTexts[e.Reason]
	}
	if e.Operator != "" {
		text += fmt.Sprintf(": %q", e.Operator)
	}
	return fmt.Sprintf("lockagent: lost %q (token %d): %s", e.Name, e.Token, text)
}

// Is reports whether target is [ErrLost].
func (e *LostError) Is(target error) bool { return target == ErrLost }

// HeldError answers a request that does not wait (a try) for a lock that is held. The Holder is empty
// if the store keeps a lock that is free for other waiters, such as Redisson's, for some milliseconds.
type HeldError struct {
	Name    Name
	Holder  string        // an [Owner] of this agent, or what the store knows
	Left    time.Duration // what is left of the holder's lease; negative if unknown or without end
	Permits int           // how many permits of a semaphore the request wanted; 0 for a lock
}

func (e *HeldError) Error() string {
	switch free, total, known := freePermits(e.Holder); {
	case e.Permits > 0 && e.Holder == PermitsNotSet:
		return fmt.Sprintf("lockagent: nobody has set the number of permits of %q; set it with TrySetPermits", e.Name)
	case e.Permits > 0 && known && free >= e.Permits:
		return fmt.Sprintf("lockagent: the permits of %q that are free are for requests that came earlier", e.Name)
	case e.Permits > 0 && known:
		return fmt.Sprintf(
			"lockagent: too few permits of %q are free: %d of %d, and %d were wanted", e.Name, free, total, e.Permits,
		)
	case e.Holder == "":
		return fmt.Sprintf("lockagent: lock %q is kept for other waiters for a moment", e.Name)
	}
	return fmt.Sprintf("lockagent: lock %q is held by %q", e.Name, e.Holder)
}

// Is reports whether target is [ErrHeld].
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// KindError says that a name is in use as two kinds at once. Nothing was changed.
type KindError struct {
	Name Name
	Kind LockKind // of the request

	// Used is as which the name is in use. If the holder shows no kind, see [LockKind], Used is plain in place of
	// another kind.
	Used LockKind
}

func (e *KindError) Error() string {
	return fmt.Sprintf("lockagent: %q cannot be used as %s: it is in use as %s; choose another name for one of "+
		"them", e.Name, e.Kind, e.Used)
}

// Is reports whether target is [ErrWrongKind].
func (e *KindError) Is(target error) bool { return target == ErrWrongKind }

// NameError says why a lock cannot have a name.
type NameError struct {
	Name   string
	Reason string
}

func (e *NameError) Error() string { return badString("name", e.Name, e.Reason) }

// Is reports whether target is [ErrBadName].
func (e *NameError) Is(target error) bool { return target == ErrBadName }

// OwnerError says why a text cannot be an owner, or why the owner cannot have a session.
type OwnerError struct {
	Owner  string
	Reason string
}

func (e *OwnerError) Error() string { return badString("owner", e.Owner, e.Reason) }

// Is reports whether target is [ErrBadOwner].
func (e *OwnerError) Is(target error) bool { return target == ErrBadOwner }

// OptionError says what is wrong with an option or a configuration field.
type OptionError struct {
	Option string
	Reason string
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("lockagent: bad %s: %s", e.Option, e.Reason)
}

// Is reports whether target is [ErrBadOption].
func (e *OptionError) Is(target error) bool { return target == ErrBadOption }

// badString quotes at most the first bytes of a text that may be huge.
func badString(what, text, reason string) string {
	const most = 64
	if len(text) > most {
		text = text[:most] + "..."
	}
	return fmt.Sprintf("lockagent: bad %s %q: %s", what, text, reason)
}
