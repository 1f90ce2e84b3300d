package actor

import (
	"context"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

func (l *lock) process(m message) {
	switch m := m.(type) {
	case *request:
		if l.draining {
			m.deny(l.entry.name, l.agent.identity.closed())
			return
		}
		l.arriving = m
		if m.NoReentry && l.state.Asked(m.Owner) {
			l.arriving = nil
			m.deny(l.entry.name, lockagent.ErrReentry)
			return
		}
		l.step(lockstate.Acquire{Request: lockstate.Request{
			Owner: m.Owner, Mode: modeIn(m.Mode), Permits: m.Permits, Lease: m.Lease, Try: m.Try, NoRest: m.NoRest,
			Outlive: m.Outlive, Session: m.Session, Holds: m.Holds,
		}})
	case *call:
		if l.detached && m.request == nil {
			m.answer(false, l.agent.identity.closed())
			return
		}
		l.lastCall++
		l.calls.put(l.lastCall, m)
		if m.kind == toRelease && m.request == nil {
			hidden := false
			if m.request, hidden = l.releasable(m.owner, m.mode); hidden {
				l.calls.take(l.lastCall).answer(false, lockagent.ErrNotHeld)
				return
			}
		}
		l.step(l.command(m, l.lastCall))
	case *storeCall[lockagent.AcquireReply]:
		if m.left() {
			m.by.cancelled = true
			l.step(lockstate.Cancel{ID: m.by.id, TimedOut: timedOut(m.caller), Err: context.Cause(m.caller)})
		} else {
			l.news.heard(m.err)
		}
		l.counted(m.tenure, m.reply.Token, m.reply.Total)
		l.step(lockstate.AcquireReplied{Tenure: m.tenure, Reply: m.reply, Err: m.err})
	case *storeCall[lockagent.RenewReply]:
		l.news.heard(m.err)
		l.step(lockstate.RenewReplied{Tenure: m.tenure, Reply: m.reply, Err: m.err})
		l.confirmExtensions()
		l.endDropped()
	case *storeCall[lockagent.ReleaseReply]:
		if !m.left() {
			l.news.heard(m.err)
		}
		delete(l.totals, m.tenure)
		if m.disowns {
			l.step(lockstate.DisownReplied{Tenure: m.tenure, Reply: m.reply, Err: m.err})
		} else {
			l.step(lockstate.ReleaseReplied{Tenure: m.tenure, Reply: m.reply, Err: m.err})
		}
	case *cancelMsg:
		if m.wait && m.request.granted() {
			return // the lock was granted in time
		}
		m.request.cancelled = true
		l.step(lockstate.Cancel{ID: m.request.id, TimedOut: m.timedOut, Err: m.err})
	case *watchMsg:
		l.watchFor(m.request)
	case *commandMsg:
		switch m.command.(type) {
		case lockstate.Woken:
			l.woken.Store(false)
		case lockstate.Tick:
			l.armed = 0
		case lockstate.Vacate:
			l.vacating = true
			if !l.state.Resting() {
				return
			} // otherwise the tenure goes back, and whoever wants the name has this actor leave when it is idle
		}
		l.step(m.command)
		if _, tick := m.command.(lockstate.Tick); tick {
			l.tellHolds()
		}
	case *resetMsg:
		if l.returns != 0 {
			l.agent.returns.done(l.returns)
		}
		l.returns = m.round
		l.step(lockstate.StoreReset{})
	case *newsMsg:
		if m.news.Trace != "" {
			l.link = &link{m.news.Tenure.Number, m.news.Trace}
		}
		l.counted(m.news.Tenure.Number, m.news.Token, m.news.Total)
		l.step(m.command())
	case *resumedMsg:
		l.goOn(m)
	case *statusMsg:
		l.inspect(m)
	case *storeCall[lockagent.Inspection]:
		l.inspected(m)
	case *storeCall[lockagent.BreakReply]:
		l.broken(m)
	case *extendMsg:
		l.extend(m)
	case *drainMsg:
		l.drain()
	case *closeMsg:
		l.close()
	case *detachMsg:
		l.detach(m)
	}
}

// step gives a command to the state machine.
func (l *lock) step(c lockstate.Command) {
	advance(l.state, c, l.moment(), l.perform)
	for len(l.unclaimed) > 0 {
		id := l.unclaimed[0]
		l.unclaimed = l.unclaimed[1:]
		advance(l.state, lockstate.Unclaimed{ID: id}, l.moment(), l.perform)
	}
	l.journalStep()
	l.subscribe()
	l.tellWanted()
}

func (l *lock) moment() lockstate.Moment {
	return lockstate.Moment{Now: l.now, Fresh: l.agent.fresh.Add(1)}
}
