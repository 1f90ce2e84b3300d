package actor

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// request is one request for a lock, from Acquire until its hold is over. It is also the message
// that asks for the lock, and the [lockagent.Hold] behind the grant or behind its [handle].
type request struct {
	counted
	agent *Agent
	entry *entry
	Request

	caller context.Context // the store and the recorder get its values

	// These belong to the actor.
	delivery   delivery[outcome] // for a caller who waits in Lock, who has no slot
	id         lockstate.RequestID
	waitUntil  lockstate.Instant // 0 for no bound, or if the caller watches it in Lock
	stopWait   func() bool       // ends the watch on the caller's context
	timer      *time.Timer       // for the wait, and then for a short claim
	extensions *extension        // those that are not confirmed, the shortest first
	handle     *handle           // nil if there is none, and after the first renewal

	// fixed and deadline bound the hold. fixed is the end of its fixed lease. deadline is that
	// of the tenure: renewals move it. Both are set before the grant is delivered.
	token    lockagent.Token
	tenure   uint64       // 0 until the lock is granted
	total    int          // of a semaphore: how many permits there were then; 0 if the store did not tell
	fixed    atomic.Int64 // 0 if the lease is kept
	deadline atomic.Int64

	waited    bool        // the caller waits in Lock
	cancelled bool        // the caller has gone away; belongs to the actor
	watches   bool        // somebody asked whether others want the lock; belongs to the actor
	heard     bool        // somebody beside the caller learned of the end of the hold; belongs to the actor
	replicas  uint8       // that had the tenure when the lock was granted; small, where a request has room
	dropped   atomic.Bool // nothing refers to the handle any more

	finish // of the hold
}

// outcome is the part of a grant that its request does not know.
type outcome struct {
	hold  lockagent.Hold // nil if the request was denied
	count int            // of the grants that the owner holds
	err   error          // why the request was denied
}

var _ lockagent.Hold = (*request)(nil)

