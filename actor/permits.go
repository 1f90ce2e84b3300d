package actor

import (
	"context"
	"time"

	"github.com/lockagent/lockagent"
)

// changeFor bounds the time in which a change of permits is made again. The store remembers a change
// for a minute, and the last call may arrive late.
const changeFor = 30 * time.Second

// Permits reads or changes the permits of a semaphore. The agent sets req.Change. It makes the
// call again until the store has answered, ctx ends, or half a minute has passed. However often it
// does, a change counts once. The error is then [lockagent.ErrStoreUnavailable], or the cause of ctx: the
// change may have taken effect. Neither to read nor to change is a use of the name. The channel is like
// that of [Agent.Break].
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
		if err == nil && reply.Done || err != nil && c.failed != nil { // in that case a call may have taken effect
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
