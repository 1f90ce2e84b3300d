package lockagent

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Limits of permits.
const (
	// MaxPermits bounds the number of permits of a semaphore: those that are free and those that are known to
	// be taken. It is the greatest int of Java. The number of free permits is never less than -MaxPermits.
	MaxPermits = 1<<31 - 1

	// MaxTaken bounds the permits of one tenure of a semaphore of the kind [Permits]. Each has an
	// id in the store, and a script must not take long.
	MaxTaken = 1000
)

// PermitID is the id of one permit of a semaphore of the kind [Permits]: 32 lower-case
// hexadecimal digits, as Redisson shows it.
type PermitID string

// PermitID is the id of the k-th permit of a tenure, counted from 1. It is made of nothing but the
// tenure and k. So whoever knows the tenure knows the ids.
func (t Tenure) PermitID(k int) PermitID {
	sum := sha1.Sum([]byte(t.String() + "/" + strconv.Itoa(k)))
	return PermitID(hex.EncodeToString(sum[:16]))
}

// PermitIDs are the ids of the permits of a grant, if it is one of the kind [Permits]. They are
// valid as long as the grant is held.
func (g Grant) PermitIDs() []PermitID {
	if told, ok := g.hold.(interface{ PermitIDs() []PermitID }); ok {
		return slices.Clone(told.PermitIDs())
	}
	taker, ok := g.hold.(interface{ Taken() (Tenure, int) })
	if !ok {
		return nil
	}
	tenure, n := taker.Taken()
	ids := make([]PermitID, n)
	for i := range ids {
		ids[i] = tenure.PermitID(i + 1)
	}
	return ids
}

// PermitsNotSet is in [HeldError] and [WaitError] in place of a holder if nobody has set the semaphore.
const PermitsNotSet = "nobody (the number of permits is not set)"

// freePermits is how many permits are free, and of how many, as a store says that in place of a holder.
func freePermits(holder string) (free, total int, known bool) {
	_, err := fmt.Sscanf(holder, "others (%d of %d permits free)", &free, &total)
	return free, total, err == nil
}

// PermitsOp is what a [PermitsRequest] asks for.
type PermitsOp string

// The operations on a semaphore. They concern no tenure. Each needs Name, Kind and Change, and sets the
// numbers of the reply. The comments name the other fields that an operation needs or sets.
const (
	// ReadPermits changes nothing. It needs no Change.
	ReadPermits PermitsOp = "read"
	// TrySetPermits sets the number of free permits to N, unless the semaphore exists. Done: it
	// did not exist.
	TrySetPermits PermitsOp = "tryset"
	// SetPermits sets the number of all permits to N: those that are free and those that are
	// taken. If more are taken, the number of free ones is negative until enough are released.
	// Only of the kind [Permits]. Done.
	SetPermits PermitsOp = "set"
	// AddPermits adds N free permits, or removes some if N is negative. The number of free
	// permits may become negative. Done. It is an [*OptionError] if there would be more than
	// MaxPermits, or fewer than -MaxPermits.
	AddPermits PermitsOp = "add"
	// DrainPermits removes all permits that are free. N: how many they were. Done: there were
	// some. Only of the kind [Semaphore].
	DrainPermits PermitsOp = "drain"
	// ReleasePermit gives back the permit ID, whoever took it. Done: it was taken. Only of the
	// kind [Permits].
	ReleasePermit PermitsOp = "release"
	// ExtendPermit starts the lease of the permit ID anew, whoever took it. The lease never ends
	// earlier by that, because nobody would tell the holder. A permit that another program took
	// without a lease gets one. Done: it was taken. Only of the kind [Permits].
	ExtendPermit PermitsOp = "extend"
	// DeletePermits deletes the semaphore. Done: it existed. All tenures are over, and all waiters are woken.
	DeletePermits PermitsOp = "delete"
)

