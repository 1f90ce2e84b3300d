package wire

import (
	"context"
	"errors"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// reasons has the error of each reason, and the code of a call that fails by it. An error may match several: the first
// counts.
var reasons = []struct {
	err    error
	reason lockagentv1.Reason
	code   connect.Code
}{
	{lockagent.ErrTimeout, lockagentv1.Reason_REASON_TIMEOUT, connect.CodeDeadlineExceeded},
	{context.Canceled, lockagentv1.Reason_REASON_CANCELLED, connect.CodeCanceled},
	{lockagent.ErrHeld, lockagentv1.Reason_REASON_HELD, connect.CodeFailedPrecondition},
	{lockagent.ErrGrace, lockagentv1.Reason_REASON_GRACE, connect.CodeUnavailable}, // it is ErrStoreUnavailable, too
	{lockagent.ErrLost, lockagentv1.Reason_REASON_LOST, connect.CodeAborted},
	{lockagent.ErrInternal, lockagentv1.Reason_REASON_INTERNAL, connect.CodeInternal},
	{lockagent.ErrStoreUnavailable, lockagentv1.Reason_REASON_STORE_UNAVAILABLE, connect.CodeUnavailable},
	{lockagent.ErrWrongKind, lockagentv1.Reason_REASON_WRONG_KIND, connect.CodeFailedPrecondition},
	{lockagent.ErrWrongType, lockagentv1.Reason_REASON_WRONG_TYPE, connect.CodeFailedPrecondition},
	{lockagent.ErrNotPermitted, lockagentv1.Reason_REASON_STORE_REFUSES, connect.CodeInternal},
	{lockagent.ErrNoTokens, lockagentv1.Reason_REASON_NO_TOKENS, connect.CodeFailedPrecondition},
	// ErrIdentityInUse is ErrClosed, too, so it comes first.
	{lockagent.ErrIdentityInUse, lockagentv1.Reason_REASON_IDENTITY_IN_USE, connect.CodeUnavailable},
	{lockagent.ErrClosed, lockagentv1.Reason_REASON_CLOSED, connect.CodeUnavailable},
	{lockagent.ErrReentry, lockagentv1.Reason_REASON_REENTRY, connect.CodeAlreadyExists},
	{lockagent.ErrUpgrade, lockagentv1.Reason_REASON_UPGRADE, connect.CodeFailedPrecondition},
	{lockagent.ErrTooFewReplicas, lockagentv1.Reason_REASON_TOO_FEW_REPLICAS, connect.CodeUnavailable},
	{lockagent.ErrDeleted, lockagentv1.Reason_REASON_DELETED, connect.CodeAborted},
	{lockagent.ErrNoPermit, lockagentv1.Reason_REASON_NO_PERMIT, connect.CodeNotFound},
	{lockagent.ErrBadName, lockagentv1.Reason_REASON_BAD_NAME, connect.CodeInvalidArgument},
	{lockagent.ErrBadOwner, lockagentv1.Reason_REASON_BAD_OWNER, connect.CodeInvalidArgument},
	{lockagent.ErrBadOption, lockagentv1.Reason_REASON_BAD_OPTION, connect.CodeInvalidArgument},
	{lockagent.ErrBadURL, lockagentv1.Reason_REASON_BAD_URL, connect.CodeInvalidArgument},
	{lockagent.ErrNotHeld, lockagentv1.Reason_REASON_NOT_HELD, connect.CodeFailedPrecondition},
	{lockagent.ErrNotOwner, lockagentv1.Reason_REASON_NOT_OWNER, connect.CodeFailedPrecondition},
	{lockagent.ErrUnconfirmed, lockagentv1.Reason_REASON_UNCONFIRMED, connect.CodeUnavailable},
	{lockagent.ErrLeaseTooShort, lockagentv1.Reason_REASON_LEASE_TOO_SHORT, connect.CodeFailedPrecondition},
	{lockagent.ErrSessionClosed, lockagentv1.Reason_REASON_SESSION_CLOSED, connect.CodeFailedPrecondition},
	{lockagent.ErrNotGranted, lockagentv1.Reason_REASON_NOT_GRANTED, connect.CodeAborted},
	{lockagent.ErrLatchGone, lockagentv1.Reason_REASON_LATCH_GONE, connect.CodeAborted},
	{lockagent.ErrLatchSet, lockagentv1.Reason_REASON_LATCH_SET, connect.CodeAlreadyExists},
	{lockagent.ErrNoLatch, lockagentv1.Reason_REASON_NO_LATCH, connect.CodeNotFound},
	{lockagent.ErrWithdrawn, lockagentv1.Reason_REASON_WITHDRAWN, connect.CodeAborted},
	{lockagent.ErrReleased, lockagentv1.Reason_REASON_RELEASED, connect.CodeAborted},
	{refusal.ErrNoClaim, lockagentv1.Reason_REASON_NO_CLAIM, connect.CodeNotFound},
	{refusal.ErrDraining, lockagentv1.Reason_REASON_DRAINING, connect.CodeUnavailable},
	{refusal.ErrJournal, lockagentv1.Reason_REASON_JOURNAL, connect.CodeUnavailable},
	{refusal.ErrForbidden, lockagentv1.Reason_REASON_FORBIDDEN, connect.CodePermissionDenied},
	{refusal.ErrQuota, lockagentv1.Reason_REASON_QUOTA, connect.CodeResourceExhausted},
}

// FromError is the message for an error, and the code of a call that fails by it. An error that is none of ours is a
// defect.
func FromError(err error) (*lockagentv1.Failure, connect.Code) {
	f := &lockagentv1.Failure{Reason: lockagentv1.Reason_REASON_INTERNAL, Message: Text(err.Error())}
	code := connect.CodeInternal
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			f.Reason, code = r.reason, r.code
			break
		}
	}
	describe(f, err)
	return f, code
}

