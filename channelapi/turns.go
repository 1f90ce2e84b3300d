package channelapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
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
// back after Config.Claim, and logs that once. Then it waits for Config.Claim before the next
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
	t := &turns{handle: h, out: make(chan Grant, 1)}
	go t.run(ctx)
	return t.out
}

// turns is one loop of requests. It belongs to its goroutine.
type turns struct {
	*handle
	out    chan Grant // empty when a request is made
	missed bool       // nobody received the last grant in time
	warn   sync.Once
}

// claimShort is how long a grant may lie in the channel after one that nobody received.
const claimShort = 100 * time.Millisecond

func (t *turns) run(ctx context.Context) {
	defer close(t.out)
	for {
		this := &turn{offer: offer[Grant]{out: t.out}, over: make(chan struct{})}
		req := t.request()
		req.Received, req.Over = this.received, this.end
		g := <-t.ask(ctx, req)
		err := t.outcome(ctx, g)
		if errors.Is(err, ErrNotGranted) {
			continue // the hold ended before run could receive the grant
		}
		if err != nil {
			t.out <- lockagent.Denied(t.name, g.Owner(), err)
			return
		}
		if !this.send(g) {
			continue // the hold ended since then
		}
		g = Grant{} // run must not keep alive a grant that the loop drops
		if !t.wait(ctx, this) {
			t.out <- lockagent.Denied(t.name, "", t.outcome(ctx, Grant{}))
			return
		}
	}
}

// turn is one request of Turns.
type turn struct {
	offer[Grant]
	over chan struct{} // closed when the hold is over
}

// end is called when the hold is over.
func (t *turn) end() {
	t.withdraw()
	close(t.over)
}

// wait waits until the hold of the delivered grant is over. If nobody receives that grant,
// wait gives it back and pauses. If there is no next turn, wait leaves the channel empty and reports false.
func (t *turns) wait(ctx context.Context, this *turn) bool {
	most := t.locks.claim
	if t.missed {
		most = min(most, claimShort)
	}
	claim := time.NewTimer(most)
	defer claim.Stop()
	closing := t.locks.life.Done()
	for {
		select {
		case <-this.over:
			if this.received() {
				t.missed = false
			}
			return true
		case <-claim.C:
			g, ok := this.withdraw()
			if !ok {
				continue // the loop has received the grant, or the hold is over
			}
			t.missed = true
			g.ReleaseAsync(ctx)
			t.warn.Do(func() {
				t.locks.logger.Warn("lockagent: nobody received a turn, so it was given back; receive from the "+
					"channel of Turns or end its context",
					"lock", t.name, "after", most)
			})
			return t.pause(ctx)
		case <-closing:
			closing = nil // the loop may have received the grant, and finishes
			if g, ok := this.withdraw(); ok {
				g.ReleaseAsync(ctx)
				return false
			}
		case <-ctx.Done():
			if g, ok := this.withdraw(); ok {
				g.ReleaseAsync(ctx)
			}
			return false
		}
	}
}

// pause leaves the lock to others for a while. It reports false if there is no next turn.
func (t *turns) pause(ctx context.Context) bool {
	var left <-chan struct{}
	if t.session != nil {
		left = t.session.done
	}
	select {
	case <-time.After(t.locks.claim):
		return true
	case <-ctx.Done():
	case <-t.locks.life.Done():
	case <-left:
	}
	return false
}
