package api

import (
	"context"

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
