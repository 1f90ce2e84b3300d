package actor

import (
	"context"
	"errors"

	"github.com/lockagent/lockagent"
)

// presence is the caller who runs the actor for a message and waits for the outcome of that message. The actor may
// leave the call to the store to that caller. So the store may have the caller make the exchange with the server. The
// zero presence is that of nobody.
type presence struct {
	asks message         // the message of the caller; nil when it was a call and has been answered
	ctx  context.Context // of the caller
	left func()          // the call that was left, or nil
}

// sendInPerson is send for a caller who waits for the outcome, until ctx ends. The caller makes the call to the store
// that the actor leaves. An exchange may keep the caller for long. So it processes no messages of others before: a new
// goroutine does.
func sendInPerson(ctx context.Context, to *entry, m message) {
	if !to.mailbox.begin(m) {
		return
	}
	to.caller = presence{asks: m, ctx: ctx}
	to.mailbox.invoke(m)
	left := to.caller.left
	to.caller = presence{}
	if left == nil {
		to.mailbox.run(mostTurns)
		return
	}
	to.mailbox.handOver()
	left()
}

// Release implements [lockagent.Hold].
func (r *request) Release(ctx context.Context) error {
	c := r.agent.releaseCall()
	c.request, c.owner, c.caller = r, r.Owner, ctx
	if r.entry.pin() { // an actor with a hold has not retired
		sendInPerson(ctx, r.entry, c)
	} else {
		c.answer(false, r.overError())
	}
	if !c.outcome.over() { // most often it is: the lock is handed on, or rests
		wake := r.agent.waker()
		if c.outcome.await(wake) {
			select {
			case <-wake:
			case <-ctx.Done():
				return lockagent.CauseOf(ctx) // c and wake are garbage when c has been answered
			}
		}
		r.agent.wakers.Put(wake)
	}
	err := c.outcome.receive()
	r.agent.keepCall(c)
	if errors.Is(err, lockagent.ErrUnconfirmed) && ctx.Err() != nil { // the caller has left its own exchange
		return lockagent.CauseOf(ctx)
	}
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
