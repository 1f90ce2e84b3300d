package actor

import (
	"context"

	"github.com/lockagent/lockagent/internal/errand"
)

// inPerson is a context for a call whose caller waits for the outcome: the store may let
// the caller make the exchange with the server. finish makes it, right after the call. A
// caller whose context may end has to be able to leave, and makes no exchange.
func inPerson(ctx context.Context) (values context.Context, finish func()) {
	if ctx.Done() != nil {
		return ctx, func() {}
	}
	e := errand.New(ctx)
	return e, e.Finish
}

// Release implements [lockagent.Hold].
func (r *request) Release(ctx context.Context) error {
	values, finish := inPerson(ctx)
	done := r.ReleaseAsync(values)
	finish()
	select {
	case err := <-done:
		return err
	default:
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
