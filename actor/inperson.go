package actor

import (
	"context"
	"sync/atomic"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/errand"
)

// errands is part of a message whose caller waits for the outcome. It lets the store leave an exchange with the
// server to that caller: the first one that the actor needs before it can tell the outcome.
type errands struct {
	// offered says that the caller makes an exchange that is left to it. A caller who may have to leave makes none.
	offered bool
	// errand is the one on which the caller is sent, or nil. It is noErrand when the caller goes on none any more.
	errand atomic.Pointer[errand.Errand]
}

var noErrand = errand.New(context.Background())

// with returns an errand with ctx for a call to the store, or ctx if the caller goes on none any more.
func (e *errands) with(ctx context.Context) context.Context {
	if made := errand.New(ctx); e.errand.CompareAndSwap(nil, made) {
		return made
	}
	return ctx
}

// take returns the exchange that was left to the caller, or nil. Nothing more can be left. processed says that the actor has
// processed the message: [lock.caller] does not point here any more. So the actor sends the caller on no other errand, and to look is
// enough.
func (e *errands) take(processed bool) (work func()) {
	if processed && e.errand.Load() == nil {
		return nil
	}
	if made := e.errand.Swap(noErrand); made != nil && made != noErrand {
		return made.Take()
	}
	return nil
}

// finish makes the exchange that was left, if any, and was not taken. The actor has processed the message, or finish follows take.
func (e *errands) finish() {
	if made := e.errand.Load(); made != nil && made != noErrand {
		made.Finish()
	}
}

// reset makes the errands those of another message.
func (e *errands) reset() {
	e.offered = false
	if e.errand.Load() != nil {
		e.errand.Store(nil)
	}
}

// sendInPerson is send for a message whose caller may be left an exchange. Until the caller has made
// the exchange, nobody else makes one. So the caller processes no messages of others before:
// callbacks of theirs could keep it.
func sendInPerson(to *entry, m message, caller *errands) {
	if !caller.offered {
		send(to, m)
		return
	}
	defer caller.finish() // also if a callback ends the goroutine
	running := to.mailbox.begin(m)
	work := caller.take(running)
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
	c.request, c.owner, c.caller = r, by, ctx
	c.errands.offered = ctx.Done() == nil
	if r.entry.pin() { // an actor with a hold has not retired
		sendInPerson(r.entry, c, &c.errands)
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
	c.errands.reset()
	c.outcome.state.Store(pending)
	a.spareCalls.Put(c)
}
