package lockagent

import (
	"context"
	"time"
)

// Grant is the outcome of a request: a hold on a lock, or the reason why there
// is none. Every request ends in exactly one Grant.
//
// The zero Grant is not held: its Token is 0 and its Err is [ErrNotGranted].
// It is what a receive from a channel yields that has delivered its grant
// before, or whose grant was taken back because nobody received it in time.
//
// A Grant is a value: copies speak of the same hold. All methods are safe for
// concurrent use.
type Grant struct {
	name  Name
	owner Owner
	token Token
	count int
	hold  Hold
	err   error
}

// Hold is what stands behind a held [Grant]. It is implemented by agents;
// applications use the methods of Grant.
type Hold interface {
	// Context is done when the hold is over. Its cause is [ErrReleased] or a
	// [*LostError].
	Context() context.Context

	// OnEnd has f called with the cause when the hold is over, before anybody else
	// can be granted the lock, or at once if it is over already. f must not block.
	// stop lets f go.
	OnEnd(f func(cause error)) (stop func())

	// Remaining is how long the agent still trusts the lease, at least. It is
	// zero or less when the hold is over.
	Remaining() time.Duration

	// ExtendAsync has a fixed lease begin anew. See [Grant.ExtendAsync].
	ExtendAsync(ctx context.Context, d time.Duration) <-chan error

	// Release gives the hold up and waits for the outcome. See [Grant.Release].
	Release(ctx context.Context) error

	// ReleaseAsync gives the hold up. See [Grant.ReleaseAsync].
	ReleaseAsync(ctx context.Context) <-chan error
}

// NewGrant returns a held grant. It is for agents.
func NewGrant(name Name, owner Owner, token Token, count int, hold Hold) Grant {
	return Grant{name: name, owner: owner, token: token, count: count, hold: hold}
}

// Denied returns a grant that is not held, because of err. It is for agents.
func Denied(name Name, owner Owner, err error) Grant {
	return Grant{name: name, owner: owner, err: err}
}

// Err is nil if the lock was granted. Otherwise it says why not:
//
//   - [ErrNotGranted] for the zero Grant;
//   - a [*HeldError] if the request would not wait and the lock is held;
//   - a [*WaitError] if the wait passed or the context ended first: it is [ErrTimeout]
//     and [context.DeadlineExceeded] if time ran out, and the cause of the context;
//   - [ErrClosed] or [ErrSessionClosed] if the agent or the session was closed;
//   - [ErrWrongType], [ErrNotPermitted] or [ErrStoreUnavailable] if the store
//     refused or could not be asked;
//   - a [*NameError], [*OwnerError] or [*OptionError] if the request was wrong.
//
// Err speaks of the request, not of what happened to the hold since: for that
// see [Grant.Done] and [Grant.Cause].
func (g Grant) Err() error {
	if g.hold == nil && g.err == nil {
		return ErrNotGranted
	}
	return g.err
}

// Name is the name of the lock.
func (g Grant) Name() Name { return g.name }

// Owner is who holds the lock.
func (g Grant) Owner() Owner { return g.owner }

// Token is the fencing number of the hold, or 0 if nothing was granted. Pass it
// with every write to the resource that the lock protects, and let the resource
// refuse tokens smaller than the greatest it has seen. A write that depends on a read
// needs the token checked at the read as well.
func (g Grant) Token() Token { return g.token }

// HoldCount is how many grants of this lock the owner had when this one was
// made, this one included: 1 for the first, more for each re-entry.
func (g Grant) HoldCount() int { return g.count }

// Held reports whether the agent trusts, at this moment, that the lock is held.
// It asks no store. It turns false at the deadline even if the process was
// suspended in the meantime, which [Grant.Done] may tell later.
func (g Grant) Held() bool { return g.hold != nil && g.Remaining() > 0 }

// Remaining is for how long the agent trusts its lease from now on, renewals to
// come not counted. It is 0 if the lock is not held.
func (g Grant) Remaining() time.Duration {
	if g.hold == nil {
		return 0
	}
	return max(0, g.hold.Remaining())
}