// describe adds what a typed error tells.
func describe(f *lockagentv1.Failure, err error) {
	if e, ok := errors.AsType[*lockagent.WaitError](err); ok {
		f.Lock, f.Holder, f.Permits, f.Deadline = string(e.Name), Text(e.Holder), int32(e.Permits), e.TimedOut
		f.Kind, f.Waited, f.Silent = FromKind(e.Kind), FromDuration(e.Waited), FromDuration(e.Silent)
		if e.Store != nil {
			f.Store, _ = FromError(e.Store)
		}
		return // what it wraps is about its context
	}
	if e, ok := errors.AsType[*lockagent.HeldError](err); ok {
		f.Lock, f.Holder, f.Permits, f.Left = string(e.Name), Text(e.Holder), int32(e.Permits), durationpb.New(e.Left)
	}
	if e, ok := errors.AsType[*lockagent.GraceError](err); ok {
		f.Lock, f.Left = string(e.Name), durationpb.New(e.Left)
	}
	if e, ok := errors.AsType[*lockagent.LostError](err); ok {
		f.Lost = FromLost(e)
	}
	if e, ok := errors.AsType[*lockagent.KindError](err); ok {
		f.Lock, f.Kind, f.Used = string(e.Name), FromKind(e.Kind), FromKind(e.Used)
	}
	if e, ok := errors.AsType[*lockagent.ReplicasError](err); ok {
		f.Lock, f.Acknowledged, f.Wanted, f.Renewal = string(e.Name), int32(e.Acknowledged), int32(e.Wanted), e.Renewal
	}
	if e, ok := errors.AsType[*lockagent.NameError](err); ok {
		f.Text, f.Why = start(e.Name), e.Reason
	}
	if e, ok := errors.AsType[*lockagent.OwnerError](err); ok {
		f.Text, f.Why = start(e.Owner), e.Reason
	}
	if e, ok := errors.AsType[*lockagent.OptionError](err); ok {
		f.Field, f.Why = e.Option, e.Reason
	}
	if e, ok := errors.AsType[*refusal.QuotaError](err); ok {
		f.Field, f.Limit = e.What, int32(e.Limit)
	}
}

