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
	if !c.outcome.over() { // most often it is: the lock is handed on, or rests
		wake := r.agent.waker()
		if c.outcome.await(wake) {
			select {
			case <-wake:
			case <-ctx.Done():
				return context.Cause(ctx) // c and wake are garbage when c has been answered
			}
		}
		r.agent.wakers.Put(wake)
	}
	err, _ := c.outcome.receive()
	r.agent.keepCall(c)
	return err
}

// releaseCall returns a call for a caller who waits for the answer. The calls come from a pool,
// because making one is a good part of the cost of a short hold.
func (a *Agent) releaseCall() *call {
	if c, ok := a.spareCalls.Get().(*call); ok {
		return c
	}
	return &call{kind: toRelease}
}

// keepCall puts a call back into the pool. The answer has been received, and the actor does
// not refer to the call any more.
func (a *Agent) keepCall(c *call) {
	c.request, c.owner, c.caller = nil, "", nil
	c.outcome.state.Store(pending)
	a.spareCalls.Put(c)
}
