package actor

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
)

// directCall is a call to the store without an actor, which would keep the name from being used as another kind until
// the store has answered. Nothing keeps the name from being used meanwhile. Close waits for the answer.
//
// The call is made again until the store has answered, ctx ends, the agent is closed, or its time is over. If the store
// panics, the call may have taken effect or not.
type directCall[R any] struct {
	agent *Agent
	ctx   context.Context
	lasts time.Duration // for how long the call is made again; 0 if it is made once
	call  func(done func(R, error))
	done  func(R, error) // is called once

	until  time.Time
	tries  int
	leave  func() bool // ends the watch on ctx, between two calls
	failed error       // of the last call that may have taken effect or not; nil if there was none
	over   func()      // tells the registry
}

// make makes the call. It is refused if the agent is closed, or uses the name as another kind.
func (c *directCall[R]) make(name lockagent.Name, kind lockagent.LockKind) {
	over, err := c.agent.registry.direct(name, kind)
	if err != nil {
		var none R
		c.done(none, err)
		return
	}
	c.over, c.until = over, time.Now().Add(c.lasts)
	c.try()
}

func (c *directCall[R]) try() {
	var replied atomic.Bool
	once := func(reply R, err error) {
		if replied.CompareAndSwap(false, true) {
			c.replied(reply, err)
		}
	}
	c.agent.guard(func() { c.call(once) }, func(err error) {
		var none R
		once(none, err)
	})
}

func (c *directCall[R]) replied(reply R, err error) {
	if err == nil || lockagent.Definite(err) {
		c.end(reply, err)
		return
	}
	c.failed = err
	pause := min(retryMin<<min(c.tries, 16), retryMax)
	if !time.Now().Add(pause).Before(c.until) {
		c.end(reply, err)
		return
	}
	c.tries++
	c.leave = context.AfterFunc(c.ctx, func() { c.giveUp(lockagent.CauseOf(c.ctx)) })
	time.AfterFunc(pause, c.again)
}

// again makes the call once more, after a pause.
func (c *directCall[R]) again() {
	switch {
	case !c.leave(): // ctx has ended, and the call is answered
	case c.agent.registry.closed.Load():
		c.giveUp(c.failed)
	default:
		c.try()
	}
}

func (c *directCall[R]) giveUp(err error) {
	var none R
	c.end(none, err)
}

func (c *directCall[R]) end(reply R, err error) {
	c.done(reply, err)
	c.over()
}

// oneResult returns a channel for one result, and the function that delivers it. The channel is like that of
// [Agent.Break].
func oneResult[R any]() (out chan lockagent.Result[R], deliver func(R, error)) {
	out = make(chan lockagent.Result[R], 1)
	return out, func(value R, err error) {
		out <- lockagent.Result[R]{Value: value, Err: err}
		close(out)
	}
}

// answered is the channel of a call that was not made.
func answered[R any](err error) <-chan lockagent.Result[R] {
	var none R
	out, deliver := oneResult[R]()
	deliver(none, err)
	return out
}
