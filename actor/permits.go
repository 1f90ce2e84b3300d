package actor

import (
	"context"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// changeFor bounds the time in which a change of permits is made again. The store remembers a change
// for a minute, and the last call may arrive late.
const changeFor = 30 * time.Second

// permitsMsg reads or changes the permits of a semaphore.
type permitsMsg struct {
	counted
	caller   context.Context
	req      lockagent.PermitsRequest
	until    lockstate.Instant // when the actor stops trying
	failures int
	reply    chan<- lockagent.Result[lockagent.PermitsReply]
}

// Permits reads or changes the permits of a semaphore. The agent sets req.Change. It makes the
// call again until the store has answered, ctx ends, or half a minute has passed. However often it
// does, a change counts once. The error is [lockagent.ErrStoreUnavailable] if the change may have
// taken effect. The channel is like that of [Agent.Break].
func (a *Agent) Permits(ctx context.Context, req lockagent.PermitsRequest) <-chan lockagent.Result[lockagent.PermitsReply] {
	out := make(chan lockagent.Result[lockagent.PermitsReply], 1)
	req.Change = string(lockagent.NewAgentID())
	m := &permitsMsg{caller: ctx, req: req, until: a.clock.now() + lockstate.Instant(changeFor), reply: out}
	err := req.Check()
	if err == nil && a.registry.closed.Load() {
		err = lockagent.ErrClosed
	}
	var e *entry
	if err == nil {
		e, err = a.named(req.Name, req.Kind)
	}
	if err != nil {
		m.answer(lockagent.PermitsReply{}, err)
		return out
	}
	send(e, m)
	return out
}

func (m *permitsMsg) answer(reply lockagent.PermitsReply, err error) {
	m.reply <- lockagent.Result[lockagent.PermitsReply]{Value: reply, Err: err}
	close(m.reply)
}

func (l *lock) permits(m *permitsMsg) {
	c := &storeCall[lockagent.PermitsReply]{lock: l, asker: m}
	c.make(func() { l.agent.cfg.Store.Permits(valuesOf(m.caller), m.req, c.done) })
}

// permitted answers a request, or makes it again after a pause.
func (l *lock) permitted(c *storeCall[lockagent.PermitsReply]) {
	m := c.asker.(*permitsMsg)
	if c.err == nil || lockagent.Definite(c.err) || m.caller.Err() != nil || l.closing || l.now >= m.until {
		m.answer(c.reply, c.err)
		return
	}
	pause := min(retryMin<<m.failures, retryMax)
	m.failures = min(m.failures+1, 10)
	l.entry.pin() // never fails: the actor is running
	time.AfterFunc(pause, func() { send(l.entry, m) })
}
