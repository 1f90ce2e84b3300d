package api

import (
	"context"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// counts is the CountService. Whoever may acquire a name may change its numbers.
type counts struct{ Config }

var _ lockagentv1connect.CountServiceHandler = (*counts)(nil)

func (c *counts) may(ctx context.Context, name string) error {
	return c.Access.Acquire(ctx, lockagent.Name(name))
}

// Numbers counts the semaphores and latches that the daemon itself remembers.
type Numbers interface {
	// Reserve has room for a number that a request may make, until end is called. If it is new, and there are as many
	// as there may be, the error is a [*refusal.QuotaError].
	Reserve(name lockagent.Name, kind lockagent.LockKind) (end func(), err error)
}

// reserve has room for the number that a request may make.
func (c *counts) reserve(
	ctx context.Context, makes bool, name lockagent.Name, kind lockagent.LockKind,
) (end func(), err error) {
	if c.Numbers == nil || !makes {
		return func() {}, nil
	}
	end, err = c.Numbers.Reserve(name, kind)
	return end, c.Access.Refused(ctx, err)
}

// Permits implements [lockagentv1connect.CountServiceHandler].
func (c *counts) Permits(ctx context.Context, req *lockagentv1.PermitsRequest) (*lockagentv1.PermitsResponse, error) {
	if err := c.may(ctx, req.GetName()); err != nil {
		return nil, wire.Refuse(err)
	}
	lease, err := wire.ToDuration("lease", req.GetLease())
	if err != nil {
		return nil, wire.Refuse(err)
	}
	asked := lockagent.PermitsRequest{
		Name: lockagent.Name(req.GetName()), Kind: wire.ToKind(req.GetKind()), Op: wire.ToPermitsOp(req.GetOp()),
		N: int(req.GetN()), ID: lockagent.PermitID(req.GetPermitId()), Lease: lease,
	}
	makes := asked.Op == lockagent.TrySetPermits || asked.Op == lockagent.SetPermits || asked.Op == lockagent.AddPermits
	end, err := c.reserve(ctx, makes, asked.Name, asked.Kind)
	if err != nil {
		return nil, wire.Refuse(err)
	}
	r, err := answerThen(ctx, c.Agent.Permits(ctx, asked), end)
	if err != nil {
		return nil, wire.Refuse(err)
	}
	return &lockagentv1.PermitsResponse{
		Done: r.Done, N: int32(r.N), Exists: r.Exists, Free: int32(r.Free), Taken: int32(r.Taken),
	}, nil
}

// Latch implements [lockagentv1connect.CountServiceHandler].
func (c *counts) Latch(ctx context.Context, req *lockagentv1.LatchRequest) (*lockagentv1.LatchResponse, error) {
	if err := c.may(ctx, req.GetName()); err != nil {
		return nil, wire.Refuse(err)
	}
	asked := lockagent.LatchRequest{
		Name: lockagent.Name(req.GetName()), Op: wire.ToLatchOp(req.GetOp()), Count: req.GetCount(),
		Change: string(lockagent.NewAgentID()),
	}
	if err := asked.Check(); err != nil {
		return nil, wire.Refuse(err)
	}
	end, err := c.reserve(ctx, asked.Op == lockagent.LatchSet, asked.Name, lockagent.Latch)
	if err != nil {
		return nil, wire.Refuse(err)
	}
	r, err := answerThen(ctx, c.Agent.Latch(ctx, asked), end)
	if err != nil {
		return nil, wire.Refuse(err)
	}
	return &lockagentv1.LatchResponse{Count: r.Count, Changed: r.Changed}, nil
}

// AwaitLatch implements [lockagentv1connect.CountServiceHandler].
func (c *counts) AwaitLatch(
	ctx context.Context, req *lockagentv1.AwaitLatchRequest,
) (*lockagentv1.AwaitLatchResponse, error) {
	if err := c.may(ctx, req.GetName()); err != nil {
		return nil, wire.Refuse(err)
	}
	// The wait ends with ctx.
	err := <-c.Agent.Await(ctx, lockagent.Name(req.GetName()), lockagent.Owner(lockagent.NewAgentID()), 0)
	return &lockagentv1.AwaitLatchResponse{}, wire.Refuse(err)
}

// answer waits for an answer of the agent, until ctx ends.
func answer[T any](ctx context.Context, c <-chan lockagent.Result[T]) (T, error) {
	select {
	case r := <-c:
		return r.Value, r.Err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// answerThen is answer. It calls end when there is an answer, also if nobody waits for it any more.
func answerThen[T any](ctx context.Context, c <-chan lockagent.Result[T], end func()) (T, error) {
	known := make(chan lockagent.Result[T], 1)
	go func() {
		r := <-c // the agent always answers
		end()
		known <- r
	}()
	return answer(ctx, known)
}
