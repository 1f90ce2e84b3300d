package agentclient

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/follow"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// asked delivers the answer of a call. The call ends with the agent.
func asked[T any](a *agent, ctx context.Context, ask func(context.Context) (T, error)) <-chan lockagent.Result[T] {
	out := make(chan lockagent.Result[T], 1)
	a.mu.Lock()
	closed := a.closed
	a.mu.Unlock()
	if closed {
		return delivered(lockagent.Result[T]{Err: lockagent.ErrClosed})
	}
	go func() {
		defer close(out)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(a.over, cancel)()
		v, err := ask(ctx)
		out <- lockagent.Result[T]{Value: v, Err: a.failed(ctx, err)}
	}()
	return out
}

// failed is the error of a call.
func (a *agent) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	switch told := follow.Told(err); {
	case told != nil:
		return told
	case a.over.Err() != nil:
		return lockagent.ErrClosed
	case ctx.Err() != nil && connect.CodeOf(err) == connect.CodeCanceled:
		return lockagent.CauseOf(ctx)
	}
	return a.unavailable(err)
}

// Status implements [backend.Agent].
func (a *agent) Status(name lockagent.Name, kind lockagent.LockKind) <-chan lockagent.Result[lockagent.Status] {
	return asked(a, context.Background(), func(ctx context.Context) (lockagent.Status, error) {
		ctx, cancel := context.WithTimeout(ctx, follow.AnswerTime)
		defer cancel()
		r, err := a.rpc.look.Get(ctx, &lockagentv1.GetRequest{Name: string(name), Kind: wire.FromKind(kind)})
		if err != nil {
			return lockagent.Status{}, err
		}
		s := lockagent.Status{
			Name: name, Locked: r.GetHeld(), Holder: r.GetHolder(), Remaining: r.GetRemaining().AsDuration(),
			HoldCount: int(r.GetCount()), Resting: r.GetResting(),
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.describe(&s)
		return s, nil
	})
}

// describe adds what this agent knows of a lock. The mutex must be held.
func (a *agent) describe(s *lockagent.Status) {
	var oldest *claim
	holds := make(map[lockagent.Owner]int)
	for c := range a.names[s.Name] {
		switch c.stage {
		case waiting:
			s.Waiters++
		case held:
			holds[c.req.Owner]++
			if oldest == nil || c.number < oldest.number {
				oldest = c
			}
		}
	}
	if oldest != nil && s.Locked {
		s.Owner, s.Token, s.HoldCount = oldest.req.Owner, oldest.token, holds[oldest.req.Owner]
	}
}

// Break implements [backend.Agent].
func (a *agent) Break(name lockagent.Name, kind lockagent.LockKind, operator string) <-chan lockagent.Result[bool] {
	if err := lockagent.CheckOperator(operator); operator != "" && err != nil {
		return delivered(lockagent.Result[bool]{Err: err})
	}
	return asked(a, context.Background(), func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, follow.AnswerTime)
		defer cancel()
		r, err := a.rpc.operate.Break(ctx, &lockagentv1.BreakRequest{
			Name: string(name), Kind: wire.FromKind(kind), Reason: operator,
		})
		return r.GetBroken(), err
	})
}

// Permits implements [backend.Agent].
func (a *agent) Permits(
	ctx context.Context, req lockagent.PermitsRequest,
) <-chan lockagent.Result[lockagent.PermitsReply] {
	req.Change = string(a.id) // the daemon makes another one
	if err := req.Check(); err != nil {
		return delivered(lockagent.Result[lockagent.PermitsReply]{Err: err})
	}
	return asked(a, ctx, func(ctx context.Context) (lockagent.PermitsReply, error) {
		r, err := a.rpc.count.Permits(ctx, &lockagentv1.PermitsRequest{
			Name: string(req.Name), Kind: wire.FromKind(req.Kind), Op: wire.FromPermitsOp(req.Op), N: int32(req.N),
			PermitId: string(req.ID), Lease: wire.FromDuration(req.Lease),
		})
		return lockagent.PermitsReply{
			Done: r.GetDone(), N: int(r.GetN()), Exists: r.GetExists(), Free: int(r.GetFree()),
			Taken: int(r.GetTaken()),
		}, err
	})
}

// Latch implements [backend.Agent].
func (a *agent) Latch(ctx context.Context, req lockagent.LatchRequest) <-chan lockagent.Result[lockagent.LatchReply] {
	return asked(a, ctx, func(ctx context.Context) (lockagent.LatchReply, error) {
		r, err := a.rpc.count.Latch(ctx, &lockagentv1.LatchRequest{
			Name: string(req.Name), Op: wire.FromLatchOp(req.Op), Count: req.Count,
		})
		return lockagent.LatchReply{Count: r.GetCount(), Changed: r.GetChanged()}, err
	})
}

// Await implements [backend.Agent]. It asks again when the daemon has gone away. channelapi sets no wait.
func (a *agent) Await(ctx context.Context, name lockagent.Name, _ lockagent.Owner, _ time.Duration) <-chan error {
	begin, out := time.Now(), make(chan error, 1)
	patience := func(err error) time.Duration {
		if told := follow.Told(err); told == nil || follow.Leaves(told) {
			return lockagent.MaxLease // without end
		}
		return 0
	}
	answers := asked(a, ctx, func(ctx context.Context) (none struct{}, _ error) {
		return none, follow.Repeat(ctx, patience, func() error {
			_, err := a.rpc.count.AwaitLatch(ctx, &lockagentv1.AwaitLatchRequest{Name: string(name)})
			return err
		})
	})
	go func() {
		defer close(out)
		err := (<-answers).Err
		if err != nil && ctx.Err() != nil {
			err = &lockagent.WaitError{
				Name: name, Kind: lockagent.Latch, Waited: time.Since(begin), TimedOut: timedOut(ctx),
				Err: context.Cause(ctx),
			}
		}
		out <- err
	}()
	return out
}
