package channelapi

import (
	"context"
	"errors"
	"time"

	"github.com/lockagent/lockagent"
)

// Turns is for loops that want the lock again and again. It returns a channel that
// delivers one grant after the other:
//
//	turns := lock.Turns(ctx)
//	for {
//		select {
//		case g := <-turns:
//			if err := g.Err(); err != nil {
//				return err // the last value: ctx has ended, the locks were closed, ...
//			}
//			work(g.Context(ctx))
//			g.Release(ctx)
//		case <-tick:
//			...
//		}
//	}
//
// Call it once, before the loop. There is one request at a time. The next is made when the
// last grant was released, or its hold was lost, and it waits behind all others.
//
// A loop that is busy with something else may have a grant in the channel meanwhile. After
// Config.Claim the grant is given back, and the log says so. The next request is made when
// as much time has passed again: so others have the lock for half of the time at least.
//
// The channel has capacity 1 and needs no reader. The last value is a grant that is not
// held: its Err tells that ctx has ended, or why the request failed. Then the channel is
// closed. A hold whose grant was received goes on when ctx ends. Options that bound the wait
// make no sense here: with [Wait] or [Try] the last value is the first, an [*OptionError].
func (h *handle) Turns(ctx context.Context) <-chan Grant {
	err := h.wrong()
	if err == nil && (h.req.Try || h.req.Wait != 0) {
		err = &OptionError{Option: "wait", Reason: "turns are waited for until the context ends; leave Wait and Try out"}
	}
	if err != nil {
		return denied(h.name, err)
	}
	t := &turns{handle: h, out: make(chan Grant, 1)}
	go t.run(ctx)
	return t.out
}

// turns is one loop of requests. It belongs to its goroutine.
type turns struct {
	*handle
	out    chan Grant // empty when a request is made
	missed bool       // one was, and the log says so
}

func (t *turns) run(ctx context.Context) {
	defer close(t.out)
	for {
		over := make(chan struct{})
		req := t.req
		req.Over = func() { close(over) }
		g := <-t.ask(ctx, req)
		err := t.outcome(ctx, g)
		if errors.Is(err, ErrNotGranted) {
			continue // its hold ended before we could receive it
		}
		if err != nil {
			t.out <- lockagent.Denied(t.name, g.Owner(), err)
			return
		}
		t.out <- g
		g = Grant{} // so that we do not keep alive what the receiver drops
		if !t.wait(ctx, over) {
			t.out <- lockagent.Denied(t.name, "", t.outcome(ctx, Grant{}))
			return
		}
	}
}

// wait waits until the hold of the grant that was delivered is over, and for as long as it
// takes to be fair to others. It reports false, and leaves the channel empty, if ctx ends.
func (t *turns) wait(ctx context.Context, over <-chan struct{}) bool {
	claim := time.NewTimer(t.locks.claim)
	defer claim.Stop()
	for {
		select {
		case <-over:
			t.takeBack(ctx)
			return true
		case <-claim.C:
			if !t.takeBack(ctx) {
				continue // it was received
			}
			t.miss()
			select {
			case <-time.After(t.locks.claim):
				return true
			case <-ctx.Done():
				return false
			}
		case <-ctx.Done():
			t.takeBack(ctx)
			return false
		}
	}
}

// miss logs that nobody received a grant.
func (t *turns) miss() {
	if !t.missed {
		t.missed = true
		t.locks.logger.Warn("lockagent: nobody received a turn, so it was given back; receive from the channel of Turns or end its context",
			"lock", t.name, "after", t.locks.claim)
	}
}

// takeBack gives back the grant that nobody has received. It reports whether there was one.
func (t *turns) takeBack(ctx context.Context) bool {
	select {
	case g := <-t.out:
		g.ReleaseAsync(ctx)
		return true
	default:
		return false
	}
}
