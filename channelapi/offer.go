package channelapi

import (
	"context"
	"slices"
	"time"

	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/slot"
)

// offer is a value, made of grants, that this package passes on to the caller. It watches the requests for those
// grants, and is taken back before the agent goes on with the lock of a hold that ends.
type offer[T any] struct {
	actor.NopWatcher
	*slot.Slot[T]
}

// Ended implements [actor.Watcher].
func (o offer[T]) Ended(error) { o.Check() }

// Received implements [actor.Watcher].
func (o offer[T]) Received() bool { return o.Slot.Received() }

// offering runs ask in a goroutine, and delivers what outcome makes of the result. It waits
// until ctx ends, their claim has passed, the locks are closed or one of the grants is lost. If nobody has received the
// grants by then, offering gives them back and delivers the reason in their place. Then it
// closes the channel. ask gives the watcher to its requests.
func offering[T any](
	ctx context.Context, locks []AnyLock,
	ask func(actor.Watcher) ([]Grant, error), outcome func([]Grant, error) T,
) <-chan T {
	present(ctx)
	out := make(chan T, 1)
	begin := time.Now()
	go func() {
		defer close(out)
		o := offer[T]{Slot: slot.In(out)}
		grants, err := ask(o)
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
		o.Put(outcome(grants, nil), func() bool { return !slices.ContainsFunc(grants, isOver) })
		<-all.Done()
		if !o.TakeBack() {
			return // the caller has received it
		}
		for _, g := range slices.Backward(grants) {
			g.ReleaseAsync(ctx)
		}
		out <- outcome(nil, whyTakenBack(ctx, context.Cause(all), grants[0].Name(), time.Since(begin)))
	}()
	return out
}

func isOver(g Grant) bool { return g.Cause() != nil }