// ToError is the inverse of [FromError]. What matched the error matches its copy.
func ToError(f *lockagentv1.Failure) error {
	switch f.GetReason() {
	case lockagentv1.Reason_REASON_TIMEOUT, lockagentv1.Reason_REASON_CANCELLED:
		if f.GetWaited() != nil || f.GetLock() != "" {
			return toWaitError(f)
		}
	case lockagentv1.Reason_REASON_HELD:
		return &lockagent.HeldError{
			Name: lockagent.Name(f.GetLock()), Holder: f.GetHolder(), Left: f.GetLeft().AsDuration(),
			Permits: int(f.GetPermits()),
		}
	case lockagentv1.Reason_REASON_GRACE:
		return &lockagent.GraceError{Name: lockagent.Name(f.GetLock()), Left: f.GetLeft().AsDuration()}
	case lockagentv1.Reason_REASON_LOST:
		return ToLost(f.GetLost())
	case lockagentv1.Reason_REASON_WRONG_KIND:
		return &lockagent.KindError{Name: lockagent.Name(f.GetLock()), Kind: ToKind(f.GetKind()), Used: ToKind(f.GetUsed())}
	case lockagentv1.Reason_REASON_TOO_FEW_REPLICAS:
		return &lockagent.ReplicasError{
			Name: lockagent.Name(f.GetLock()), Acknowledged: int(f.GetAcknowledged()), Wanted: int(f.GetWanted()),
			Renewal: f.GetRenewal(),
		}
	case lockagentv1.Reason_REASON_BAD_NAME:
		return &lockagent.NameError{Name: f.GetText(), Reason: f.GetWhy()}
	case lockagentv1.Reason_REASON_BAD_OWNER:
		return &lockagent.OwnerError{Owner: f.GetText(), Reason: f.GetWhy()}
	case lockagentv1.Reason_REASON_BAD_OPTION:
		return &lockagent.OptionError{Option: f.GetField(), Reason: f.GetWhy()}
	case lockagentv1.Reason_REASON_QUOTA:
		return &refusal.QuotaError{What: f.GetField(), Limit: int(f.GetLimit())}
	}
	for _, r := range reasons {
		if r.reason == f.GetReason() {
			return told(f.GetMessage(), r.err)
		}
	}
	return told(f.GetMessage(), lockagent.ErrInternal)
}

func toWaitError(f *lockagentv1.Failure) error {
	e := &lockagent.WaitError{
		Name: lockagent.Name(f.GetLock()), Kind: ToKind(f.GetKind()), Waited: f.GetWaited().AsDuration(),
		Holder: f.GetHolder(), Silent: f.GetSilent().AsDuration(),
		Permits: int(f.GetPermits()), TimedOut: f.GetDeadline(), Err: context.Canceled,
	}
	if e.TimedOut {
		e.Err = lockagent.ErrTimeout
	}
	if f.GetStore() != nil {
		e.Store = ToError(f.GetStore())
	}
	return e
}

// message is an error of another process: its text, and the error that it matches.
type message struct {
	text string
	is   error
}

func (m *message) Error() string { return m.text }
func (m *message) Unwrap() error { return m.is }

func told(text string, is error) error {
	if text == "" || text == is.Error() {
		return is
	}
	return &message{text, is}
}

// start is the start of a text that may be huge.
func start(text string) string {
	const most = 64
	return Text(text[:min(len(text), most)])
}

// Text is a text as a message can have it. What other programs write into a store may not be UTF-8.
func Text(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// Refuse is the error of a call that fails because of err. Its detail is the message for err.
func Refuse(err error) error {
	if err == nil {
		return nil
	}
	f, code := FromError(err)
	refused := connect.NewError(code, err)
	if detail, err := connect.NewErrorDetail(f); err == nil {
		refused.AddDetail(detail)
	}
	return refused
}

// Refused is the inverse of [Refuse]. An error without a detail of ours stays as it is: nobody knows whether the daemon
// has seen the call.
func Refused(err error) error {
	refused, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	for _, d := range refused.Details() {
		if v, err := d.Value(); err == nil {
			if f, ok := v.(*lockagentv1.Failure); ok {
				return ToError(f)
			}
		}
	}
	return err
}
