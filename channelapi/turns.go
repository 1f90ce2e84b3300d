package channelapi

import (
	"context"
	"errors"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/slot"
)

// Turns is for loops that need the lock again and again. It returns a channel that delivers
// one grant after the other:
//
//	turns := lock.Turns(ctx)
//	for {
//		select {
//		case g := <-turns:
//			if err := g.Err(); err != nil {
//				return err // the last value: ctx has ended, the locks were closed, ...
//			}
//			work(g.Context(ctx))
//			if err := g.Release(context.WithoutCancel(ctx)); err != nil {
//				log.Print(err) // if it is a *LostError, the work may have overlapped with another's
//			}
//		case <-tick:
//			...
//		}
//	}
//
// Call Turns once, before the loop. Turns makes one request at a time. It makes the next
// request when the last grant was released or its hold was lost. That request waits behind
// all others.
//
// While the loop is busy with something else, a grant may lie in the channel. Turns gives it
// back after Config.Claim, and the first such grant is logged. Then it waits for Config.Claim before the next
// request, and gives the next grants back after 100 ms, until the loop receives one. So a
// loop that has forgotten its channel takes next to nothing from others.
//
// The channel has capacity 1 and needs no reader. The last value is a grant that is not
// held. It comes at once when ctx ends, or when the locks or the session are closed and the
// loop holds nothing. Its Err tells that, or why the request failed. Then the channel is
// closed. If the loop has received a grant, the hold goes on when ctx ends. [Wait] and [Try]
// make no sense with Turns: then the only value is an [*OptionError].
func (h *handle) Turns(ctx context.Context) <-chan Grant {
	present(ctx)
	err := h.wrong()
	if err == nil && (h.req.Try || h.req.Wait != 0) {
		err = &OptionError{
			Option: "wait", Reason: "turns are waited for until the context ends; leave Wait and Try out",
		}
	}
	if err != nil {
		return denied(h.name, err)
	}
	t := turns{handle: h, out: make(chan Grant, 1)}
	go t.run(ctx)
	return t.out
}

// turns is one loop of requests. It belongs to its goroutine.
type turns struct {
	*handle
	out chan Grant // empty when a request is made
}

// claimShort is how long a grant may lie in the channel after one that nobody received.
const claimShort = 100 * time.Millisecond

func (t *turns) run(ctx context.Context) {
	defer close(t.out)
	missed := false // nobody received the last grant in time
	for {
		this := &turn{slot: slot.In(t.out), answered: make(chan struct{}), over: make(chan struct{})}
		req := t.request()
		req.Slot, req.Claim, req.Watch = this.slot, t.locks.claim, this
		if missed {
			req.Claim = min(t.locks.claim, claimShort)
		}
		if answer := t.ask(ctx, req); answer != this.slot.C() {
			t.out <- <-answer // the request has not reached the agent
			return
		}
		if <-this.answered; !this.granted {
			return // the denial is in the channel
		}
		select {
		case <-this.over:
		case <-ctx.Done():
			if this.slot.TakeBack() {
				<-this.over // the agent gives the lock back, because ctx has ended
			}
			t.out <- lockagent.Denied(t.name, "", waitError(ctx, t.name, t.req.Kind.OrPlain(), 0))
			return
		}
		if missed = this.missed(); missed {
			t.pause(ctx)
		}
	}
}

// turn is one request of Turns.
type turn struct {
	actor.NopWatcher
	slot     *slot.Slot[Grant]
	answered chan struct{} // closed when the request was granted or denied
	granted  bool
	over     chan struct{} // closed when the hold is over, or the request was denied
	cause    error         // why it is over
}

// Granted implements [actor.Watcher].
func (t *turn) Granted(int) {
	t.granted = true
	close(t.answered)
}

// Ended implements [actor.Watcher].
func (t *turn) Ended(cause error) {
	t.cause = cause
	close(t.over)
	if !t.granted {
		close(t.answered)
	}
}

// missed reports whether the agent took the grant back because nobody received it.
func (t *turn) missed() bool {
	lost, _ := errors.AsType[*LostError](t.cause)
	return lost != nil && lost.Reason == LostUnclaimed && !t.slot.Received()
}

// pause leaves the lock to others for a while, unless there is no next turn.
func (t *turns) pause(ctx context.Context) {
	var left <-chan struct{}
	if t.session != nil {
		left = t.session.done
	}
	select {
	case <-time.After(t.locks.claim):
	case <-ctx.Done():
	case <-t.locks.life.Done():
	case <-left:
	}
}
