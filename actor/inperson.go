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

// releaseCall returns a call whose caller waits for the answer. Many a hold is over so soon that
// making the call would be a good part of what it costs. Agents do not share calls, because
// a channel must not leave the synctest bubble that it was made in.
func (a *Agent) releaseCall() *call {
	if c, ok := a.spareCalls.Get().(*call); ok {
		return c
	}
	return &call{kind: toRelease, done: make(chan error, 1), again: true}
}

// keepCall is called when the answer has been received, which is the last that the actor had to
// do with the call.
func (a *Agent) keepCall(c *call) {
	c.request, c.caller = nil, nil
	a.spareCalls.Put(c)
}
