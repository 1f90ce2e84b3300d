package channelapi

import (
	"context"
	"time"

	"github.com/lockagent/lockagent"
)

// answer is the value or the error that comes on a channel, or the cause of ctx.
func answer[T any](ctx context.Context, c <-chan Result[T]) (T, error) {
	r, err := receive(ctx, c)
	if err != nil {
		return r.Value, err
	}
	return r.Value, r.Err
}

// receive receives what is in c or, if nothing is there yet, what comes before ctx
// ends. Otherwise it returns the cause of ctx.
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
		return v, context.Cause(ctx)
	}
}

// delivered is a channel that has v for whoever receives first.
func delivered[T any](v T) <-chan T {
	c := make(chan T, 1)
	c <- v
	close(c)
	return c
}

// denied is the channel of a request that was not made.
func denied(name Name, err error) <-chan Grant { return delivered(lockagent.Denied(name, "", err)) }

// async delivers what f returns.
func async[T any](f func() T) <-chan T {
	out := make(chan T, 1)
	go func() {
		defer close(out)
		out <- f()
	}()
	return out
}

// offer delivers what f returns. If nobody has received that when ctx ends, or when claim
// has passed, it goes to giveBack.
func offer[T any](ctx context.Context, claim time.Duration, f func() T, giveBack func(T)) <-chan T {
	out := make(chan T, 1)
	takeBack := func() {
		if v, ok := <-out; ok { // closed and empty if somebody was faster
			giveBack(v)
		}
	}
	go func() {
		out <- f()
		close(out)
		stop := context.AfterFunc(ctx, takeBack)
		time.AfterFunc(claim, func() {
			stop()
			takeBack()
		})
	}()
	return out
}
