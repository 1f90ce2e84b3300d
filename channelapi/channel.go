package channelapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
)

// answer receives a result: its value or its error, or the cause of ctx if that ends first.
func answer[T any](ctx context.Context, c <-chan Result[T]) (T, error) {
	r, err := receive(ctx, c)
	if err != nil {
		return r.Value, err
	}
	return r.Value, r.Err
}

// confirmed is answer for an outcome without a value.
func confirmed(ctx context.Context, c <-chan error) error {
	err, ended := receive(ctx, c)
	return cmp.Or(ended, err)
}

// receive receives from c. If ctx ends first, it returns the cause of ctx. A value that is in
// c already comes first.
func receive[T any](ctx context.Context, c <-chan T) (v T, err error) {
	select {
	case v = <-c:
		return v, nil
	default:
	}
	select {
	case v = <-c:
		return v, nil
	case <-ctx.Done():
		return v, lockagent.CauseOf(ctx)
	}
}

// delivered is a closed channel that has v.
func delivered[T any](v T) <-chan T {
	c := make(chan T, 1)
	c <- v
	close(c)
	return c
}

// denied is the channel of a request that never reached the agent.
func denied(name Name, err error) <-chan Grant { return delivered(lockagent.Denied(name, "", err)) }

// present panics if a context is nil, as package context does. What uses a context in a goroutine of its own calls it
// first: a panic there would end the program.
func present(ctx context.Context) {
	if ctx == nil {
		panic("channelapi: nil context; use context.Background")
	}
}

// async runs f in a goroutine, and delivers the value that f returns. f runs no code of the application: see working.
func async[T any](f func() T) <-chan T {
	out := make(chan T, 1)
	go func() {
		defer close(out)
		out <- f()
	}()
	return out
}

// whyTakenBack is the error of a request whose grants were taken back because of cause.
func whyTakenBack(ctx context.Context, cause error, name Name, waited time.Duration) error {
	if ctx.Err() != nil {
		return waitError(ctx, name, "", waited) // semaphores and latches are not combined
	}
	err := whyLost(cause)
	if _, lost := errors.AsType[*LostError](err); lost {
		return fmt.Errorf("%w: %w", ErrNotGranted, err)
	}
	return err
}

// whyLost is the error for a caller who was about to get a hold that ended with a cause.
func whyLost(cause error) error {
	lost, _ := errors.AsType[*LostError](cause)
	switch {
	case lost == nil:
		return cause
	case lost.Reason == LostClosed:
		return ErrClosed
	case lost.Reason == LostIdentity:
		return ErrIdentityInUse
	case lost.Reason == LostSessionClosed:
		return ErrSessionClosed
	}
	return lost
}

// waitError is the error of a request whose context has ended.
func waitError(ctx context.Context, name Name, kind lockagent.LockKind, waited time.Duration) error {
	timedOut := errors.Is(ctx.Err(), context.DeadlineExceeded)
	return &WaitError{Name: name, Kind: kind, Waited: waited, TimedOut: timedOut, Err: context.Cause(ctx)}
}
