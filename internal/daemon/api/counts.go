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

// Permits implements [lockagentv1connect.CountServiceHandler].
func (c *counts) Permits(ctx context.Context, req *lockagentv1.PermitsRequest) (*lockagentv1.PermitsResponse, error) {
	if err := c.may(ctx, req.GetName()); err != nil {
		return nil, wire.Refuse(err)
	}
	lease, err := wire.ToDuration("lease", req.GetLease())
	if err != nil {
		return nil, wire.Refuse(err)
	}
	r, err := answer(ctx, c.Agent.Permits(ctx, lockagent.PermitsRequest{
		Name: lockagent.Name(req.GetName()), Kind: wire.ToKind(req.GetKind()), Op: wire.ToPermitsOp(req.GetOp()),
		N: int(req.GetN()), ID: lockagent.PermitID(req.GetPermitId()), Lease: lease,
	}))
	if err != nil {
		return nil, wire.Refuse(err)
	}
	return &lockagentv1.PermitsResponse{Done: r.Done, N: int32(r.N), Exists: r.Exists, Free: int32(r.Free), Taken: int32(r.Taken)}, nil
}

// Latch implements [lockagentv1connect.CountServiceHandler].
func (c *counts) Latch(ctx context.Context, req *lockagentv1.LatchRequest) (*lockagentv1.LatchResponse, error) {
	if err := c.may(ctx, req.GetName()); err != nil {
		return nil, wire.Refuse(err)
	}
	asked := lockagent.LatchRequest{Name: lockagent.Name(req.GetName()), Op: wire.ToLatchOp(req.GetOp()), Count: req.GetCount(), Change: string(lockagent.NewAgentID())}
	if err := asked.Check(); err != nil {
		return nil, wire.Refuse(err)
	}
	r, err := answer(ctx, c.Agent.Latch(ctx, asked))
	if err != nil {
		return nil, wire.Refuse(err)
	}
	return &lockagentv1.LatchResponse{Count: r.Count, Changed: r.Changed}, nil
}

// AwaitLatch implements [lockagentv1connect.CountServiceHandler].
func (c *counts) AwaitLatch(ctx context.Context, req *lockagentv1.AwaitLatchRequest) (*lockagentv1.AwaitLatchResponse, error) {
	if err := c.may(ctx, req.GetName()); err != nil {
		return nil, wire.Refuse(err)
	}
	err := <-c.Agent.Await(ctx, lockagent.Name(req.GetName()), lockagent.Owner(lockagent.NewAgentID()), 0) // it ends with ctx
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
