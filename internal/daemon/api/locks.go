package api

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// locks is the LockService.
type locks struct {
	Config
	links links
}

var _ lockagentv1connect.LockServiceHandler = (*locks)(nil)

// Acquire implements [lockagentv1connect.LockServiceHandler].
func (l *locks) Acquire(
	ctx context.Context, req *lockagentv1.AcquireRequest, out *connect.ServerStream[lockagentv1.ClaimEvent],
) error {
	asked, err := l.request(ctx, req)
	if err != nil {
		return wire.Refuse(err)
	}
	stream, err := l.Book.Acquire(asked)
	if err != nil {
		return wire.Refuse(l.Access.Refused(ctx, err))
	}
	if req.GetWarn() {
		stream.Warn()
	}
	return tell(ctx, stream, out)
}

// request is the request to the claims that a message stands for.
func (l *locks) request(ctx context.Context, req *lockagentv1.AcquireRequest) (r claims.Request, err error) {
	if r.Client, err = l.client(ctx); err != nil {
		return r, err
	}
	r.Name = lockagent.Name(req.GetName())
	if err = l.Access.Acquire(ctx, r.Name); err != nil {
		return r, err
	}
	r.Trace = l.traceOf(ctx, req)
	r.Kind, r.Mode, r.Permits = wire.ToKind(req.GetKind()), wire.ToMode(req.GetMode()), int(req.GetPermits())
	r.Try, r.Detach, r.ForPID = req.GetTry(), req.GetDetach(), int(req.GetForPid())
	r.Session, r.NoReentry = req.GetSession(), req.GetNoReentry()
	if program := req.GetProgram(); program != "" {
		r.Client.Program = program
	}
	if r.Labels = req.GetLabels(); !l.NoCommands {
		r.Command = req.GetCommand()
	}
	r.Outlive, r.Secret, r.Holds = req.GetOutlive(), req.GetSecret(), int(req.GetHolds())
	r.NoRest = req.GetNoRest()
	var errs [3]error
	r.Wait, errs[0] = wire.ToDuration("wait", req.GetWait())
	r.Lease, errs[1] = wire.ToDuration("lease", req.GetLease())
	r.TTL, errs[2] = wire.ToDuration("ttl", req.GetTtl())
	if req.GetWait() != nil && r.Wait == 0 {
		errs[0] = &lockagent.OptionError{Option: "wait", Reason: "0 is no time to wait; use try to ask once"}
	}
	return r, errors.Join(errs[:]...)
}

// Attach implements [lockagentv1connect.LockServiceHandler].
func (l *locks) Attach(
	ctx context.Context, req *lockagentv1.AttachRequest, out *connect.ServerStream[lockagentv1.ClaimEvent],
) error {
	client, err := l.client(ctx)
	if err != nil {
		return wire.Refuse(err)
	}
	if err := l.use(ctx, req); err != nil {
		return wire.Refuse(err)
	}
	stream, err := l.Book.Attach(client, req.GetClaim(), req.GetSecret(), nil)
	if err != nil {
		return wire.Refuse(l.Access.Refused(ctx, err))
	}
	if req.GetWarn() {
		stream.Warn()
	}
	return tell(ctx, stream, out)
}

// use returns an error if the client may not use the secret of a claim: whoever has seen it is not its owner by that.
func (l *locks) use(ctx context.Context, of interface {
	GetClaim() string
	GetSecret() string
},
) error {
	owner, name, ok := l.Book.Whose(of.GetClaim(), of.GetSecret())
	if !ok {
		return nil // the book says what is wrong
	}
	return l.Access.Use(ctx, owner, name)
}

// tell tells the client what becomes of its claim, until one of them ends. The claim ends with the stream.
func tell(ctx context.Context, stream *claims.Stream, out *connect.ServerStream[lockagentv1.ClaimEvent]) error {
	defer stream.Close()
	for {
		e, err := stream.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return wire.Refuse(err)
		}
		if err := out.Send(alone(stream, e)); err != nil {
			return err
		}
	}
}

// alone is the message for an event on a stream that is that of one claim. A client that attaches may know nothing but
// the secret.
func alone(stream *claims.Stream, e claims.Event) *lockagentv1.ClaimEvent {
	m := message(e)
	if g := m.GetGranted(); g != nil {
		g.Lock = wire.Text(string(stream.Name()))
	}
	return m
}

