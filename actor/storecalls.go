package actor

import (
	"context"
	"sync/atomic"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// ask makes a call to the store. The actor is pinned until the reply has been
// processed. A store that replies twice is heard once, and one that panics
// instead is taken to have replied.
func (l *lock) ask(call func(reply func(message))) {
	l.entry.pin() // never fails: the actor is at work
	var replied atomic.Bool
	defer func() {
		if p := recover(); p != nil {
			if replied.CompareAndSwap(false, true) {
				l.entry.unpin()
			}
			panic(p)
		}
	}()
	call(func(m message) {
		if replied.CompareAndSwap(false, true) {
			send(l.entry, m)
		}
	})
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
		Floor:  lockagent.Token(l.agent.floor.Load()),
	}
	l.ask(func(reply func(message)) {
		l.agent.cfg.Store.Acquire(values, req, func(r lockagent.AcquireReply, err error) {
			reply(&replyMsg{reply: lockstate.AcquireReplied{Tenure: number, Reply: r, Err: err}})
		})
	})
}

func (l *lock) renew(e *lockstate.Event) {
	number := e.Tenure
	req := lockagent.RenewRequest{Name: l.entry.name, Tenure: l.tenureOf(number), Lease: e.Lease}
	l.ask(func(reply func(message)) {
		l.agent.cfg.Store.Renew(context.Background(), req, func(r lockagent.RenewReply, err error) {
			reply(&replyMsg{reply: lockstate.RenewReplied{Tenure: number, Reply: r, Err: err}})
		})
	})
}

func (l *lock) release(e *lockstate.Event) {
	number := e.Tenure
	req := lockagent.ReleaseRequest{Name: l.entry.name, Tenure: l.tenureOf(number)}
	l.ask(func(reply func(message)) {
		l.agent.cfg.Store.Release(context.Background(), req, func(r lockagent.ReleaseReply, err error) {
			reply(&replyMsg{reply: lockstate.ReleaseReplied{Tenure: number, Reply: r, Err: err}})
		})
	})
}

func (l *lock) askBreak(id lockstate.CallID) {
	c := l.calls[id]
	l.ask(func(reply func(message)) {
		l.agent.cfg.Store.Break(context.Background(), l.entry.name, func(broken bool, err error) {
			reply(&brokenMsg{call: c, broken: broken, err: err})
		})
	})
	delete(l.calls, id) // the reply carries it
}

func (l *lock) inspect(m *statusMsg) {
	l.ask(func(reply func(message)) {
		l.agent.cfg.Store.Inspect(context.Background(), l.entry.name, func(i lockagent.Inspection, err error) {
			reply(&inspectedMsg{reply: m.reply, inspection: i, err: err})
		})
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
