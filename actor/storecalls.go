package actor

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// ask makes a call to the store, and has the actor sent the message that the reply
// becomes. The actor is pinned until that has been processed. A store that replies
// twice is heard once. One that panics may have made the call or not, which is what
// an unavailable store leaves open too.
func ask[R any](l *lock, call func(done func(R, error)), becomes func(R, error) message) {
	l.entry.pin() // never fails: the actor is at work
	var replied atomic.Bool
	done := func(r R, err error) {
		if replied.CompareAndSwap(false, true) {
			send(l.entry, becomes(r, err))
		}
	}
	defer func() {
		if p := recover(); p != nil {
			l.agent.complain("store", p)
			var none R
			done(none, fmt.Errorf("%w: %w: panic: %v", lockagent.ErrStoreUnavailable, lockagent.ErrInternal, p))
		}
	}()
	call(done)
}

func (l *lock) tenureOf(number uint64) lockagent.Tenure {
	return lockagent.Tenure{Agent: l.agent.cfg.ID, Number: number}
}

func (l *lock) acquire(values context.Context, e *lockstate.Event) {
	l.tenure = e.Tenure
	number := e.Tenure
	req := lockagent.AcquireRequest{
		Name:   l.entry.name,
		Tenure: l.tenureOf(number),
		Lease:  e.Lease,
		Tokens: e.Tokens,
		Floor:  l.floor,
	}
	ask(l, func(done func(lockagent.AcquireReply, error)) { l.agent.cfg.Store.Acquire(values, req, done) },
		func(r lockagent.AcquireReply, err error) message {
			return &replyMsg{reply: lockstate.AcquireReplied{Tenure: number, Reply: r, Err: err}}
		})
}

func (l *lock) renew(e *lockstate.Event) {
	number := e.Tenure
	req := lockagent.RenewRequest{Name: l.entry.name, Tenure: l.tenureOf(number), Lease: e.Lease, Urgent: e.Urgent}
	ask(l, func(done func(lockagent.RenewReply, error)) { l.agent.cfg.Store.Renew(context.Background(), req, done) },
		func(r lockagent.RenewReply, err error) message {
			return &replyMsg{reply: lockstate.RenewReplied{Tenure: number, Reply: r, Err: err}}
		})
}

func (l *lock) release(e *lockstate.Event) {
	number := e.Tenure
	req := lockagent.ReleaseRequest{Name: l.entry.name, Tenure: l.tenureOf(number)}
	values := l.releaser
	if values == nil {
		values = context.Background()
	}
	ask(l, func(done func(lockagent.ReleaseReply, error)) { l.agent.cfg.Store.Release(values, req, done) },
		func(r lockagent.ReleaseReply, err error) message {
			return &replyMsg{reply: lockstate.ReleaseReplied{Tenure: number, Reply: r, Err: err}}
		})
}

func (l *lock) askBreak(id lockstate.CallID) {
	c := l.calls[id]
	delete(l.calls, id) // the reply carries it
	ask(l, func(done func(lockagent.BreakReply, error)) {
		l.agent.cfg.Store.Break(context.Background(), l.entry.name, done)
	},
		func(r lockagent.BreakReply, err error) message { return &brokenMsg{call: c, reply: r, err: err} })
}

func (l *lock) inspect(m *statusMsg) {
	ask(l, func(done func(lockagent.Inspection, error)) {
		l.agent.cfg.Store.Inspect(context.Background(), l.entry.name, done)
	},
		func(i lockagent.Inspection, err error) message {
			return &inspectedMsg{reply: m.reply, inspection: i, err: err}
		})
}

// answerStatus puts together what the store knows and what this agent knows.
func (l *lock) answerStatus(m *inspectedMsg) {
	i := m.inspection
	s := lockagent.Status{
		Name: l.entry.name, Locked: i.Held, Holder: i.Holder, HoldCount: i.HoldCount, Remaining: i.Remaining,
		Waiters: l.state.Waiters(),
	}
	if owner, token, count, tenure := l.state.Holder(); count > 0 && i.Holder == l.tenureOf(tenure).String() {
		s.Owner, s.Token, s.HoldCount = owner, token, count
	}
	m.reply <- lockagent.Result[lockagent.Status]{Value: s, Err: m.err}
	close(m.reply)
}