// PermitsRequest reads or changes the permits of a semaphore.
type PermitsRequest struct {
	Name Name
	Kind LockKind // Semaphore or Permits
	Op   PermitsOp

	// Change names the change. A call that is repeated within a minute under the same Change has
	// no further effect, and the same reply, whose At may be later. It is made as an AgentID is: see [NewAgentID].
	Change string

	N     int
	ID    PermitID
	Lease time.Duration // between MinLease and MaxLease
}

// PermitsReply answers a [PermitsRequest].
type PermitsReply struct {
	// Done says whether there was something to do: see the operations.
	Done bool
	// N is the number of an operation that has one.
	N int

	// These are the numbers after the operation. Exists is false if nobody has set the number of
	// permits, or the semaphore was deleted. Free may be negative.
	Exists bool
	Free   int
	// Taken is the number of permits that are taken. Of the kind [Semaphore] these are the permits
	// of tenures alone, because the store does not know of others.
	Taken int
	// At is when the store decided. Tenures to which permits were passed on begin then or later.
	At StoreTime
}

// Check returns a [*NameError] or an [*OptionError] if the request is out of its bounds.
func (r PermitsRequest) Check() error {
	if _, err := ParseName(string(r.Name)); err != nil {
		return err
	}
	if r.Kind != Semaphore && r.Kind != Permits {
		reason := fmt.Sprintf("%.64q has no permits; use %q or %q", r.Kind, Semaphore, Permits)
		return &OptionError{Option: "kind", Reason: reason}
	}
	least := 0
	switch r.Op {
	case ReadPermits:
		return nil
	case AddPermits:
		least = -MaxPermits
	case TrySetPermits, DeletePermits:
	case DrainPermits:
		if r.Kind != Semaphore {
			return r.wrongKind()
		}
	case SetPermits, ReleasePermit, ExtendPermit:
		if r.Kind != Permits {
			return r.wrongKind()
		}
	default:
		return &OptionError{Option: "op", Reason: fmt.Sprintf("%.64q is no operation on permits", r.Op)}
	}
	if r.N < least || r.N > MaxPermits {
		reason := fmt.Sprintf("%d is not between %d and %d", r.N, least, MaxPermits)
		return &OptionError{Option: "number of permits", Reason: reason}
	}
	if _, err := ParseAgentID(r.Change); err != nil {
		reason := fmt.Sprintf("%.64q is not 1 to 64 ASCII letters, digits, '-' or '_'; make one with NewAgentID", r.Change)
		return &OptionError{Option: "change", Reason: reason}
	}
	if r.Op == ReleasePermit || r.Op == ExtendPermit {
		if _, err := ParsePermitID(string(r.ID)); err != nil {
			return err
		}
	}
	if r.Op == ExtendPermit {
		return CheckLease(r.Lease)
	}
	return nil
}

func (r PermitsRequest) wrongKind() error {
	return &OptionError{Option: "kind", Reason: fmt.Sprintf("the kind %q has no operation %q", r.Kind, r.Op)}
}

// ParsePermitID checks s and returns it as a [PermitID]. It returns an [*OptionError] unless s has
// 32 lower-case hexadecimal digits.
func ParsePermitID(s string) (PermitID, error) {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != 16 || hex.EncodeToString(raw) != s {
		reason := fmt.Sprintf("%.64q is no id of a permit, which has 32 lower-case hexadecimal digits", s)
		return "", &OptionError{Option: "permit", Reason: reason}
	}
	return PermitID(s), nil
}

// CheckPermits returns an [*OptionError] unless a tenure of that kind can have n permits. 0 is 1.
func CheckPermits(kind LockKind, n int) error {
	most := 1
	switch kind {
	case Semaphore:
		most = MaxPermits
	case Permits:
		most = MaxTaken
	}
	if n < 0 || n > most {
		const format = "%d is not between 1 and %d, the most that a request of the kind %q can be for"
		return &OptionError{Option: "number of permits", Reason: fmt.Sprintf(format, n, most, kind.OrPlain())}
	}
	return nil
}
