package actor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// Await waits until a latch is open: until there is no latch of that name. The channel has capacity
// 1, delivers the outcome, is then closed by the agent, and needs no reader. The end of ctx ends the
// wait. So does the end of wait, if that is positive. The error is nil if the latch is open,
// [lockagent.ErrLatchGone] if it disappeared without being counted down, or else as for
// [Agent.Acquire].
func (a *Agent) Await(ctx context.Context, name lockagent.Name, owner lockagent.Owner, wait time.Duration) <-chan error {
	done := make(chan error, 1)
	r := &request{agent: a, caller: ctx, out: make(chan lockagent.Grant, 1)}
	r.Request = Request{Owner: owner, Kind: lockagent.Latch, Wait: wait, awaits: true}
	out := r.out
	r.Over = func() { // the answer is in out
		err := (<-out).Err()
		if errors.Is(err, lockstate.ErrOpen) {
			err = nil
		}
		done <- err
		close(done)
	}
	if wait > 0 {
		r.waitUntil = a.clock.now() + lockstate.Instant(wait)
	}
	a.ask(ctx, name, r)
	return done
}

// Latch reads or changes the count of a latch. The channel is like that of [Agent.Break]. While the
// store is unavailable, the agent makes the call again, for as long as the store remembers the change
// and ctx goes on. It sets req.Change.
func (a *Agent) Latch(ctx context.Context, req lockagent.LatchRequest) <-chan lockagent.Result[lockagent.LatchReply] {
	c := &latchCall{agent: a, ctx: ctx, req: req, until: time.Now().Add(latchPersists), done: make(chan lockagent.Result[lockagent.LatchReply], 1)}
	if req.Op != lockagent.LatchRead {
		c.req.Change = string(lockagent.NewAgentID())
	}
	// No actor makes the call. In the store the keys may not show that the name is another kind: a count is a number, as a
	// semaphore without holders is.
	if err := a.registry.usableAs(req.Name, lockagent.Latch); err != nil {
		c.answer(lockagent.LatchReply{}, err)
		return c.done
	}
	c.make()
	return c.done
}

// latchPersists is for how long a call about a latch is made again. It ends well before the store
// forgets the change.
const latchPersists = 45 * time.Second

// latchCall is one call of Latch.
type latchCall struct {
	agent *Agent
	ctx   context.Context
	req   lockagent.LatchRequest
	until time.Time
	tries int
	leave func() bool // ends the watch on ctx, between two calls
	done  chan lockagent.Result[lockagent.LatchReply]
}

func (c *latchCall) make() {
	if c.leave != nil && !c.leave() {
		return // ctx has ended, and the call is answered
	}
	if c.agent.registry.closed.Load() {
		c.answer(lockagent.LatchReply{}, lockagent.ErrClosed)
		return
	}
	var once sync.Once
	replied := func(reply lockagent.LatchReply, err error) { once.Do(func() { c.replied(reply, err) }) }
	defer func() {
		if p := recover(); p != nil {
			c.agent.complain("store", p)
			replied(lockagent.LatchReply{}, fmt.Errorf("%w: %w: panic: %v", lockagent.ErrStoreUnavailable, lockagent.ErrInternal, p))
		}
	}()
	c.agent.cfg.Store.Latch(valuesOf(c.ctx), c.req, replied)
}

func (c *latchCall) replied(reply lockagent.LatchReply, err error) {
	pause := min(retryMin<<min(c.tries, 16), retryMax)
	if err == nil || lockagent.Definite(err) || !time.Now().Add(pause).Before(c.until) {
		c.answer(reply, err)
		return
	}
	c.tries++
	c.leave = context.AfterFunc(c.ctx, func() { c.answer(lockagent.LatchReply{}, context.Cause(c.ctx)) })
	time.AfterFunc(pause, c.make)
}

func (c *latchCall) answer(reply lockagent.LatchReply, err error) {
	c.done <- lockagent.Result[lockagent.LatchReply]{Value: reply, Err: err}
	close(c.done)
}
