package natslog

import (
	"context"
	"sync"
)

// permission is what a user may do, as long as the server does not say that it is missing. The server does not answer a
// request that it does not permit, so whoever waits for the answer has to be told.
type permission struct {
	mu      sync.Mutex
	granted context.Context         // guarded by mu; ends when the permission is missing
	forbid  context.CancelCauseFunc // guarded by mu; ends granted
}

func newPermission() *permission {
	p := &permission{}
	p.granted, p.forbid = context.WithCancelCause(context.Background())
	return p
}

// isMissing ends what is under way, with an error that tells what is missing.
func (p *permission) isMissing(missing *PermissionError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forbid(missing)
	// The subscription for answers is made once. All that follows needs it.
	if missing.Operation == "publish" {
		p.granted, p.forbid = context.WithCancelCause(context.Background())
	}
}

// while returns a context that ends with ctx or when the permission is missing.
func (p *permission) while(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	granted := p.granted
	p.mu.Unlock()
	stop := context.AfterFunc(granted, func() { cancel(context.Cause(granted)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
