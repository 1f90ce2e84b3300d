package channelapi

import (
	"context"
	"errors"
	"slices"
)

// Do acquires the lock, does the work while it is held, and releases it. This is how most
// programs should use a lock.
//
// The context of the work ends with ctx, and when the hold ends: then
// [context.Cause] is a [*LostError]. Pass it to whatever the work calls, and the token of
// the grant to whatever it writes to.
//
// Do returns why the lock was not granted, or what work returned. If the hold was lost
// before the work was done, Do joins the *LostError to that: others may have been at work
// at the same time. It does so also if only the store knew of the loss. A release that the
// store has not confirmed is no error of Do: the work was done under the lock.
//
// ctx bounds the wait and the work; [Wait] bounds the wait alone. The lock is released
// also if ctx has ended, and if work panics.
func (h *handle) Do(ctx context.Context, work func(context.Context, Grant) error) (err error) {
	g, err := h.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = release(ctx, err, g) }()
	return work(g.Context(ctx), g)
}

// DoAsync is [Lock.Do] in a goroutine of its own, for select. The channel has capacity 1,
// delivers what Do returns, is then closed, and needs no reader.
func (h *handle) DoAsync(ctx context.Context, work func(context.Context, Grant) error) <-chan error {
	return async(func() error { return h.Do(ctx, work) })
}

// DoAll is [Lock.Do] with several locks, acquired as [All] does. The work is given the
// grants in the order of the locks, and a context that ends as soon as one of the holds
// does.
func DoAll(ctx context.Context, work func(context.Context, []Grant) error, locks ...AnyLock) (err error) {
	grants, err := All(ctx, locks...)
	if err != nil {
		return err
	}
	defer func() { err = release(ctx, err, grants...) }()
	under := ctx
	for _, g := range grants {
		under = g.Context(under)
	}
	return work(under, grants)
}

// DoAllAsync is [DoAll] in a goroutine of its own, for select. The channel is like that of
// [Lock.DoAsync].
func DoAllAsync(ctx context.Context, work func(context.Context, []Grant) error, locks ...AnyLock) <-chan error {
	return async(func() error { return DoAll(ctx, work, locks...) })
}

// release releases the grants and joins to err how their holds were lost, if they were.
func release(ctx context.Context, err error, grants ...Grant) error {
	released := make([]<-chan error, len(grants)) // and not Release: ctx may have ended
	for i, g := range slices.Backward(grants) {
		released[i] = g.ReleaseAsync(ctx)
	}
	for _, done := range released {
		lost := <-done
		switch {
		case errors.Is(lost, ErrNotHeld), errors.Is(lost, ErrUnconfirmed), errors.Is(lost, ErrClosed):
			// the work released it, or the store will hear of it or let it run out
		case lost != nil && !errors.Is(err, lost): // which work may have returned
			err = errors.Join(err, lost)
		}
	}
	return err
}