// Remaining implements [lockagent.Hold].
func (r *request) Remaining() time.Duration {
	if r.Cause() != nil {
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
	c := &call{kind: toRelease, request: r, owner: r.Owner, caller: ctx, lost: lossIn(ctx), done: make(chan error, 1)}
	if r.entry.pin() { // an actor with a hold has not retired
		send(r.entry, c)
	} else {
		c.answer(false, r.overError())
	}
	return c.done
}

// Taken is the tenure of the hold, and how many permits it has: see [lockagent.Grant.PermitIDs].
func (r *request) Taken() (lockagent.Tenure, int) {
	return lockagent.Tenure{Agent: r.agent.cfg.ID, Number: r.tenure}, max(1, r.Permits)
}

// Replicas is how many replicas of the store had the hold: see [lockagent.Grant.Replicas].
func (r *request) Replicas() int { return int(r.replicas) }

// granted reports whether the lock was granted, even if the hold is over.
func (r *request) granted() bool { return r.tenure != 0 }

// deny ends the request without a grant.
func (r *request) deny(name lockagent.Name, err error) {
	r.deliver(name, outcome{err: err})
	if r.Watch != nil {
		r.watched(func(w Watcher) { w.Ended(err) })
	}
}

// end ends the hold. When it returns, the contexts of the grant are done. A grant that nobody has received is taken
// back.
func (r *request) end(cause error) {
	r.close(cause) // only the actor ends it, once
	r.takeBack()
	r.refuseExtensions()
	r.heard = r.tell(r.agent) || r.Watch != nil
	if r.Watch != nil {
		r.watched(func(w Watcher) { w.Ended(cause) })
	}
}

func (r *request) lost(why lockagent.LossReason, operator string) *lockagent.LostError {
	return &lockagent.LostError{Name: r.entry.name, Owner: r.Owner, Token: r.token, Reason: why, Operator: operator}
}

// deliver gives the one grant of the request to its owner. It never blocks.
func (r *request) deliver(name lockagent.Name, o outcome) {
	switch {
	case r.waited:
		r.delivery.deliver(o)
	case r.Slot != nil:
		r.Slot.Put(r.grant(name, &o), nil)
	}
}

// grant is the grant with an outcome.
func (r *request) grant(name lockagent.Name, o *outcome) lockagent.Grant {
	if o.err != nil {
		return lockagent.Denied(name, r.Owner, o.err)
	}
	return lockagent.NewGrant(name, r.Owner, r.token, o.count, o.hold)
}

// isReceived reports whether the owner has received the grant.
func (r *request) isReceived() bool {
	received := r.claimed() && (!r.waited || r.delivery.isReceived())
	if received && r.Watch != nil {
		received = false // also if the watcher panics
		r.watched(func(w Watcher) { received = w.Received() })
	}
	return received
}

// claimed reports whether somebody received the grant. A caller who waits in Lock always will. claimed frees the slot
// then: its channel is a good part of the memory of a hold.
func (r *request) claimed() bool {
	if r.Slot != nil && !r.Slot.Received() {
		return false
	}
	r.Slot = nil
	return true
}

// takeBack takes the grant back, unless the caller has received it. It reports whether nobody has it now.
func (r *request) takeBack() bool {
	back := r.Slot != nil && r.Slot.TakeBack()
	r.Slot = nil
	return back
}

// watch sends a cancelMsg when the caller's context ends or the wait has passed.
func (r *request) watch() {
	if r.waited {
		return // the caller watches both, in Lock
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

// unwatchWait stops the timer.
func (r *request) unwatchWait() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// unwatch stops the timer and the watch on the caller's context.
func (r *request) unwatch() {
	r.unwatchWait()
	if r.stopWait != nil {
		r.stopWait()
		r.stopWait = nil
	}
}

// values is a context with the values of the caller's. Call it after watch, which needs more of it.
func (r *request) values() context.Context {
	r.caller = valuesOf(r.caller) // for the next time
	return r.caller
}

// valuesOf is a context with the values of ctx that does not end. ctx may be nil.
func valuesOf(ctx context.Context) context.Context {
	switch {
	case ctx == nil:
		return context.Background()
	case ctx.Done() == nil:
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// Watcher is told what becomes of a request, from its wait to the end of its hold: see [Request.Watch]. The agent calls
// one method after the other, in the order of the steps. A method must not block, and must not call the agent.
type Watcher interface {
	// Queued: the lock could not be granted at once, and the request waits. holder has the lock: an owner of this
	// agent, or what the store knows. It is empty if that is not known.
	Queued(holder string)
	// Granted: the lock was granted. The grant is delivered next. The owner may make so many holds of it: see
	// [Request.Holds].
	Granted(holds int)
	// Received reports whether the owner has the grant, which somebody has received. A watcher who receives grants and
	// passes them on reports false until then, so that [Agent.Release] does not give up a grant that is on its way.
	// Unlike the others, it may be called at any time, and again.
	Received() bool
	// Renewed: the deadline of the hold may be later than before. It is not earlier.
	Renewed()
	// Uncertain: a renewal failed, after one that did not. The deadline stands. Renewed or Ended follows.
	Uncertain(err error)
	// Warned: what [lockagent.Grant.Wanted] and [lockagent.Grant.Uncertain] tell of the hold has changed, after the
	// first call of either.
	Warned(wanted, uncertain bool)
	// Ended: the request was denied, with the error of its grant, or its hold is over, with the cause of that. Nobody
	// else has been granted the lock yet. It is the last call. The cause is [lockagent.LostUnclaimed] if nobody
	// received the grant in time, and [lockagent.ErrClosed] if nobody had received it when the agent closed.
	Ended(cause error)
}

// NopWatcher is a [Watcher] that does nothing. It is for watchers that need few of the methods.
type NopWatcher struct{}

// Queued implements [Watcher].
func (NopWatcher) Queued(string) {}

// Granted implements [Watcher].
func (NopWatcher) Granted(int) {}

// Received implements [Watcher].
func (NopWatcher) Received() bool { return true }

// Renewed implements [Watcher].
func (NopWatcher) Renewed() {}

// Uncertain implements [Watcher].
func (NopWatcher) Uncertain(error) {}

// Warned implements [Watcher].
func (NopWatcher) Warned(bool, bool) {}

// Ended implements [Watcher].
func (NopWatcher) Ended(error) {}

// watched tells the watcher of a request, if there is one. A caller who needs a closure for that makes it only if there
// is one: most requests have none, and would pay for it.
func (r *request) watched(tell func(Watcher)) {
	if r.Watch != nil {
		r.agent.callback("Request.Watch", func() { tell(r.Watch) })
	}
}

// uncertain tells those who watch holds of a tenure that a renewal failed.
func (l *lock) uncertain(tenure uint64, err error) {
	for r := range l.holds {
		if r.tenure == tenure {
			r.watched(func(w Watcher) { w.Uncertain(err) })
		}
	}
}

// WithLoss returns a context for [lockagent.Grant.ReleaseAsync] of a hold that its owner counts as lost, unless why
// is 0. The hold ends as such a loss, also in the events, and the lock is free as after any release. It is for an
// agent that serves others: they may give up a hold before the agent does.
func WithLoss(ctx context.Context, why lockagent.LossReason) context.Context {
	if why == 0 {
		return ctx
	}
	return context.WithValue(ctx, lossKey{}, why)
}

type lossKey struct{}

// lossIn is what [WithLoss] has put into a context, or 0. The context may be nil.
func lossIn(ctx context.Context) lockagent.LossReason {
	if ctx == nil {
		return 0
	}
	why, _ := ctx.Value(lossKey{}).(lockagent.LossReason)
	return why
}
