package actor

import (
	"context"

	"github.com/lockagent/lockagent"
)

// WithLoss returns a context for [lockagent.Grant.ReleaseAsync] of a hold that its owner counts as lost, unless why
// is 0. The hold ends as such a loss, also in the events, and the lock is free as after any release. It is for an
// agent that serves others: they may give up a hold before the agent does.
func WithLoss(ctx context.Context, why lockagent.LossReason) context.Context {
	if why == 0 {
		return ctx
	}
	return context.WithValue(ctx, lossKey{}, why)
}

type lossKey struct{}

// lossIn is what [WithLoss] has put into a context, or 0. The context may be nil.
func lossIn(ctx context.Context) lockagent.LossReason {
	if ctx == nil {
		return 0
	}
	why, _ := ctx.Value(lossKey{}).(lockagent.LossReason)
	return why
}
