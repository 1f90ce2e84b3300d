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

// permitsMsg changes the permits of a semaphore.
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
// taken effect. To read is no use of the name. The channel is like that of [Agent.Break].
func (a *Agent) Permits(ctx context.Context, req lockagent.PermitsRequest) <-chan lockagent.Result[lockagent.PermitsReply] {
	if req.Op != lockagent.ReadPermits {
		req.Change = string(lockagent.NewAgentID())
	}
	if err := req.Check(); err != nil {
		return answered[lockagent.PermitsReply](err)
	}
	if a.layers.counters == nil {
		return answered[lockagent.PermitsReply](errNoCounters)
	}
	if a.registry.closed.Load() {
		return answered[lockagent.PermitsReply](a.identity.closed())
	}
	if req.Op == lockagent.ReadPermits {
		return a.readPermits(ctx, req)
	}
	e, err := a.named(req.Name, req.Kind)
	if err != nil {
		return answered[lockagent.PermitsReply](err)
	}
	out := make(chan lockagent.Result[lockagent.PermitsReply], 1)
	send(e, &permitsMsg{caller: ctx, req: req, until: a.clock.now() + lockstate.Instant(changeFor), reply: out})
	return out
}

func (a *Agent) readPermits(ctx context.Context, req lockagent.PermitsRequest) <-chan lockagent.Result[lockagent.PermitsReply] {
	if err := a.registry.usableAs(req.Name, req.Kind); err != nil {
		return answered[lockagent.PermitsReply](err)
	}
	return persist(ctx, a, changeFor, func(done func(lockagent.PermitsReply, error)) {
		a.layers.counters.Permits(valuesOf(ctx), req, done)
	})
}

func (m *permitsMsg) answer(reply lockagent.PermitsReply, err error) {
	m.reply <- lockagent.Result[lockagent.PermitsReply]{Value: reply, Err: err}
	close(m.reply)
}

func (l *lock) permits(m *permitsMsg) {
	c := &storeCall[lockagent.PermitsReply]{lock: l, asker: m}
	c.make(func() { l.agent.layers.counters.Permits(valuesOf(m.caller), m.req, c.done) })
}

// permitted answers a request, or makes it again after a pause.
func (l *lock) permitted(c *storeCall[lockagent.PermitsReply]) {
	m := c.asker.(*permitsMsg)
	definite := c.err == nil || lockagent.Definite(c.err)
	if definite || m.caller.Err() != nil || l.closing || l.now >= m.until {
		switch {
		case c.err != nil && (!definite || m.failures > 0):
			l.changed(&m.req, &lockagent.PermitsReply{}, c.err) // one of the calls may have taken effect
		case c.err == nil && c.reply.Done:
			l.changed(&m.req, &c.reply, nil)
		}
		l.reply(func() { m.answer(c.reply, c.err) })
		return
	}
	pause := min(retryMin<<m.failures, retryMax)
	m.failures = min(m.failures+1, 10)
	l.entry.pin() // never fails: the actor is running
	time.AfterFunc(pause, func() { send(l.entry, m) })
}

// changed records what an operation did. A store that says so late may say it to a repeated call. If it never says so,
// the record has no time of the store.
func (l *lock) changed(req *lockagent.PermitsRequest, reply *lockagent.PermitsReply, err error) {
	e := lockagent.Event{
		Kind: lockagent.EventPermits, Time: l.time, Lock: l.entry.name, LockKind: l.entry.kind,
		Op: req.Op, Permits: req.N, Total: reply.Free + reply.Taken, StoreTime: reply.At,
	}
	switch req.Op {
	case lockagent.ExtendPermit:
		return // all numbers are as before, and no hold ends
	case lockagent.DrainPermits:
		e.Permits = reply.N
	case lockagent.ReleasePermit:
		e.Permits, e.Permit = 1, req.ID
	}
	if err != nil {
		e.Err = err.Error()
	}
	l.agent.record(context.Background(), &e)
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
}

// total is how many permits there were when the store granted these.
func (l *lock) total(tenure uint64, token lockagent.Token) int {
	t := l.totals[tenure]
	delete(l.totals, tenure)
	if t.token != token {
		return 0 // the store granted the tenure once more
	}
	return t.total
}
