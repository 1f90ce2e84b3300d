package api

import (
	"context"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// Bind implements [lockagentv1connect.LockServiceHandler].
func (l *locks) Bind(ctx context.Context, req *lockagentv1.BindRequest) (*lockagentv1.BindResponse, error) {
	client, err := l.client(ctx)
	if err != nil {
		return nil, wire.Refuse(err)
	}
	if err := l.use(ctx, req); err != nil {
		return nil, wire.Refuse(err)
	}
	pids := make([]int, 0, len(req.GetPids()))
	for _, pid := range req.GetPids() {
		pids = append(pids, int(pid))
	}
	if err := l.Book.Bind(client, req.GetClaim(), req.GetSecret(), pids); err != nil {
		return nil, wire.Refuse(l.Access.Refused(ctx, err))
	}
	return &lockagentv1.BindResponse{}, nil
}

// keep releases a claim after a while.
func (l *locks) keep(req *lockagentv1.ReleaseRequest) (*lockagentv1.ReleaseResponse, error) {
	keep, err := wire.ToDuration("keep", req.GetKeep())
	if err == nil && wire.ToGivenUp(req.GetLost()) != 0 {
		err = &lockagent.OptionError{Option: "keep", Reason: "a hold that is lost is not kept; leave it out"}
	}
	kept := false
	if err == nil {
		kept, err = l.Book.ReleaseIn(req.GetClaim(), req.GetSecret(), keep)
	}
	if err != nil {
		return nil, wire.Refuse(err)
	}
	return &lockagentv1.ReleaseResponse{Ended: kept}, nil
}
