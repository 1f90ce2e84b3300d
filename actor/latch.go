package actor

import (
	"context"
	"errors"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// Await waits until a latch is open: until there is no latch of that name. The channel has capacity
// 1, delivers the outcome, is then closed by the agent, and needs no reader. The end of ctx ends the
// wait. So does the end of wait, if that is positive. The error is nil if the latch is open,
// [lockagent.ErrLatchGone] if it disappeared without being counted down, or else as for
// [Agent.Acquire].
func (a *Agent) Await(
	ctx context.Context, name lockagent.Name, owner lockagent.Owner, wait time.Duration,
) <-chan error {
	done := make(chan error, 1)
	r := &request{agent: a, caller: ctx, Request: Request{
		Owner: owner, Kind: lockagent.Latch, Wait: wait, awaits: true, Watch: awaiting{done: done},
	}}
	if wait > 0 {
		r.waitUntil = a.clock.now() + lockstate.Instant(wait)
	}
	a.ask(ctx, name, r)
	return done
}

// awaiting has the outcome of a request for a latch, which is never granted.
type awaiting struct {
	NopWatcher
	done chan error
}

// Ended implements [Watcher].
func (w awaiting) Ended(err error) {
	if errors.Is(err, lockstate.ErrOpen) {
		err = nil
	}
	answer(w.done, err)
}

// Latch reads or changes the count of a latch. The channel is like that of [Agent.Break]. While the
// store is unavailable, the agent makes the call again, for as long as the store remembers the change
// and ctx goes on. It sets req.Change.
func (a *Agent) Latch(ctx context.Context, req lockagent.LatchRequest) <-chan lockagent.Result[lockagent.LatchReply] {
	if req.Op != lockagent.LatchRead {
		req.Change = string(lockagent.NewAgentID())
	}
	if a.layers.counters == nil {
		return answered[lockagent.LatchReply](errNoCounters)
	}
	out, deliver := oneResult[lockagent.LatchReply]()
	c := &directCall[lockagent.LatchReply]{agent: a, ctx: ctx, lasts: latchPersists, done: deliver}
	c.call = func(done func(lockagent.LatchReply, error)) { a.layers.counters.Latch(valuesOf(ctx), req, done) }
	// In the store the keys may not show that the name is another kind: a count is a number, as a semaphore without
	// holders is.
	c.make(req.Name, lockagent.Latch)
	return out
}

// latchPersists is for how long a call about a latch is made again. It ends well before the store
// forgets the change.
const latchPersists = 45 * time.Second
