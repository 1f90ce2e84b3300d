package actor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// request is one wish to hold a lock, from Acquire until its grant is over. It is
// also the hold that stands behind the grant, or behind its [handle], and the message that
// asks for it.
type request struct {
	counted
	agent *Agent
	entry *entry
	Request

	caller context.Context // of which the store and the recorder get the values

	// These belong to the actor.
	out        chan lockagent.Grant // nil once it is known who received the grant
	id         lockstate.RequestID
	waitUntil  lockstate.Instant // 0 for no bound
	stopWait   func() bool       // ends the watch on the caller's context
	timer      *time.Timer       // of the wait, and then of a short claim
	older      *request          // in the holds of its lock
	extensions *extension        // that are not confirmed, the shortest first
	handle     *handle           // until the first renewal of a hold that has one

	// fixed and deadline bound the hold: the end of its own fixed lease, if any,
	// and the deadline of the tenure, which renewals move. They are set before the
	// grant is delivered.
	token    lockagent.Token
	tenure   uint64       // 0 until the lock is granted
	fixed    atomic.Int64 // 0 if the lease is kept
	deadline atomic.Int64

	waited    bool        // the caller waits for the grant
	cancelled bool        // the caller has gone away; belongs to the actor
	dropped   atomic.Bool // nothing refers to the handle any more

	mu    sync.Mutex
	ctx   context.Context     // guarded by mu; made when first asked for
	onEnd map[*onEnd]struct{} // guarded by mu; to be called when the hold ends
	over  error               // guarded by mu; why the hold ended
}

// onEnd is one call of OnEnd. While it stands, its handle is in use.
type onEnd struct {
	call func(cause error)
	of   *handle
}

var _ lockagent.Hold = (*request)(nil)

// Context implements [lockagent.Hold].
func (r *request) Context() context.Context { return r.context(nil) }

func (r *request) context(of *handle) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		r.ctx = ctx
		if r.over != nil {
			cancel(r.over)
		} else {
			r.register(&onEnd{cancel, of})
		}
	}
	return r.ctx
}

// OnEnd implements [lockagent.Hold].
func (r *request) OnEnd(f func(cause error)) (stop func()) { return r.notify(&onEnd{call: f}) }

func (r *request) notify(registered *onEnd) (stop func()) {
	r.mu.Lock()
	over := r.over
	if over == nil {
		r.register(registered)
		stop = func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.onEnd, registered)
		}
	}
	r.mu.Unlock()
	if over != nil {
		registered.call(over)
		return func() {}
	}
	return stop
}

// register expects mu to be held.
func (r *request) register(registered *onEnd) {
	if r.onEnd == nil {
		r.onEnd = make(map[*onEnd]struct{})
	}
	r.onEnd[registered] = struct{}{}
}

// Remaining implements [lockagent.Hold].
func (r *request) Remaining() time.Duration {
	if r.cause() != nil {
		return 0
	}
	end := lockstate.Instant(r.deadline.Load())
	if fixed := lockstate.Instant(r.fixed.Load()); fixed != 0 {
		end = min(end, fixed)
	}
	return end.Sub(r.agent.clock.now())
}

// ReleaseAsync implements [lockagent.Hold].
func (r *request) ReleaseAsync(ctx context.Context) <-chan error {
	c := &call{kind: toRelease, request: r, caller: ctx, done: make(chan error, 1)}
	r.release(c)
	return c.done
}

func (r *request) release(c *call) {
	if r.entry.pin() { // an actor with a hold has not retired
		send(r.entry, c)
	} else {
		c.answer(false, r.releasedTwice())
	}
}

// granted reports whether the lock was granted, be it over or not.
func (r *request) granted() bool { return r.tenure != 0 }

// deny ends the request without a grant.
func (r *request) deny(name lockagent.Name, err error) {
	r.deliver(lockagent.Denied(name, r.Owner, err))
	r.finish()
}

// end tells the holder that the hold is over: everything that is derived from it
// is done when end returns. A grant that nobody has received is not received any more.
func (r *request) end(cause error) {
	r.mu.Lock()
	r.over = cause
	told := r.onEnd
	r.onEnd = nil
	r.mu.Unlock()
	r.takeBack()
	r.refuseExtensions()
	for registered := range told {
		r.agent.callback("Hold.OnEnd", func() { registered.call(cause) })
	}
	r.finish()
}

// begin is called when the lock is granted.
func (r *request) begin() {
	if r.Granted != nil {
		r.agent.callback("Request.Granted", r.Granted)
	}
}

func (r *request) finish() {
	if r.Over != nil {
		r.agent.callback("Request.Over", r.Over)
	}
}

// cause is why the hold ended, or nil.
func (r *request) cause() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// releasedTwice is the answer to the release of a hold that is over.
func (r *request) releasedTwice() error {
	if cause := r.cause(); !errors.Is(cause, lockagent.ErrReleased) {
		return cause
	}
	return lockagent.ErrNotHeld
}

func (r *request) lost(why lockagent.LossReason) *lockagent.LostError {
	return &lockagent.LostError{Name: r.entry.name, Owner: r.Owner, Token: r.token, Reason: why}
}

// deliver puts the one grant of the request into its channel, which has room.
func (r *request) deliver(g lockagent.Grant) {
	r.out <- g
	close(r.out)
}

// isReceived reports whether somebody received the grant.
func (r *request) isReceived() bool { return len(r.out) == 0 }

// claimed is isReceived. If somebody did, the channel is let go, which would be a good
// part of what a hold costs.
func (r *request) claimed() bool {
	if !r.isReceived() {
		return false
	}
	r.out = nil
	return true
}

// takeBack receives the grant in the caller's stead, if nobody has yet: either
// the caller has it afterwards or the actor, never both.
func (r *request) takeBack() bool {
	if r.claimed() {
		return false
	}
	g := <-r.out // closed and empty if the caller was faster
	r.out = nil
	return g.Err() == nil
}

// watch has the actor told when the caller's context ends or the wait is over.
func (r *request) watch() {
	if r.waited {
		return // the caller does
	}
	ctx := r.caller
	if ctx.Done() != nil {
		r.stopWait = context.AfterFunc(ctx, func() {
			send(r.entry, &cancelMsg{request: r, err: context.Cause(ctx), timedOut: timedOut(ctx)})
		})
	}
	if r.waitUntil != 0 {
		r.timer = time.AfterFunc(r.waitUntil.Sub(r.agent.clock.now()), func() {
			send(r.entry, &cancelMsg{request: r, err: lockagent.ErrTimeout, timedOut: true, wait: true})
		})
	}
}

// unwatchWait and unwatch let the sources of cancellation go, and their memory.
func (r *request) unwatchWait() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

func (r *request) unwatch() {
	r.unwatchWait()
	if r.stopWait != nil {
		r.stopWait()
		r.stopWait = nil
	}
}

// valuesOf is ctx without its end. ctx may be nil.
func valuesOf(ctx context.Context) context.Context {
	switch {
	case ctx == nil:
		return context.Background()
	case ctx.Done() == nil:
		return ctx
	}
	return context.WithoutCancel(ctx)
}
