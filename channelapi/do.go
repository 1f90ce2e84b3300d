package channelapi

import (
	"context"
	"errors"
	"slices"
)

// Do acquires the lock, runs work, and releases the lock. Most programs should use a lock
// in this way.
//
// The context of work ends when ctx ends, or when the hold is lost. Its [context.Cause] is a
// [*LostError] in the second case. Pass the context to all that work calls, and the token of
// the grant to all that work writes to.
//
// Do returns why the lock was not granted, or the error of work. If the hold was lost before
// work returned, Do joins the *LostError to the error of work: another holder may have
// worked at the same time. Do also reports a loss that only the release brings to light. A
// release that the store has not confirmed is no error of Do: work was done under the lock.
//
// ctx bounds the wait and the work. [Wait] bounds the wait alone. Do releases the lock even
// if ctx has ended or work panics.
func (h *handle) Do(ctx context.Context, work func(context.Context, Grant) error) (err error) {
	g, err := h.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = release(ctx, err, g) }()
	return work(g.Context(ctx), g)
}

// DoAsync is [Lock.Do] in a goroutine of its own, for select. The channel has capacity 1, delivers the error of Do, is
// then closed, and needs no reader. If work ends its goroutine, as [runtime.Goexit] and the FailNow of a test do, the
// channel delivers [ErrGoexit].
func (h *handle) DoAsync(ctx context.Context, work func(context.Context, Grant) error) <-chan error {
	present(ctx)
	return working(func() error { return h.Do(ctx, work) })
}

// DoAll is [Lock.Do] with several locks, which it acquires as [All] does. The grants are in
// the order of the locks. The context of work ends as soon as one of the holds is lost.
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
	present(ctx)
	return working(func() error { return DoAll(ctx, work, locks...) })
}

// ErrGoexit is the outcome of [Lock.DoAsync] if the work ended its goroutine, as [runtime.Goexit] does.
var ErrGoexit = errors.New(
	"lockagent: the work ended its goroutine, so nobody knows whether it is done; let work return an error")

// working runs do in a goroutine, and delivers its error. do runs code of the application, which may end the goroutine.
func working(do func() error) <-chan error {
	out := make(chan error, 1)
	go func() {
		defer close(out)
		err := ErrGoexit
		defer func() { out <- err }()
		err = do()
	}()
	return out
}

// release releases the grants, and joins to err a [*LostError] for each hold that was lost.
func release(ctx context.Context, err error, grants ...Grant) error {
	if len(grants) == 1 { // the caller can make the exchange
		if ctx.Done() != nil {
			ctx = context.WithoutCancel(ctx)
		}
		return withLoss(err, grants[0].Release(ctx))
	}
	released := make([]<-chan error, len(grants)) // so that the releases travel together
	for i, g := range slices.Backward(grants) {
		released[i] = g.ReleaseAsync(ctx)
	}
	for _, done := range released {
		err = withLoss(err, <-done)
	}
	return err
}

// withLoss joins to err what a release says, if that is a loss.
func withLoss(err, released error) error {
	switch {
	case errors.Is(released, ErrNotHeld), errors.Is(released, ErrUnconfirmed), errors.Is(released, ErrClosed):
		// The work released it, or the lease ends it at the latest.
	case released != nil && !errors.Is(err, released): // work may have returned it
		err = errors.Join(err, released)
	}
	return err
}
