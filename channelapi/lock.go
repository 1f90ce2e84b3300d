package channelapi

import (
	"context"
	"errors"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// Lock is a handle of one lock, with the options of its requests. Every request through it
// has an owner of its own. So the [Grant] has a Release, and the Lock has none. Make a Lock
// with [Locks.Lock]; the zero Lock is of no use.
type Lock struct{ handle }

// SessionLock is a handle of one lock for a [Session], which may acquire the lock again while
// it holds the lock. Make one with [Session.Lock]; the zero SessionLock is of no use.
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

// Release releases the youngest grant of the lock that the session has received. A handle that reads
// releases the youngest grant that reads, and any other handle one that does not. Release does not
// release a grant that still lies in a channel, or that [All] has while it waits for another
// lock. The errors are those of [lockagent.Grant.Release], with two exceptions. If the hold had
// been lost, the error is [ErrNotHeld], because only the grant remembers the loss. If another
// owner of these Locks holds the lock, the error is [ErrNotOwner]. If ctx ends first, Release
// returns the cause of ctx, and the lock is released all the same.
func (l *SessionLock) Release(ctx context.Context) error {
	released, err := receive(ctx, l.ReleaseAsync(ctx))
	if err != nil {
		return err
	}
	return released
}

// ReleaseAsync is [SessionLock.Release] for select. The channel has capacity 1, delivers
// one value, is then closed by the agent, and needs no reader. ctx only carries values, such
// as a trace. Its end changes nothing.
func (l *SessionLock) ReleaseAsync(ctx context.Context) <-chan error {
	if l.locks == nil {
		return delivered[error](errNoHandle)
	}
	return l.session.release(ctx, l.name, l.req.Mode)
}

// The requests for the kinds of locks, as they are without options.
var (
	plainLock  = &actor.Request{}
	fairLock   = &actor.Request{Kind: lockagent.FairLock}
	fencedLock = &actor.Request{Kind: lockagent.FencedLock}
	spinLock   = &actor.Request{Kind: lockagent.SpinLock}
	reading    = &actor.Request{Kind: lockagent.ReadWriteLock, Mode: lockagent.Shared}
	writing    = &actor.Request{Kind: lockagent.ReadWriteLock, Mode: lockagent.Exclusive}
)

// handle is a lock with the options of its requests.
type handle struct {
	locks   *Locks
	session *Session // nil if each request is an owner of its own
	name    lockagent.Name
	req     *actor.Request // does not change: all handles without options share it; nil for a zero handle
	err     error          // of the options
}

var errNoHandle = &OptionError{Option: "lock", Reason: "it is the zero one; make it with Locks.Lock or Session.Lock"}

// newHandle returns a handle of a lock. kind has the kind and the mode of its requests, and nothing else.
func newHandle(locks *Locks, session *Session, name string, kind *actor.Request, opts []Option) handle {
	req := kind
	var err error
	if len(opts) > 0 {
		req, err = requestOf(kind, opts)
	}
	if req.NoReentry && session == nil {
		err = errors.Join(err, &OptionError{
			Option: "noreentry",
			Reason: "only a session re-enters a lock; give the option to a handle of a session, or leave it out",
		})
	}
	return handle{locks: locks, session: session, name: lockagent.Name(name), req: req, err: err}
}

// wrong is the error of every request through the handle, or nil.
func (h *handle) wrong() error {
	if h.locks == nil {
		return errNoHandle
	}
	return h.err
}

// request is the request to make, for the caller to change.
func (h *handle) request() (req actor.Request) {
	if h.req != nil {
		req = *h.req
	}
	return req
}

// Name is the name of the lock.
func (h *handle) Name() Name { return h.name }

// Acquire asks for the lock and waits for the grant. The error is that of [lockagent.Grant.Err].
//
// The end of ctx ends the wait. It does not end the hold.
func (h *handle) Acquire(ctx context.Context) (Grant, error) { return h.acquire(ctx, h.request()) }

// TryAcquire is [Lock.Acquire] with [Try]: it returns a [*HeldError] if somebody holds the
// lock, and a [*GraceError] if the store waits for the holders of before. It ignores a [Wait] of the handle.
func (h *handle) TryAcquire(ctx context.Context) (Grant, error) {
	req := h.request()
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

// outcome is the error of a grant that was received. It replaces [ErrNotGranted], of a grant
// that was taken back, by the reason for that.
func (h *handle) outcome(ctx context.Context, g Grant) error {
	err := g.Err()
	switch {
	case !errors.Is(err, ErrNotGranted):
		return err
	case ctx.Err() != nil:
		return waitError(ctx, h.name, h.req.Kind.OrPlain(), 0)
	case h.session != nil && h.session.isClosed():
		return ErrSessionClosed
	case h.locks.isClosed():
		return ErrClosed
	}
	return err
}

// AcquireAsync is [Lock.Acquire] for select. It returns at once. The grant comes on a channel
// that has capacity 1, delivers one grant, is then closed by the agent, and needs no reader.
// A second receive yields the zero Grant, which is not held. For a select in a loop use
// [Lock.Turns].
//
// The end of ctx ends the request. If the grant is in the channel then, the agent takes it
// back. If the caller has received the grant, the hold goes on. So a caller may leave the
// select at any time, but must end ctx.
func (h *handle) AcquireAsync(ctx context.Context) <-chan Grant { return h.ask(ctx, h.request()) }

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
// is then closed by the agent, and needs no reader. If ctx has ended, StatusAsync asks
// nobody.
func (h *handle) StatusAsync(ctx context.Context) <-chan Result[Status] {
	if err := h.cannotAsk(ctx); err != nil {
		return delivered(Result[Status]{Err: err})
	}
	return h.locks.agent.Status(h.name, h.req.Kind)
}

// Break frees the lock, whoever holds it. It is for operators. held tells whether anybody
// held the lock. A holder of these Locks learns of the loss first, by [LostBroken]. A holder
// in another process, or one that shares the lock, learns of it by a message, or by its next
// renewal if the message is lost. That holder may act until then. If ctx ends first, Break returns the cause of ctx,
// and the lock is broken all the same. While the store waits for the holders of before, the error is a [*GraceError].
//
// operator is who breaks the lock: a text up to [lockagent.MaxNameLen] bytes. The holder finds
// it in its [LostError], and auditors in the event log. If it is empty, the identity of the
// agent takes its place.
func (h *handle) Break(ctx context.Context, operator string) (held bool, err error) {
	return answer(ctx, h.BreakAsync(ctx, operator))
}

// BreakAsync is [Lock.Break] for select. The channel has capacity 1, delivers one value,
// is then closed by the agent, and needs no reader. If ctx has ended, BreakAsync breaks
// nothing.
func (h *handle) BreakAsync(ctx context.Context, operator string) <-chan Result[bool] {
	if err := h.cannotAsk(ctx); err != nil {
		return delivered(Result[bool]{Err: err})
	}
	return h.locks.agent.Break(h.name, h.req.Kind, operator)
}

func (h *handle) cannotAsk(ctx context.Context) error {
	if h.locks == nil {
		return errNoHandle
	}
	return lockagent.CauseOf(ctx)
}
