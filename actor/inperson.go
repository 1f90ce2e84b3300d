package actor

import (
	"context"

	"github.com/lockagent/lockagent/internal/errand"
)

// inPerson returns a context for a call to the store whose caller waits for the outcome. With
// it, the store may leave the exchange with the server to the caller: call finish right after
// the call. If ctx can end, the caller has to be able to leave, and makes no exchange.
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
	c := r.agent.releaseCall()
	c.request, c.caller = r, caller
	r.release(c)
	finish()
	select {
	case err := <-c.done:
		r.agent.keepCall(c)
		return err
	default:
	}
	select {
	case err := <-c.done:
		r.agent.keepCall(c)
		return err
	case <-ctx.Done():
		return context.Cause(ctx) // c is garbage when it has been answered
	}
}

// releaseCall returns a call for a caller who waits for the answer. The calls come from a pool,
// because making one is a good part of the cost of a short hold. Each agent has a pool of its
// own, because a channel must not leave its synctest bubble.
func (a *Agent) releaseCall() *call {
	if c, ok := a.spareCalls.Get().(*call); ok {
		return c
	}
	return &call{kind: toRelease, done: make(chan error, 1), again: true}
}

// keepCall puts a call back into the pool. The answer has been received, and the actor does
// not refer to the call any more.
func (a *Agent) keepCall(c *call) {
	c.request, c.caller = nil, nil
	a.spareCalls.Put(c)
}
