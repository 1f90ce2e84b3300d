package channelapi

import (
	"context"
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
		return v, context.Cause(ctx)
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

// async runs f in a goroutine, and delivers the value that f returns.
func async[T any](f func() T) <-chan T {
	out := make(chan T, 1)
	go func() {
		defer close(out)
		out <- f()
	}()
	return out
}

// offer runs f in a goroutine, and delivers the value that f returns. If nobody has received
// the value when ctx ends, or when claim has passed, giveBack gets it.
func offer[T any](ctx context.Context, claim time.Duration, f func() T, giveBack func(T)) <-chan T {
	out := make(chan T, 1)
	takeBack := func() {
		if v, ok := <-out; ok { // otherwise somebody has received it
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