// message is the message for an event.
func message(e claims.Event) *lockagentv1.ClaimEvent {
	switch e := e.(type) {
	case claims.Queued:
		return &lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Queued{Queued: &lockagentv1.Queued{
			Claim: e.Claim, Secret: e.Secret, Ahead: int32(e.Ahead), Holder: wire.Text(e.Holder),
		}}}
	case claims.Granted:
		g := &lockagentv1.Granted{
			Claim: e.Claim, Secret: e.Secret, Token: uint64(e.Grant.Token()), Deadline: deadline(e.Deadline),
			Count: int32(e.Grant.HoldCount()), Waited: wire.FromDuration(e.Waited), Replicas: int32(e.Grant.Replicas()),
			Holds: int32(e.Holds),
		}
		if e.Kind == lockagent.Permits {
			for _, id := range e.Grant.PermitIDs() {
				g.PermitIds = append(g.PermitIds, string(id))
			}
		}
		return &lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Granted{Granted: g}}
	case claims.Renewed:
		return &lockagentv1.ClaimEvent{
			Event: &lockagentv1.ClaimEvent_Renewed{Renewed: &lockagentv1.Renewed{Deadline: deadline(e.Deadline)}},
		}
	case claims.Uncertain:
		return &lockagentv1.ClaimEvent{
			Event: &lockagentv1.ClaimEvent_Uncertain{
				Uncertain: &lockagentv1.Uncertain{Reason: wire.Text(e.Err.Error())},
			},
		}
	case claims.Warning:
		return &lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Warning{
			Warning: &lockagentv1.Warning{Wanted: e.Wanted, Uncertain: e.Uncertain},
		}}
	case claims.Draining:
		return &lockagentv1.ClaimEvent{
			Event: &lockagentv1.ClaimEvent_Draining{Draining: &lockagentv1.Draining{Left: wire.FromDuration(e.Left)}},
		}
	}
	return &lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Ended{Ended: ended(e.(claims.Ended).Cause)}}
}

// ended says how a claim ended.
func ended(cause error) *lockagentv1.Ended {
	if cause == nil {
		return &lockagentv1.Ended{How: &lockagentv1.Ended_Released{Released: &lockagentv1.Released{}}}
	}
	if lost, ok := errors.AsType[*lockagent.LostError](cause); ok {
		return &lockagentv1.Ended{How: &lockagentv1.Ended_Lost{Lost: wire.FromLost(lost)}}
	}
	failure, _ := wire.FromError(cause)
	return &lockagentv1.Ended{How: &lockagentv1.Ended_Denied{Denied: failure}}
}

// deadline is the message for a deadline, or nil for none.
func deadline(at claims.Deadline) *lockagentv1.Deadline {
	if at == 0 {
		return nil
	}
	return &lockagentv1.Deadline{Boottime: int64(at), BootId: bootclock.Clock()}
}

// Release implements [lockagentv1connect.LockServiceHandler].
func (l *locks) Release(ctx context.Context, req *lockagentv1.ReleaseRequest) (*lockagentv1.ReleaseResponse, error) {
	if err := l.use(ctx, req); err != nil {
		return nil, wire.Refuse(err)
	}
	if req.GetKeep() != nil {
		return l.keep(req)
	}
	ended, err := l.Book.Release(ctx, req.GetClaim(), req.GetSecret(), wire.ToGivenUp(req.GetLost()))
	if err != nil {
		return nil, wire.Refuse(err)
	}
	return &lockagentv1.ReleaseResponse{Ended: ended}, nil
}

// Renew implements [lockagentv1connect.LockServiceHandler].
func (l *locks) Renew(ctx context.Context, req *lockagentv1.RenewRequest) (*lockagentv1.RenewResponse, error) {
	ttl, err1 := wire.ToDuration("ttl", req.GetTtl())
	lease, err2 := wire.ToDuration("lease", req.GetLease())
	if err := errors.Join(err1, err2); err != nil {
		return nil, wire.Refuse(err)
	}
	if err := l.use(ctx, req); err != nil {
		return nil, wire.Refuse(err)
	}
	r, err := l.Book.Renew(ctx, req.GetClaim(), req.GetSecret(), ttl, lease)
	if err != nil {
		return nil, wire.Refuse(err)
	}
	return &lockagentv1.RenewResponse{Deadline: deadline(r.Hold), Expires: deadline(r.Expires)}, nil
}

// Check implements [lockagentv1connect.LockServiceHandler].
func (l *locks) Check(ctx context.Context, req *lockagentv1.CheckRequest) (*lockagentv1.CheckResponse, error) {
	status, err := l.status(ctx, req.GetName(), req.GetKind())
	if err != nil {
		return nil, wire.Refuse(err)
	}
	token := lockagent.Token(req.GetToken())
	return &lockagentv1.CheckResponse{
		Current: token != 0 && l.Book.Holds(status.Name, token), Held: status.Locked, Holder: wire.Text(status.Holder),
	}, nil
}

// status asks the store about a lock, for a client that may look at it.
func (c *Config) status(ctx context.Context, name string, kind lockagentv1.Kind) (lockagent.Status, error) {
	if err := c.Access.Look(ctx, lockagent.Name(name)); err != nil {
		return lockagent.Status{}, err
	}
	return answer(ctx, c.Agent.Status(lockagent.Name(name), wire.ToKind(kind)))
}
