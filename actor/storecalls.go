package actor

import (
	"context"
	"fmt"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// ask makes a call to the store, whose reply becomes a message. A store that panics
// may have made the call or not, which is what an unavailable store leaves open too.
func ask[R any](c *storeCall[R], l *lock, call func(done func(R, error))) {
	c.lock = l
	l.entry.pin() // never fails: the actor is at work
	returned := false
	defer func() {
		p := recover()
		if p != nil {
			l.agent.complain("store", p)
		} else if returned {
			return
		}
		var none R
		c.done(none, fmt.Errorf("%w: %w: panic: %v", lockagent.ErrStoreUnavailable, lockagent.ErrInternal, p))
	}()
	call(c.done)
	returned = true
}

func (l *lock) tenureOf(number uint64) lockagent.Tenure {
	return lockagent.Tenure{Agent: l.agent.cfg.ID, Number: number}
}

func (l *lock) acquire(values context.Context, e *lockstate.Event) {
	l.news.asked(e.Now)
	ask(&storeCall[lockagent.AcquireReply]{tenure: e.Tenure}, l, func(done func(lockagent.AcquireReply, error)) {
		l.agent.cfg.Store.Acquire(values, lockagent.AcquireRequest{
			Name:   l.entry.name,
			Tenure: l.tenureOf(e.Tenure),
			Lease:  e.Lease,
			Floor:  e.Token,
			Queue:  e.Queue,
		}, done)
	})
}

func (l *lock) renew(e *lockstate.Event) {
	l.news.asked(e.Now)
	ask(&storeCall[lockagent.RenewReply]{tenure: e.Tenure}, l, func(done func(lockagent.RenewReply, error)) {
		l.agent.cfg.Store.Renew(context.Background(), lockagent.RenewRequest{
			Name: l.entry.name, Tenure: l.tenureOf(e.Tenure), Lease: e.Lease, Urgent: e.Urgent,
		}, done)
	})
}

func (l *lock) release(e *lockstate.Event) {
	values := l.releaser
	if values == nil {
		values = context.Background()
	}
	l.news.asked(e.Now)
	ask(&storeCall[lockagent.ReleaseReply]{tenure: e.Tenure}, l, func(done func(lockagent.ReleaseReply, error)) {
		l.agent.cfg.Store.Release(values, lockagent.ReleaseRequest{
			Name: l.entry.name, Tenure: l.tenureOf(e.Tenure), Last: e.Token, Unanswered: e.Unanswered,
		}, done)
	})
}

// disown ends a tenure in the store that this lock does not have.
func (l *lock) disown(e *lockstate.Event) {
	ask(&storeCall[lockagent.ReleaseReply]{tenure: e.Tenure, disowns: true}, l, func(done func(lockagent.ReleaseReply, error)) {
		l.agent.cfg.Store.Release(context.Background(), lockagent.ReleaseRequest{
			Name: l.entry.name, Tenure: l.tenureOf(e.Tenure), Last: e.Token,
		}, done)
	})
}

func (l *lock) askBreak(id lockstate.CallID) {
	c := l.calls.take(id) // the reply answers it
	ask(&storeCall[lockagent.BreakReply]{asker: c}, l, func(done func(lockagent.BreakReply, error)) {
		l.agent.cfg.Store.Break(context.Background(), l.entry.name, done)
	})
}

// broken answers a call to break a lock that this agent did not hold.
func (l *lock) broken(m *storeCall[lockagent.BreakReply]) {
	if m.reply.Broken {
		l.agent.record(context.Background(), &lockagent.Event{Kind: lockagent.EventBroken, Lock: l.entry.name, StoreTime: m.reply.At})
	}
	m.asker.(*call).answer(m.reply.Broken, m.err)
}

func (l *lock) inspect(m *statusMsg) {
	ask(&storeCall[lockagent.Inspection]{asker: m}, l, func(done func(lockagent.Inspection, error)) {
		l.agent.cfg.Store.Inspect(context.Background(), l.entry.name, done)
	})
}

// inspected puts together what the store knows and what this agent knows.
func (l *lock) inspected(m *storeCall[lockagent.Inspection]) {
	i := m.reply
	s := lockagent.Status{
		Name: l.entry.name, Locked: i.Held, Holder: i.Holder, HoldCount: i.HoldCount, Remaining: i.Remaining,
		Waiters: l.state.Waiters(),
	}
	if owner, token, count, tenure := l.state.Hold(); count > 0 && i.Holder == l.tenureOf(tenure).String() {
		s.Owner, s.Token, s.HoldCount = owner, token, count
	}
	reply := m.asker.(*statusMsg).reply
	reply <- lockagent.Result[lockagent.Status]{Value: s, Err: m.err}
	close(reply)
}
