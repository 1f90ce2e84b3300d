package actor

import (
	"context"
	"sync"

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
	caller, finish := inPerson(ctx)
	c := spareReleases.Get().(*call)
	c.request, c.caller = r, caller
	r.release(c)
	finish()
	select {
	case err := <-c.done:
		return c.over(err)
	default:
	}
	select {
	case err := <-c.done:
		return c.over(err)
	case <-ctx.Done():
		return context.Cause(ctx) // c is garbage when it has been answered
	}
}

// spareReleases has calls whose callers wait for the answer. Many a hold is over so soon that
// making these would be a good part of what it costs.
var spareReleases = sync.Pool{New: func() any { return &call{kind: toRelease, done: make(chan error, 1), again: true} }}

// over is called when the caller of Release has received the answer, which is the last that the
// actor had to do with the call.
func (c *call) over(err error) error {
	c.request, c.caller = nil, nil
	spareReleases.Put(c)
	return err
}
