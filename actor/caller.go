package actor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// Lock is [Agent.Acquire] for callers who wait for the grant. If ctx ends first, or the wait
// passes, Lock returns a grant that has a [*lockagent.WaitError]. A grant that comes at that instant counts as
// received. Lock never returns the zero Grant.
//
// It costs less than Acquire if ctx can end: the caller watches ctx itself.
func (a *Agent) Lock(ctx context.Context, name lockagent.Name, req Request) lockagent.Grant {
	req.Slot = nil
	begin := lockstate.Instant(0)
	if req.Wait > 0 {
		begin = a.clock.now()
	}
	r := &request{agent: a, Request: req, waited: true, caller: ctx}
	a.ask(ctx, name, r)
	if !r.delivery.isDelivered() { // most often it is: the lock was free
		r.await(ctx, begin)
	}
	o := r.delivery.receive()
	if cause := r.Cause(); cause != nil {
		o.err = r.overtaken(cause)
	}
	return r.grant(name, &o)
}

// await waits for the outcome. When ctx ends, or the wait passes, it has the actor end the request. begin is when Lock
// was called, if the wait is bounded.
func (r *request) await(ctx context.Context, begin lockstate.Instant) {
	a := r.agent
	wake := a.waker()
	defer func() { a.wakers.Put(wake) }()
	if !r.delivery.await(wake) {
		return
	}
	var passed <-chan time.Time
	if r.Wait > 0 {
		timer := time.NewTimer(begin.Sub(a.clock.now()) + r.Wait)
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-wake:
		return
	case <-passed:
		send(r.entry, &cancelMsg{request: r, err: lockagent.ErrTimeout, timedOut: true, wait: true})
	case <-ctx.Done():
		send(r.entry, &cancelMsg{request: r, err: context.Cause(ctx), timedOut: timedOut(ctx)})
	}
	<-wake // by a denial, or by a grant that came first
}

// overtaken is the error for a caller who waited in Lock, and whose hold was over before Lock could return.
func (r *request) overtaken(cause error) error {
	lost, _ := errors.AsType[*lockagent.LostError](cause)
	if lost != nil && (lost.Reason == lockagent.LostClosed || lost.Reason == lockagent.LostIdentity) {
		return r.agent.identity.closed()
	}
	return cause
}

// ended is the error of a request whose context had ended before.
func ended(ctx context.Context, name lockagent.Name, kind lockagent.LockKind) error {
	return &lockagent.WaitError{Name: name, Kind: kind.OrPlain(), TimedOut: timedOut(ctx), Err: context.Cause(ctx)}
}

func timedOut(ctx context.Context) bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }

// delivery brings one value to the caller who waits for it: the outcome of a request, or the answer to
// a release. The caller always receives it. Most often the caller runs the actor itself,
// and finds the value when it looks: a channel would be a good part of the cost of a short hold.
type delivery[T any] struct {
	state atomic.Int32
	value T             // while the state is delivered
	wake  chan struct{} // gets one value at the delivery, if the state was awaited
}

const (
	pending int32 = iota
	awaited       // the caller listens to wake
	delivered
	received
)

// deliver is called once, by the actor.
func (d *delivery[T]) deliver(v T) {
	d.value = v
	if d.state.Swap(delivered) == awaited {
		d.wake <- struct{}{}
	}
}

// isDelivered reports whether the value was delivered.
func (d *delivery[T]) isDelivered() bool { return d.state.Load() >= delivered }

// await has the caller listen to wake. It reports false if the value was delivered already.
func (d *delivery[T]) await(wake chan struct{}) bool {
	d.wake = wake
	return d.state.CompareAndSwap(pending, awaited)
}

// receive is called once by the caller, after the delivery.
func (d *delivery[T]) receive() (v T) {
	v, d.value = d.value, v // the actor keeps the delivery, and must not keep the handle of a hold, see [request.hold]
	d.state.Store(received)
	return v
}

// isReceived reports whether the caller has the value.
func (d *delivery[T]) isReceived() bool { return d.state.Load() == received }

// waker returns a channel for [delivery.await]. The channels come from a pool, and are empty there. Each agent
// has a pool of its own, because a channel must not leave its synctest bubble.
func (a *Agent) waker() chan struct{} {
	if wake, ok := a.wakers.Get().(chan struct{}); ok {
		return wake
	}
	return make(chan struct{}, 1)
}

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
	if !c.outcome.isDelivered() { // most often it is: the lock is handed on, or rests
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
