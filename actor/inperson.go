package actor

import (
	"context"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/errand"
)

// inPerson returns ctx for a call to the store whose caller waits for the outcome. With it the store
// may leave the exchange with the server to the caller. If ctx can end, the caller has to be
// able to leave, and makes no exchange.
func inPerson(ctx context.Context) context.Context {
	if ctx.Done() != nil {
		return ctx
	}
	return errand.New(ctx)
}

// sendInPerson is send for a message whose caller may be left an exchange. Until the caller has made
// the exchange, nobody else makes one. So the caller processes no messages of others before:
// callbacks of theirs could keep it.
func sendInPerson(to *entry, m message, caller context.Context) {
	e, _ := caller.(*errand.Errand)
	if e == nil {
		send(to, m)
		return
	}
	defer e.Finish() // also if a callback ends the goroutine
	running := to.mailbox.begin(m)
	work := e.Take()
	switch {
	case !running:
	case work == nil:
		to.mailbox.run(mostTurns)
	default:
		to.mailbox.handOver()
	}
	if work != nil {
		work()
	}
}

// Release implements [lockagent.Hold].
func (r *request) Release(ctx context.Context) error { return r.release(ctx, r.Owner) }

func (r *request) release(ctx context.Context, by lockagent.Owner) error {
	c := r.agent.releaseCall()
	c.request, c.owner, c.caller = r, by, inPerson(ctx)
	if r.entry.pin() { // an actor with a hold has not retired
		sendInPerson(r.entry, c, c.caller)
	} else {
		c.answer(false, lostBy(by, r.overError()))
	}
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
	c.request, c.owner, c.caller = nil, "", nil
	a.spareCalls.Put(c)
}
