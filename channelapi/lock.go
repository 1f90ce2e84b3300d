package channelapi

import (
	"context"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// Lock is a handle of one lock: of a session if it was made by [Session.Lock], or
// else of nobody. It holds nothing itself. The zero Lock is of no use.
type Lock struct {
	locks   *Locks
	session *Session // nil if each request is an owner of its own
	name    lockagent.Name
}

// Name is the name of the lock.
func (l *Lock) Name() lockagent.Name { return l.name }

// Acquire asks for the lock and returns at once. The channel has capacity 1,
// delivers the one grant that the request ends in, is then closed by the agent,
// and needs no reader. Receiving again yields the zero Grant, which is not held.
//
// The end of ctx ends the request, or takes the grant back if nobody has received
// it by then. It does not end a hold whose grant was received.
func (l *Lock) Acquire(ctx context.Context, opts ...AcquireOption) <-chan lockagent.Grant {
	var req actor.Request
	if err := applyAll(&req, opts); err != nil {
		return denied(l.name, err)
	}
	return l.ask(ctx, req)
}

func (l *Lock) ask(ctx context.Context, req actor.Request) <-chan lockagent.Grant {
	if l.session != nil {
		return l.session.acquire(ctx, l.name, req)
	}
	req.Owner = l.locks.newOwner()
	return l.locks.agent.Acquire(ctx, l.name, req)
}

// Lock is [Lock.Acquire] for callers who wait for the grant. The error is that of
// [lockagent.Grant.Err]; it is the cause of ctx also if the lock was granted but
// ctx ended before the caller could be given it.
func (l *Lock) Lock(ctx context.Context, opts ...AcquireOption) (lockagent.Grant, error) {
	var req actor.Request
	if err := applyAll(&req, opts); err != nil {
		return lockagent.Denied(l.name, "", err), err
	}
	var g lockagent.Grant
	if l.session != nil {
		g = <-l.session.acquire(ctx, l.name, req)
	} else {
		req.Owner = l.locks.newOwner()
		g = l.locks.agent.Lock(ctx, l.name, req)
	}
	return g, outcome(ctx, g)
}

// TryLock is [Lock.Lock] with [Try]: it returns a [*lockagent.HeldError] if the
// lock is held.
func (l *Lock) TryLock(ctx context.Context, opts ...AcquireOption) (lockagent.Grant, error) {
	return l.Lock(ctx, append(opts[:len(opts):len(opts)], Try())...)
}

// Release gives up the session's youngest grant of the lock. The outcome is that
// of [lockagent.Grant.Release], but a hold that was lost before is
// [lockagent.ErrNotHeld], for only its grants remember it. It is
// [lockagent.ErrNotOwner] if somebody else of this agent holds the lock, as it
// always is for a handle without a session: there the grant has to be released.
// The channel has capacity 1, delivers one value and is closed by the agent.
func (l *Lock) Release() <-chan error {
	if l.session != nil {
		return l.session.release(l.name)
	}
	return l.locks.agent.Release(l.name, nobody)
}

// nobody never holds a lock.
const nobody lockagent.Owner = ""

// Unlock is [Lock.Release] for callers who wait for the outcome. If ctx ends first
// it returns the cause of ctx, and the lock is released all the same.
func (l *Lock) Unlock(ctx context.Context) error {
	released, err := receive(ctx, l.Release())
	if err != nil {
		return err
	}
	return released
}

// ForceRelease frees the lock, whoever holds it: for operators. A holder of this
// agent is told first, by [lockagent.LostBroken]; a holder elsewhere finds out when
// it next renews its lease, and may act until then. The channel delivers whether
// anybody held the lock, is closed by the agent, and has capacity 1.
func (l *Lock) ForceRelease() <-chan lockagent.Result[bool] { return l.locks.agent.Break(l.name) }

// ForceUnlock is [Lock.ForceRelease] for callers who wait for the outcome.
func (l *Lock) ForceUnlock(ctx context.Context) (held bool, err error) {
	return Value(ctx, l.ForceRelease())
}

// Status asks the store and the agent who holds the lock. The channel delivers one
// value, is closed by the agent, and has capacity 1.
func (l *Lock) Status() <-chan lockagent.Result[lockagent.Status] {
	return l.locks.agent.Status(l.name)
}

// Inspect is [Lock.Status] for callers who wait for the answer.
func (l *Lock) Inspect(ctx context.Context) (lockagent.Status, error) {
	return Value(ctx, l.Status())
}

func denied(name lockagent.Name, err error) <-chan lockagent.Grant {
	out := make(chan lockagent.Grant, 1)
	out <- lockagent.Denied(name, "", err)
	close(out)
	return out
}