// Done returns a channel that is closed when the hold is over, for whatever reason, also
// by a release. [Grant.Cause] tells which. It never delivers a value. For a grant that was
// never held it is closed already.
func (g Grant) Done() <-chan struct{} {
	if g.hold == nil {
		return alwaysClosed
	}
	return g.hold.Context().Done()
}

// Cause is nil while the lock is held. Afterwards it is [ErrReleased] if the
// owner released it, or a [*LostError] that says how it was lost. For a grant
// that was never held it is the same as [Grant.Err].
func (g Grant) Cause() error {
	if g.hold == nil {
		return g.Err()
	}
	return context.Cause(g.hold.Context())
}

// Context returns a child of parent that is cancelled when the hold is over,
// with the cause that [Grant.Cause] tells. Run the work that the lock protects
// under it. It costs no goroutine, and is let go when the hold is over.
func (g Grant) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	if g.hold == nil {
		cancel(g.Err())
		return ctx
	}
	// Not context.AfterFunc on the hold's context: that would cancel ctx from another
	// goroutine, perhaps only when the next holder is at work.
	stop := g.hold.OnEnd(cancel)
	context.AfterFunc(ctx, stop)
	return ctx
}

// Release gives the hold up and waits for the outcome: nil if the lock was given back
// or passed on, and otherwise
//
//   - a [*LostError] if the hold had been lost: what was done under it may have
//     overlapped with another holder's work;
//   - [ErrNotHeld] if it had been released before, or was never granted;
//   - [ErrUnconfirmed] if the store could not be told yet. The hold is over all the same.
//     The agent keeps trying until the lease has run out by itself;
//   - [ErrClosed] if the store was closed. The hold is over all the same, and the lock is
//     free when its lease has run out.
//
// A ctx that has ended still releases. But then Release does not wait: it returns the
// cause of ctx, and nobody hears of a loss. Give it a context that outlives the work, such
// as [context.WithoutCancel] of the one that the work had. The store bounds the time.
func (g Grant) Release(ctx context.Context) error {
	if g.hold == nil {
		return ErrNotHeld
	}
	return g.hold.Release(ctx)
}

// ReleaseAsync is [Grant.Release] for select: it returns at once, and the outcome comes
// on a channel. That has capacity 1, delivers one value, is then closed by the agent, and
// needs no reader. ctx only carries values, such as a trace; its end changes nothing.
func (g Grant) ReleaseAsync(ctx context.Context) <-chan error {
	if g.hold == nil {
		return notHeld()
	}
	return g.hold.ReleaseAsync(ctx)
}

// Extend has a fixed lease begin anew, for d from now, and waits for the outcome: nil if
// the store has confirmed it, and otherwise
//
//   - a [*LostError] if the hold ended before that, or had ended: also if the store was
//     silent until the lease ran out;
//   - [ErrNotHeld] if it had been released before, or was never granted;
//   - an [*OptionError] if the lease is kept, which needs no extension, or if d is not
//     between [MinLease] and [MaxLease].
//
// The lease never ends earlier for that. If ctx ends first Extend returns the cause of ctx,
// and the lease is extended all the same.
func (g Grant) Extend(ctx context.Context, d time.Duration) error {
	done := g.ExtendAsync(ctx, d)
	select {
	case err := <-done:
		return err
	default:
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ExtendAsync is [Grant.Extend] for select: it returns at once, and the outcome comes on a
// channel like that of [Grant.ReleaseAsync].
func (g Grant) ExtendAsync(ctx context.Context, d time.Duration) <-chan error {
	if g.hold == nil {
		return notHeld()
	}
	return g.hold.ExtendAsync(ctx, d)
}

// notHeld is the outcome of what is asked of a grant that was never held.
func notHeld() <-chan error {
	done := make(chan error, 1)
	done <- ErrNotHeld
	close(done)
	return done
}

var alwaysClosed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
