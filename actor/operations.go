package actor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// directCall is a call to the store without an actor, which would keep the name from being used as another kind until
// the store has answered. Nothing keeps the name from being used meanwhile. Close waits for the answer.
//
// The call is made again until the store has answered, or its time is over. Between two calls, the end of ctx or of the
// agent ends it. If the store panics, the call may have taken effect or not. A grace period refuses a call, which then
// has no effect: the call is made again only if one before it may have had one.
type directCall[R any] struct {
	agent *Agent
	ctx   context.Context
	lasts time.Duration // for how long the call is made again; 0 if it is made once
	call  func(done func(R, error))
	done  func(R, error) // is called once

	until   time.Time
	tries   int
	leave   func() bool // ends the watch on ctx, between two calls
	unsure  error       // of the last call that may have taken effect or not; nil if there was none
	uncount func()      // tells the registry that the call is over
}

// make makes the call. It is refused if the agent is closed, or uses the name as another kind.
func (c *directCall[R]) make(name lockagent.Name, kind lockagent.LockKind) {
	uncount, err := c.agent.registry.direct(name, kind)
	if err != nil {
		var none R
		c.done(none, err)
		return
	}
	c.uncount, c.until = uncount, time.Now().Add(c.lasts)
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
	refused := errors.Is(err, lockagent.ErrGrace)
	if err == nil || lockagent.Definite(err) || refused && c.unsure == nil {
		c.end(reply, err)
		return
	}
	most := GraceRetry
	if !refused {
		most, c.unsure = retryMax, err
	}
	pause := min(retryMin<<min(c.tries, 16), most)
	if !time.Now().Add(pause).Before(c.until) {
		c.end(reply, c.unsure)
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
		c.giveUp(c.unsure)
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
	c.uncount()
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

// GraceRetry is the longest pause before a change of permits is made again that a grace period has refused. Nobody
// tells a change of the end of the period, which most often comes within a second.
const GraceRetry = 100 * time.Millisecond

// changeFor bounds the time in which a change of permits is made again. The store remembers a change
// for a minute, and the last call may arrive late.
const changeFor = 30 * time.Second

// Permits reads or changes the permits of a semaphore. The agent sets req.Change. It makes the
// call again until the store has answered, ctx ends, or half a minute has passed. However often it
// does, a change counts once. The error is then [lockagent.ErrStoreUnavailable], or the cause of ctx: the
// change may have taken effect. A grace period refuses a change at once, unless a call before had no answer. If the
// error is a [*lockagent.GraceError], nothing has changed. Neither to read nor to change is a use of the name. The
// channel is like that of [Agent.Break].
func (a *Agent) Permits(
	ctx context.Context, req lockagent.PermitsRequest,
) <-chan lockagent.Result[lockagent.PermitsReply] {
	if req.Op != lockagent.ReadPermits {
		req.Change = string(lockagent.NewAgentID())
	}
	if err := req.Check(); err != nil {
		return answered[lockagent.PermitsReply](err)
	}
	if a.layers.counters == nil {
		return answered[lockagent.PermitsReply](errNoCounters)
	}
	out, deliver := oneResult[lockagent.PermitsReply]()
	c := &directCall[lockagent.PermitsReply]{agent: a, ctx: ctx, lasts: changeFor}
	c.call = func(done func(lockagent.PermitsReply, error)) { a.layers.counters.Permits(valuesOf(ctx), req, done) }
	c.done = func(reply lockagent.PermitsReply, err error) {
		if err == nil && reply.Done || err != nil && c.unsure != nil {
			a.changed(&req, &reply, err)
		}
		deliver(reply, err)
	}
	c.make(req.Name, req.Kind)
	return out
}

// changed records what an operation did. A store that says so late may say it to a repeated call. If it never says so,
// the record has no time of the store.
func (a *Agent) changed(req *lockagent.PermitsRequest, reply *lockagent.PermitsReply, err error) {
	e := lockagent.Event{
		Kind: lockagent.EventPermits, Lock: req.Name, LockKind: req.Kind,
		Op: req.Op, Permits: req.N, Total: reply.Free + reply.Taken, StoreTime: reply.At,
	}
	switch req.Op {
	case lockagent.ReadPermits, lockagent.ExtendPermit:
		return // all numbers are as before, and no hold ends
	case lockagent.DrainPermits:
		e.Permits = reply.N
	case lockagent.ReleasePermit:
		e.Permits, e.Permit = 1, req.ID
	}
	if err != nil {
		e.Err = err.Error()
	}
	a.record(context.Background(), &e)
}

// permitsIn returns how many permits a tenure has, and how many there were as the store told last. Both are 0 if the
// lock is no semaphore.
func (l *lock) permitsIn(tenure uint64) (n, total int) {
	if l.entry.kind != lockagent.Semaphore && l.entry.kind != lockagent.Permits {
		return 0, 0
	}
	for r := range l.holds {
		if r.tenure == tenure {
			return max(1, r.Permits), l.lastTotal
		}
	}
	return 0, 0
}

// allotted is what the store said when it granted permits: how many there were.
type allotted struct {
	token lockagent.Token
	total int
}

// counted keeps what the store said of a grant until the grant is known to have a holder, or none.
func (l *lock) counted(tenure uint64, token lockagent.Token, total int) {
	if total == 0 {
		return
	}
	if l.totals == nil {
		l.totals = make(map[uint64]allotted)
	}
	l.totals[tenure] = allotted{token, total}
	l.lastTotal = total
}

// total is how many permits there were when the store granted these. It is 0 once the tenure is known to have a holder.
func (l *lock) total(tenure uint64, token lockagent.Token) int {
	if t := l.totals[tenure]; t.token == token {
		return t.total
	}
	return 0 // the store granted the tenure once more
}

// Await waits until a latch is open: until there is no latch of that name. The channel has capacity
// 1, delivers the outcome, is then closed by the agent, and needs no reader. The end of ctx ends the
// wait. So does the end of wait, if that is not 0. The error is nil if the latch is open,
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
