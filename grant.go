package lockagent

import (
	"context"
	"time"
)

// Grant is the outcome of a request: a hold on a lock, or the reason why there
// is none. Every request is answered with one Grant.
//
// The zero Grant is not held: its Token is 0 and its Err is [ErrNotGranted]. A receive from
// a closed channel yields it: the channel delivered its grant before, or the agent took the
// grant back because nobody received it in time.
//
// A Grant is a value. Its copies are about the same hold. All methods are safe for
// concurrent use.
type Grant struct {
	name  Name
	owner Owner
	token Token
	count int
	hold  Hold
	err   error
}

// Hold stands behind a held [Grant]. Agents implement it. Applications use the methods of
// Grant.
type Hold interface {
	// Done is closed when the hold is over. The channel does not keep the Hold in use.
	Done() <-chan struct{}

	// Cause is nil until the hold is over, and then [ErrReleased] or a [*LostError]. It does not change any more.
	Cause() error

	// EndWith has ctx end with the hold: the agent calls cancel with the cause when the hold is over, before anybody
	// else can be granted the lock. If the hold is over already, EndWith calls cancel at once. cancel must not block.
	// Some time after ctx has ended, the agent lets go of both. They do not keep the Hold in use.
	EndWith(ctx context.Context, cancel context.CancelCauseFunc)

	// Wanted is closed when others want the lock. See [Grant.Wanted].
	Wanted() <-chan struct{}

	// Uncertain is closed when the hold is over soon unless a renewal succeeds. See [Grant.Uncertain].
	Uncertain() <-chan struct{}

	// Remaining is how long the agent still trusts the lease without another renewal. It is
	// zero or less when the hold is over.
	Remaining() time.Duration

	// ExtendAsync restarts a fixed lease. See [Grant.ExtendAsync].
	ExtendAsync(ctx context.Context, d time.Duration) <-chan error

	// Release ends the hold and waits for the outcome. See [Grant.Release].
	Release(ctx context.Context) error

	// ReleaseAsync ends the hold. See [Grant.ReleaseAsync].
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
//   - a [*GraceError] if the request would not wait, and the store waits for the holders of before;
//   - a [*WaitError] if the wait passed or the context ended first. It matches [ErrTimeout]
//     and [context.DeadlineExceeded] if time ran out. It matches the cause of the context
//     if the context ended, and [context.Canceled] if the context was cancelled;
//   - [ErrClosed] or [ErrSessionClosed] if the agent or the session was closed;
//   - a [*LostError] if the hold was lost before the grant reached a caller who waited for it;
//   - a [*ReplicasError] if too few replicas of the store knew of the grant in time;
//   - [ErrWrongType], [ErrNotPermitted], [ErrNoTokens] or [ErrStoreUnavailable] if the store
//     refused or could not be asked;
//   - a [*NameError], [*OwnerError] or [*OptionError] if the request was wrong.
//
// Err is about the request. It does not change when the hold ends: see [Grant.Done] and
// [Grant.Cause] for that.
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

// Token is the fencing number of the hold, or 0 if nothing was granted. Readers of different agents may have the same
// one while they overlap, and so do the grants of one session. Pass it with every write to the resource that the lock
// protects. Let the resource refuse tokens smaller than the greatest it has seen. If a write depends on a read, let the
// resource check the token at the read, too.
func (g Grant) Token() Token { return g.token }

// HoldCount is the number of grants of the lock that the owner had when this one was made.
// This one counts: it is 1 for the first grant, and 2 for the first re-entry.
func (g Grant) HoldCount() int { return g.count }

// Replicas is how many replicas of the store were known to have the hold when it was granted. They
// keep it if the master fails and one of them takes over. The count is that of the store's last
// confirmation before this grant. So a hand-off and a re-entry have the count of the first grant, or of
// the last renewal. There may be more replicas: the store waits for no more than it
// has to. Replicas is 0 if the store does not ask its replicas.
func (g Grant) Replicas() int {
	if known, ok := g.hold.(interface{ Replicas() int }); ok {
		return known.Replicas()
	}
	return 0
}

// Held reports whether the agent trusts its lease at this moment. It asks no store. It is
// false from the deadline on, also right after the machine was suspended. [Grant.Done] may
// be late in that case.
func (g Grant) Held() bool { return g.hold != nil && g.Remaining() > 0 }

// Remaining is how long the agent still trusts the lease without another renewal. It is 0
// if the lock is not held.
func (g Grant) Remaining() time.Duration {
	if g.hold == nil {
		return 0
	}
	return max(0, g.hold.Remaining())
}

// Done returns a channel that is closed when the hold is over: lost or released.
// [Grant.Cause] tells which. The channel never delivers a value. It is closed already if
// the grant was never held.
//
// The channel does not keep the hold: if nothing else refers to the grant, or to a context of it, the agent takes the
// hold back, and closes the channel. So use the grant after the wait: ask for its [Grant.Cause], or release it.
func (g Grant) Done() <-chan struct{} {
	if g.hold == nil {
		return alwaysClosed
	}
	return g.hold.Done()
}

// Cause is nil while the lock is held. Afterwards it is [ErrReleased] if the owner released
// the lock, or a [*LostError] that says how the hold was lost. For a grant that was never
// held Cause is [Grant.Err].
func (g Grant) Cause() error {
	if g.hold == nil {
		return g.Err()
	}
	return g.hold.Cause()
}

// Wanted returns a channel that is closed when somebody waits for the lock who cannot have it while this hold lasts:
// another owner of this agent, another agent, or a client of Redisson's. A leader, a backup or a batch job can then
// give way at a safe point: nobody takes the lock from it.
//
//   - Another agent is known within milliseconds of its attempt, a client of Redisson's with the next renewal. A fixed
//     lease is not renewed, and nothing shows who waits for Redisson's spin lock. A store without queues, such as a
//     quorum, tells of nobody: then only owners of this agent count.
//   - A reader is wanted when a writer waits, and not when other readers do. A writer first waits for the readers of
//     its own agent, and then asks the others. Holders of permits are wanted when somebody
//     waits for more permits than are free. The first eight holders in the store learn of an attempt at once, and the
//     others with their next renewals.
//   - The own session is nobody else, and a request that does not wait does not count.
//
// The channel never delivers a value. It stays closed, also if who waited has given up since. It is not closed by the
// end of the hold: select on [Grant.Done], too. It is nil if the grant was never held. A hold for which nobody calls
// Wanted costs nothing. Otherwise each of its renewals has the store look who waits. The channel alone does not keep
// the hold in use, as that of Done does.
func (g Grant) Wanted() <-chan struct{} {
	if g.hold == nil {
		return nil
	}
	return g.hold.Wanted()
}

// Uncertain returns a channel that is closed when the hold is in danger: the agent could not renew the lease, and less
// than a third of the time for which it trusts the lease is left. The holder can stop to begin new work, before the
// lock is lost at the deadline. [Grant.Remaining] tells how long that is from now.
//
// The renewal has failed by then, or has had no answer for half of the time from its call to the deadline. For example,
// a lease of 30 s is trusted for 28 s. It is renewed after 10 s, and again and again if that fails. The channel is
// closed after 18.7 s. A fixed lease is uncertain only if it needs a renewal, as after [Grant.Extend].
//
// The channel never delivers a value. It stays closed when a later renewal succeeds. From then on Uncertain returns
// another channel, which is open. So whoever begins new work asks anew:
//
//	select {
//	case <-g.Uncertain(): // not now
//	default:
//	}
//
// The channel is not closed by the end of the hold: select on [Grant.Done], too. It is nil if the grant was never held.
// It alone does not keep the hold in use, as that of Done does.
func (g Grant) Uncertain() <-chan struct{} {
	if g.hold == nil {
		return nil
	}
	return g.hold.Uncertain()
}

// Context returns a child of parent that is cancelled when the hold is over. Its cause is
// then [Grant.Cause]. Run the work that the lock protects under it. It costs no goroutine,
// and needs no cancel: the agent lets go of it when the hold is over.
//
// The context keeps the hold: the agent does not take the hold back while somebody works under the context, or under
// one made of it that has not ended. The channel of its Done alone does not keep the hold, as that of [Grant.Done].
//
// If parent is not of package context, the agent calls its Done and Value when the hold ends. They must not block.
func (g Grant) Context(parent context.Context) context.Context {
	from := parent
	if of, ok := parent.(*holdContext); ok {
		from = of.Context // so that one hold does not keep the other
	}
	ctx, cancel := context.WithCancelCause(from)
	if g.hold == nil {
		cancel(g.Err())
		return ctx
	}
	// Not context.AfterFunc: that would cancel ctx from another goroutine, perhaps only when the next holder is at
	// work.
	g.hold.EndWith(ctx, cancel)
	return &holdContext{Context: ctx, hold: g.hold, parent: parent}
}

// holdContext is a context that ends with a hold. Who has it has the hold in use, and that of its parent. The agent has
// the context inside, which refers to neither.
type holdContext struct {
	context.Context
	hold   Hold
	parent context.Context
}

// Release ends the hold and waits for the outcome. It returns nil if the agent returned the
// lock to the store or handed it off, and otherwise
//
//   - a [*LostError] if the hold had been lost: the work may have overlapped with another
//     holder's work;
//   - [ErrNotHeld] if the grant had been released before, or was never held;
//   - [ErrUnconfirmed] if the store has not confirmed the release. The hold is over all the
//     same. The agent repeats the release until the lease has run out. Or the release waited for a renewal until the
//     deadline, and the store then had no such tenure: whether the hold was lost before is not known;
//   - [ErrClosed] if the store was closed. The hold is over all the same. The lock is free
//     when its lease has run out.
//
// If ctx has ended, Release releases the lock but does not wait: it returns the cause of
// ctx, and the caller does not hear of a loss. So pass a context that outlives the work:
//
//	err := g.Release(context.WithoutCancel(ctx))
//
// This does not wait for ever, because the store bounds the time of each call.
func (g Grant) Release(ctx context.Context) error {
	if g.hold == nil {
		return ErrNotHeld
	}
	return g.hold.Release(ctx)
}

// ReleaseAsync is [Grant.Release] for select. It returns at once. The outcome comes on a
// channel that has capacity 1, delivers one value, is then closed by the agent, and needs
// no reader. ctx only carries values, such as a trace. Its end changes nothing.
func (g Grant) ReleaseAsync(ctx context.Context) <-chan error {
	if g.hold == nil {
		return notHeld()
	}
	return g.hold.ReleaseAsync(ctx)
}

// Extend restarts a fixed lease, for d from now, and waits for the outcome. A call never
// shortens the lease. Extend returns nil if the store has confirmed the extension, or if the lease is kept because of
// another hold of the session: then the extension counts when it is kept no more. Otherwise Extend returns
//
//   - a [*LostError] if the hold is lost before that, for example because the store is
//     silent until the lease runs out;
//   - [ErrNotHeld] if the grant is released before that, or was never held;
//   - an [*OptionError] if d is not between [MinLease] and [MaxLease], or if the request had no
//     fixed lease: a kept one needs no extension.
//
// If ctx ends first, Extend returns the cause of ctx, and the extension goes on.
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
		return CauseOf(ctx)
	}
}

// ExtendAsync is [Grant.Extend] for select. It returns at once. The outcome comes on a
// channel like that of [Grant.ReleaseAsync].
func (g Grant) ExtendAsync(ctx context.Context, d time.Duration) <-chan error {
	if g.hold == nil {
		return notHeld()
	}
	return g.hold.ExtendAsync(ctx, d)
}

// notHeld is the channel of a grant that was never held.
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
