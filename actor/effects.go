package actor

import (
	"errors"
	"math"
	"slices"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// do does what an event asks for. The event has been applied to the state already.
func (l *lock) do(e *lockstate.Event) {
	if l.scribe != nil {
		l.note(e)
	}
	e.Reason = l.agent.identity.why(e.Reason)
	r := l.requests.get(e.Request.ID) // nil if the event is about no request
	switch e.Kind {
	case lockstate.Requested:
		r = l.arriving
		r.id = e.Request.ID
		l.requests.put(r.id, r)
		r.watch()
		l.arriving = nil
	case lockstate.Queued:
		if r.Watch != nil {
			r.watched(func(w Watcher) { w.Queued(l.holder()) })
		}
	case lockstate.Answered:
		l.forget(r)
		err := l.explain(e)
		deny := func() { r.deny(l.entry.name, err) }
		if aboutTheName(err) {
			l.reply(deny)
		} else {
			deny()
		}
	case lockstate.Granted, lockstate.Reentered:
		l.releaser = nil
		if l.totals != nil {
			r.total = l.total(e.Tenure, e.Token)
			delete(l.totals, e.Tenure)
		}
		l.publish(r, e) // before the events of what the holder does
		l.link = nil
		l.grant(r, e)
		return
	case lockstate.Reclaiming:
		switch {
		case !r.takeBack():
			r.unwatch()
			l.attend(r)
		default:
			l.unclaimed = append(l.unclaimed, r.id)
			if !r.cancelled {
				l.neglect(r)
			}
		}
	case lockstate.Ended:
		l.forget(r)
		if c := l.calls.get(e.Call); c != nil {
			c.request = r
			l.releaser = c.caller
		}
		if e.Reason == 0 {
			l.attend(r)
			r.end(lockagent.ErrReleased)
		} else {
			if l.closing && (e.Reason == lockagent.LostClosed || e.Reason == lockagent.LostIdentity) {
				l.cutShort(r)
			}
			lost := r.lost(e.Reason, e.Operator)
			if l.draining && e.Reason == lockagent.LostUnclaimed {
				r.end(l.agent.identity.closed()) // that is why the grant was taken back
			} else {
				r.end(lost)
			}
		}
	case lockstate.Extended:
		r.fixed.Store(int64(e.Fixed))
		if e.Fixed == 0 {
			r.confirmExtensions()
		}
		l.noteUncertain(r) // a hold that lasts beyond the lease of the store now depends on a renewal
		r.watched(Watcher.Renewed)
	case lockstate.Unlocked:
		l.answer(e)
	case lockstate.AskBreak:
		l.askBreak(e.Call)
	case lockstate.Attempted:
		l.acquire(r, e)
	case lockstate.FoundBusy:
		if !errors.Is(l.news.err(), lockagent.ErrGrace) { // a store in a grace period knows of nobody
			l.news.heldBy(e.Holder)
		}
	case lockstate.Forgot:
		l.news = news{}
	case lockstate.Began:
		l.news = news{}
	case lockstate.Renewing:
		l.renew(e)
	case lockstate.Renewed:
		l.prolong(e.Tenure)
		l.tellUncertain(e.Tenure)
	case lockstate.BecameUncertain:
		l.tellUncertain(e.Tenure)
	case lockstate.RenewFailed:
		if e.Failures == 1 {
			l.uncertain(e.Tenure, e.Err)
		}
	case lockstate.Returning:
		if slices.Contains(l.outliving, e.Tenure) {
			l.keep(e)
		} else {
			l.release(e)
		}
	case lockstate.Withdrawing:
		l.release(e)
	case lockstate.Disowning:
		l.disown(e)
	case lockstate.Detached:
		l.leaveHolds()
	case lockstate.Rested, lockstate.Returned:
		l.releaser = nil
	case lockstate.Dropped:
		l.news, l.releaser = news{}, nil
		if l.closing && !slices.Contains(l.outliving, e.Tenure) {
			l.agent.ending.abandoned.Add(1)
		}
	}
	l.publish(r, e)
}

func (l *lock) grant(r *request, e *lockstate.Event) {
	l.served = true
	r.unwatchWait()
	if r.Watch != nil {
		r.watched(func(w Watcher) { w.Granted(int(e.Holds)) })
	}
	r.Holds = e.Holds
	r.token, r.tenure, r.replicas = e.Token, e.Tenure, small(e.Replicas)
	r.deadline.Store(int64(l.state.Deadline(e.Tenure)))
	r.fixed.Store(int64(e.Fixed))
	r.deliver(l.entry.name, outcome{hold: r.hold(), count: e.Count})
	if r.claimed() {
		r.unwatch()
		l.attend(r)
	} else {
		l.hurry(r)
	}
	if l.agent.cfg.Recorder == nil { // from now on only the recorder needs the values
		r.caller = nil
	}
}

// small is a number of replicas as a request has room for it.
func small(replicas int) uint8 { return uint8(min(replicas, math.MaxUint8)) }

// prolong moves the deadline of the holds of a tenure.
func (l *lock) prolong(tenure uint64) {
	deadline := l.state.Deadline(tenure)
	for r := range l.holds {
		if r.tenure == tenure {
			r.deadline.Store(int64(deadline))
			r.watched(Watcher.Renewed)
		}
	}
}

// forget removes a request that was denied, or whose hold is over.
func (l *lock) forget(r *request) {
	l.requests.take(r.id)
	if r.watches {
		l.watching--
	}
	r.unwatch()
}

// answer answers a call to release, to leave or to break.
func (l *lock) answer(e *lockstate.Event) {
	c := l.calls.take(e.Call)
	if l.entry.caller.asks == c {
		l.entry.caller.asks = nil // the caller has no reason to wait any more
	}
	err := e.Err
	switch {
	case c.kind == toBreak: // what there was is broken, even if the tenure had been lost
	case e.Reason != 0:
		err = c.request.lost(e.Reason, e.Operator)
	case c.request != nil && errors.Is(err, lockagent.ErrNotHeld):
		err = c.request.overError()
	}
	c.answer(c.kind == toBreak && !errors.Is(err, lockagent.ErrNotHeld), err)
}

// subscribe subscribes to wake-ups if the state wants them, and else ends the subscription. If
// the store panics, waiters get no wake-ups. They ask again by themselves.
func (l *lock) subscribe() {
	switch wanted := l.state.Listening(); {
	case wanted && l.unsubscribe == nil:
		l.unsubscribe = func() {}
		l.agent.callback("store", func() {
			l.unsubscribe = l.agent.cfg.Store.Subscribe(l.entry.name, l.entry.kind, l.wake)
		})
	case !wanted && l.unsubscribe != nil:
		unsubscribe := l.unsubscribe
		l.unsubscribe = nil
		l.agent.callback("store", unsubscribe)
	}
}

// wake is called by the store.
func (l *lock) wake() {
	if l.woken.CompareAndSwap(false, true) { // one wake-up on its way is enough
		send(l.entry, &commandMsg{command: lockstate.Woken{}})
	}
}
