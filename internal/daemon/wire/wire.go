// Package wire turns the values of the lock manager into messages of the daemon's API, and messages into values. The
// daemon and its clients share it. So an error that the daemon tells is the same error for its client.
package wire

import (
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// pair is a value and the message that stands for it.
type pair[V, M comparable] struct {
	value   V
	message M
}

// pairs translates both ways. The zero message stands for what is not listed.
type pairs[V, M comparable] []pair[V, M]

func (p pairs[V, M]) toMessage(v V) (none M) {
	for _, x := range p {
		if x.value == v {
			return x.message
		}
	}
	return none
}

func (p pairs[V, M]) toValue(m M, none V) V {
	for _, x := range p {
		if x.message == m {
			return x.value
		}
	}
	return none
}

var kinds = pairs[lockagent.LockKind, lockagentv1.Kind]{
	{lockagent.PlainLock, lockagentv1.Kind_KIND_PLAIN},
	{"", lockagentv1.Kind_KIND_UNSPECIFIED},
	{lockagent.FairLock, lockagentv1.Kind_KIND_FAIR},
	{lockagent.ReadWriteLock, lockagentv1.Kind_KIND_READ_WRITE},
	{lockagent.FencedLock, lockagentv1.Kind_KIND_FENCED},
	{lockagent.SpinLock, lockagentv1.Kind_KIND_SPIN},
	{lockagent.Semaphore, lockagentv1.Kind_KIND_SEMAPHORE},
	{lockagent.Permits, lockagentv1.Kind_KIND_PERMITS},
	{lockagent.Latch, lockagentv1.Kind_KIND_LATCH},
}

// unknown stands for a kind or a mode that this version does not know. Package lockagent refuses it.
const unknown = "unknown"

// FromKind is the message for a kind.
func FromKind(k lockagent.LockKind) lockagentv1.Kind { return kinds.toMessage(k) }

// ToKind is the inverse of [FromKind].
func ToKind(k lockagentv1.Kind) lockagent.LockKind { return kinds.toValue(k, unknown) }

var modes = pairs[lockagent.Mode, lockagentv1.Mode]{
	{lockagent.Exclusive, lockagentv1.Mode_MODE_EXCLUSIVE},
	{"", lockagentv1.Mode_MODE_UNSPECIFIED},
	{lockagent.Shared, lockagentv1.Mode_MODE_SHARED},
}

// FromMode is the message for a mode.
func FromMode(m lockagent.Mode) lockagentv1.Mode { return modes.toMessage(m) }

// ToMode is the inverse of [FromMode].
func ToMode(m lockagentv1.Mode) lockagent.Mode { return modes.toValue(m, unknown) }

var losses = pairs[lockagent.LossReason, lockagentv1.LossReason]{
	{lockagent.LostDeadline, lockagentv1.LossReason_LOSS_REASON_DEADLINE},
	{lockagent.LostDenied, lockagentv1.LossReason_LOSS_REASON_DENIED},
	{lockagent.LostExpired, lockagentv1.LossReason_LOSS_REASON_EXPIRED},
	{lockagent.LostBroken, lockagentv1.LossReason_LOSS_REASON_BROKEN},
	{lockagent.LostClosed, lockagentv1.LossReason_LOSS_REASON_CLOSED},
	{lockagent.LostSessionClosed, lockagentv1.LossReason_LOSS_REASON_SESSION_CLOSED},
	{lockagent.LostUnclaimed, lockagentv1.LossReason_LOSS_REASON_UNCLAIMED},
	{lockagent.LostInternal, lockagentv1.LossReason_LOSS_REASON_INTERNAL},
	{lockagent.LostIdentity, lockagentv1.LossReason_LOSS_REASON_IDENTITY},
}

// FromLost is the message for a loss.
func FromLost(e *lockagent.LostError) *lockagentv1.Lost {
	return &lockagentv1.Lost{
		Reason: losses.toMessage(e.Reason), Operator: e.Operator, Message: e.Error(), Token: uint64(e.Token),
		Lock: string(e.Name),
	}
}

// ToLost is the inverse of [FromLost]. The owner is not told: the client knows it.
func ToLost(m *lockagentv1.Lost) *lockagent.LostError {
	return &lockagent.LostError{
		Name: lockagent.Name(m.GetLock()), Token: lockagent.Token(m.GetToken()),
		Reason: losses.toValue(m.GetReason(), lockagent.LostUnknown), Operator: m.GetOperator(),
	}
}

// FromGivenUp is the message for a hold that its client gives up for a cause: why it counts as lost, if cause is a
// [*lockagent.LostError].
func FromGivenUp(cause error) lockagentv1.LossReason {
	if lost, ok := errors.AsType[*lockagent.LostError](cause); ok {
		return losses.toMessage(lost.Reason)
	}
	return lockagentv1.LossReason_LOSS_REASON_UNSPECIFIED
}

// ToGivenUp is the inverse of [FromGivenUp]: 0 for a hold that is released. A client knows nothing of other losses
// than those of its own.
func ToGivenUp(m lockagentv1.LossReason) lockagent.LossReason {
	switch why := losses.toValue(m, 0); why {
	case lockagent.LostDeadline, lockagent.LostExpired, lockagent.LostUnclaimed, lockagent.LostSessionClosed,
		lockagent.LostClosed:
		return why
	}
	return 0
}

// FromDuration is the message for a duration, or nil for 0.
func FromDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// ToDuration is the inverse of [FromDuration]. It reports an [*lockagent.OptionError] if the message is out of bounds.
func ToDuration(field string, m *durationpb.Duration) (time.Duration, error) {
	if m == nil {
		return 0, nil
	}
	if err := m.CheckValid(); err != nil {
		return 0, &lockagent.OptionError{Option: field, Reason: err.Error()}
	}
	return m.AsDuration(), nil
}
