package channelapi

import (
	"context"
	"errors"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// Lock is a handle of one lock and of how to ask for it. It holds nothing: every request
// through it has an owner of its own. So a Lock has no Release; the [Grant] has. Make one
// with [Locks.Lock]; the zero Lock is of no use.
type Lock struct{ handle }

// SessionLock is a handle of one lock for a [Session], whose owner may hold the lock
// several times. Make one with [Session.Lock]; the zero SessionLock is of no use.
type SessionLock struct{ handle }

// AnyLock is a [*Lock] or a [*SessionLock].
type AnyLock interface {
	Name() Name
	Acquire(ctx context.Context) (Grant, error)
	AcquireAsync(ctx context.Context) <-chan Grant
	TryAcquire(ctx context.Context) (Grant, error)
	Turns(ctx context.Context) <-chan Grant
	Do(ctx context.Context, work func(context.Context, Grant) error) error
	DoAsync(ctx context.Context, work func(context.Context, Grant) error) <-chan error

	base() *handle
}

var _, _ AnyLock = (*Lock)(nil), (*SessionLock)(nil)

func (l *Lock) base() *handle {
	if l == nil {
		return nil
	}
	return &l.handle
}

func (l *SessionLock) base() *handle {
	if l == nil {
		return nil
	}
	return &l.handle
}

// Release gives up the youngest grant of the lock that the session has received. The
// outcome is that of [lockagent.Grant.Release], but a hold that was lost before is [ErrNotHeld],
// for only its grant remembers it. It is [ErrNotOwner] if somebody else of this agent
// holds the lock. If ctx ends first Release returns its cause, and the lock is released
// all the same.
func (l *SessionLock) Release(ctx context.Context) error {
	released, err := receive(ctx, l.ReleaseAsync(ctx))
	if err != nil {
		return err
	}
	return released
}

// ReleaseAsync is [SessionLock.Release] for select. The channel has capacity 1, delivers
// one value, is then closed by the agent, and needs no reader.
func (l *SessionLock) ReleaseAsync(context.Context) <-chan error {
	if l.locks == nil {
		return delivered[error](errNoHandle)
	}
	return l.session.release(l.name)
}

// handle is a lock and how to ask for it.
type handle struct {
	locks   *Locks
	session *Session // nil if each request is an owner of its own
	name    lockagent.Name
	req     actor.Request
	err     error // of the options
}

var errNoHandle = &OptionError{Option: "lock", Reason: "it is the zero one; make it with Locks.Lock or Session.Lock"}

func newHandle(locks *Locks, session *Session, name string, opts []Option) handle {
	req, err := requestOf(opts)
	return handle{locks: locks, session: session, name: lockagent.Name(name), req: req, err: err}
}

// wrong is why the handle cannot be used to ask for the lock, or nil.
func (h *handle) wrong() error {
	if h.locks == nil {
		return errNoHandle
	}
	return h.err
}

// Name is the name of the lock.
func (h *handle) Name() Name { return h.name }

// Acquire asks for the lock and waits for the grant. The error is that of [lockagent.Grant.Err].
//
// The end of ctx ends the wait. It does not end the hold.
func (h *handle) Acquire(ctx context.Context) (Grant, error) { return h.acquire(ctx, h.req) }

// TryAcquire is [Lock.Acquire] as with [Try]: it returns a [*HeldError] if somebody holds
// the lock. A [Wait] of the handle does not matter.
func (h *handle) TryAcquire(ctx context.Context) (Grant, error) {
	req := h.req
	req.Try, req.Wait = true, 0
	return h.acquire(ctx, req)
}

func (h *handle) acquire(ctx context.Context, req actor.Request) (Grant, error) {
	if err := h.wrong(); err != nil {
		return lockagent.Denied(h.name, "", err), err
	}
	var g Grant
	if h.session != nil {
		g = <-h.session.acquire(ctx, h.name, req)
	} else {
		req.Owner = h.locks.newOwner()
		g = h.locks.agent.Lock(ctx, h.name, req)
	}
	if err := h.outcome(ctx, g); err != nil {
		return lockagent.Denied(h.name, g.Owner(), err), err
	}
	return g, nil
}

// outcome is the error of a grant as it was received. One that was taken back before it
// could be received says why.
func (h *handle) outcome(ctx context.Context, g Grant) error {
	err := g.Err()
	switch {
	case !errors.Is(err, ErrNotGranted):
		return err
	case ctx.Err() != nil:
		timedOut := errors.Is(ctx.Err(), context.DeadlineExceeded)
		return &WaitError{Name: h.name, TimedOut: timedOut, Err: context.Cause(ctx)}
	case h.session != nil && h.session.isClosed():
		return ErrSessionClosed
	case h.locks.isClosed():
		return ErrClosed
	}
	return err
}

// AcquireAsync is [Lock.Acquire] for select: it returns at once, and the grant comes on a
// channel. That has capacity 1, delivers the one grant that the request ends in, is then
// closed by the agent, and needs no reader. Receiving again yields the zero Grant, which
// is not held. For a select in a loop use [Lock.Turns].
//
// The end of ctx ends the request. If the grant lies in the channel by then, it is taken
// back. So leave the select when you like, and end ctx. A hold whose grant was received
// goes on.
func (h *handle) AcquireAsync(ctx context.Context) <-chan Grant { return h.ask(ctx, h.req) }

func (h *handle) ask(ctx context.Context, req actor.Request) <-chan Grant {
	if err := h.wrong(); err != nil {
		return denied(h.name, err)
	}
	if h.session != nil {
		return h.session.acquire(ctx, h.name, req)
	}
	req.Owner = h.locks.newOwner()
	return h.locks.agent.Acquire(ctx, h.name, req)
}

// Status asks the store and the agent who holds the lock.
func (h *handle) Status(ctx context.Context) (Status, error) { return answer(ctx, h.StatusAsync(ctx)) }

// StatusAsync is [Lock.Status] for select. The channel has capacity 1, delivers one value,
// is then closed by the agent, and needs no reader. If ctx has ended nobody is asked.
func (h *handle) StatusAsync(ctx context.Context) <-chan Result[Status] {
	if err := h.cannotAsk(ctx); err != nil {
		return delivered(Result[Status]{Err: err})
	}
	return h.locks.agent.Status(h.name)
}

// Break frees the lock, whoever holds it: for operators. A holder of this agent is told
// first, by [LostBroken]. A holder elsewhere is told by a message; if that is lost, it finds
// out when it next renews its lease, and may act until then. It returns whether anybody held the lock. If ctx ends first it
// returns the cause of ctx, and the lock is broken all the same.
func (h *handle) Break(ctx context.Context) (held bool, err error) {
	return answer(ctx, h.BreakAsync(ctx))
}

// BreakAsync is [Lock.Break] for select. The channel has capacity 1, delivers one value,
// is then closed by the agent, and needs no reader. If ctx has ended nothing is broken.
func (h *handle) BreakAsync(ctx context.Context) <-chan Result[bool] {
	if err := h.cannotAsk(ctx); err != nil {
		return delivered(Result[bool]{Err: err})
	}
	return h.locks.agent.Break(h.name)
}

func (h *handle) cannotAsk(ctx context.Context) error {
	if h.locks == nil {
		return errNoHandle
	}
	return context.Cause(ctx)
}
