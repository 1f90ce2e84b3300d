package actor

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
)

// direct makes a call to the store without an actor: an actor would keep the name from being used as another kind until the
// store has answered. If the store panics, the call may have taken effect or not. done is called once.
func direct[R any](a *Agent, call func(done func(R, error)), done func(R, error)) {
	var replied atomic.Bool
	first := func(reply R, err error) {
		if replied.CompareAndSwap(false, true) {
			done(reply, err)
		}
	}
	a.guard(func() { call(first) }, func(err error) {
		var none R
		first(none, err)
	})
}

// directCall is a direct call that is made again until the store has answered, ctx ends, or its time is over.
type directCall[R any] struct {
	agent *Agent
	ctx   context.Context
	until time.Time
	call  func(done func(R, error))
	tries int
	leave func() bool // ends the watch on ctx, between two calls
	out   chan lockagent.Result[R]
}

// persist makes a direct call for so long. The channel is like that of [Agent.Break].
func persist[R any](ctx context.Context, a *Agent, lasts time.Duration, call func(done func(R, error))) <-chan lockagent.Result[R] {
	c := &directCall[R]{agent: a, ctx: ctx, until: time.Now().Add(lasts), call: call, out: make(chan lockagent.Result[R], 1)}
	c.make()
	return c.out
}

func (c *directCall[R]) make() {
	if c.leave != nil && !c.leave() {
		return // ctx has ended, and the call is answered
	}
	if c.agent.registry.closed.Load() {
		c.refuse(c.agent.identity.closed())
		return
	}
	direct(c.agent, c.call, c.replied)
}

func (c *directCall[R]) replied(reply R, err error) {
	pause := min(retryMin<<min(c.tries, 16), retryMax)
	if err == nil || lockagent.Definite(err) || !time.Now().Add(pause).Before(c.until) {
		c.answer(reply, err)
		return
	}
	c.tries++
	c.leave = context.AfterFunc(c.ctx, func() { c.refuse(lockagent.CauseOf(c.ctx)) })
	time.AfterFunc(pause, c.make)
}

func (c *directCall[R]) refuse(err error) {
	var none R
	c.answer(none, err)
}

func (c *directCall[R]) answer(reply R, err error) {
	c.out <- lockagent.Result[R]{Value: reply, Err: err}
	close(c.out)
}

// answered is the channel of a call that was not made.
func answered[R any](err error) <-chan lockagent.Result[R] {
	c := directCall[R]{out: make(chan lockagent.Result[R], 1)}
	c.refuse(err)
	return c.out
}
