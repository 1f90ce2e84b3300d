package channelapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent/actor"
)

// offer is a value, made of grants, that this package passes on to the caller. It tells
// the agent whether the caller has received the value. It takes the value out of the channel
// when a hold of these grants ends, before the agent goes on with the lock.
type offer[T any] struct {
	out chan T // has room for the value

	mu    sync.Mutex // never held while something else than out is used
	stage stage      // guarded by mu
}

type stage uint8

const (
	unsent stage = iota
	sent         // the value is in the channel, or has been received
	withdrawn
	received
)

// tie makes a request one of the offer.
func (o *offer[T]) tie(req *actor.Request) {
	req.Received = o.received
	req.Over = func() { o.withdraw() }
}

// send puts the value into the channel. It reports false if the offer was withdrawn before.
func (o *offer[T]) send(v T) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stage != unsent {
		return false
	}
	o.out <- v
	o.stage = sent
	return true
}

// withdraw takes the value out of the channel, unless the caller has received it. From then on
// no value of the offer is in the channel. ok tells that v was.
func (o *offer[T]) withdraw() (v T, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch o.stage {
	case unsent:
		o.stage = withdrawn
	case sent:
		select {
		case v = <-o.out:
			o.stage = withdrawn
			return v, true
		default:
			o.stage = received
		}
	}
	return v, false
}

// received reports whether the caller has received the value.
func (o *offer[T]) received() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stage == received || o.stage == sent && len(o.out) == 0
}

// offering runs ask in a goroutine, and delivers what outcome makes of the result. It waits
// until ctx ends, their claim has passed, the locks are closed or one of the grants is lost. If nobody has received the
// grants by then, offering gives them back and delivers the reason in their place. Then it
// closes the channel. ask ties its requests to the offer that it returns.
func offering[T any](
	ctx context.Context, locks []AnyLock,
	ask func(out chan T) ([]Grant, *offer[T], error), outcome func([]Grant, error) T,
) <-chan T {
	present(ctx)
	out := make(chan T, 1)
	begin := time.Now()
	go func() {
		defer close(out)
		grants, o, err := ask(out)
		if err != nil {
			out <- outcome(nil, err)
			return
		}
		all, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		for _, l := range locks {
			defer context.AfterFunc(l.base().locks.life, func() { stop(ErrClosed) })()
		}
		all, cancel := context.WithTimeoutCause(all, claimOf(locks), ErrNotGranted)
		defer cancel()
		for _, g := range grants {
			all = g.Context(all)
		}
		if all.Err() == nil && o.send(outcome(grants, nil)) {
			<-all.Done()
			o.withdraw()
			if o.received() {
				return
			}
		}
		for _, g := range slices.Backward(grants) {
			g.ReleaseAsync(ctx)
		}
		out <- outcome(nil, whyTakenBack(ctx, context.Cause(all), grants[0].Name(), time.Since(begin)))
	}()
	return out
}
