package actor

import (
	"context"

	"github.com/lockagent/lockagent/internal/errand"
)

// inPerson is ctx without its end, for a call whose caller waits for the outcome: the store may let
// the caller make the exchange with the server. finish makes it, right after the call. A
// caller whose context may end has to be able to leave, and makes no exchange.
func inPerson(ctx context.Context) (values context.Context, finish func()) {
	if ctx.Done() != nil {
		return valuesOf(ctx), func() {}
	}
	e := errand.New(ctx)
	return e, e.Finish
}

// Unlock implements [lockagent.Hold].
func (r *request) Unlock(ctx context.Context) error {
	values, finish := inPerson(ctx)
	done := r.Release(values)
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
