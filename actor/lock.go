package actor

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// lock is the actor of one lock name. All its fields belong to it, but those that
// say otherwise.
type lock struct {
	agent *Agent
	entry *entry
	state machine

	requests few[lockstate.RequestID, request] // that wait or hold
	holds    holds                             // those that hold
	calls    few[lockstate.CallID, call]
	lastCall lockstate.CallID

	perform  func(*lockstate.Event) // l.do, bound once
	arriving *request               // the one of the present step
	now      lockstate.Instant      // of the present step
	takeBack []lockstate.RequestID  // grants recovered in the present step

	neglected lockstate.Instant // when a grant was found that nobody had received; 0 if they are received

	releaser context.Context // of the caller who released the last hold, until the next one; may be nil
	news     news            // from the store

	unsubscribe func()
	woken       atomic.Bool       // a wakeMsg is on its way; set by the store
	draining    bool              // nobody new is served
	closing     bool              // everything ends
	detached    bool              // what there was is another process'
	outliving   []uint64          // tenures that stay in the store, whose holds the closing ended
	armed       lockstate.Instant // when the next tick comes, if it is not 0
	tickAt      int               // in the agent's ticks, from 1; 0 if in none; guarded by their mutex
	used        lockstate.Instant // when somebody last wanted something
}

func newLock(a *Agent, e *entry) *lock {
	l := &lock{agent: a, entry: e, state: a.machine(e.name, lockstate.Snapshot{}, 0, 0)}
	l.perform = l.do
	return l
}

// receive is called with every message to the actor. It must not panic, see [lock.handle].
func (l *lock) receive(m message) {
	l.now = l.agent.clock.now()
	defer l.processed(m) // a callback may end this goroutine
	l.handle(m)
}

// processed does what follows every message.
func (l *lock) processed(m message) {
	if l.drained() {
		l.handle(&closeMsg{})
	}
	if m.counts() {
		l.used = l.now
		l.entry.unpin()
	}
	if !l.leave() {
		l.arm()
	}
}

// handle processes a message. If our own code panics, everybody who waits is
// answered, and the lock starts again by ending in the store what it may have there.
// Code that is not ours is called so that its panics do not come this far. But if it ends
// the goroutine, the rest of the step is lost, as after a panic of our own.
func (l *lock) handle(m message) {
	returned := false
	defer func() {
		if p := recover(); p != nil {
			l.recover(p)
		} else if !returned {
			l.agent.wild.Store(true)
			l.recover("runtime.Goexit in a callback")
		}
	}()
	l.process(m)
	returned = true
}

func (l *lock) process(m message) {
	switch m := m.(type) {
	case *request:
		if l.draining {
			m.deny(l.entry.name, lockagent.ErrClosed)
			return
		}
		l.arriving = m
		l.step(lockstate.Acquire{Request: lockstate.Request{
			Owner: m.Owner, Lease: m.Lease, Try: m.Try, Session: m.Session,
		}})
	case *call:
		if l.detached && m.request == nil {
			m.answer(false, lockagent.ErrClosed)
			return
		}
		if m.kind == toRelease && m.request == nil {
			hidden := false
			if m.request, hidden = l.holds.releasable(m.owner); hidden {
				m.answer(false, lockagent.ErrNotHeld)
				return
			}
		}
		l.lastCall++
		l.calls.put(l.lastCall, m)
		l.step(l.command(m, l.lastCall))
	case *storeCall[lockagent.AcquireReply]:
		l.news.heard(m.err)
		l.step(lockstate.AcquireReplied{Tenure: m.tenure, Reply: m.reply, Err: m.err})
	case *storeCall[lockagent.RenewReply]:
		l.news.heard(m.err)
		l.step(lockstate.RenewReplied{Tenure: m.tenure, Reply: m.reply, Err: m.err})
		l.confirmExtensions()
		l.endDropped()
	case *storeCall[lockagent.ReleaseReply]:
		l.news.heard(m.err)
		if m.disowns {
			l.step(lockstate.DisownReplied{Tenure: m.tenure, Reply: m.reply, Err: m.err})
		} else {
			l.step(lockstate.ReleaseReplied{Tenure: m.tenure, Reply: m.reply, Err: m.err})
		}
	case *cancelMsg:
		if m.wait && m.request.granted() {
			return // it was granted in time
		}
		m.request.cancelled = true
		l.step(lockstate.Cancel{ID: m.request.id, TimedOut: m.timedOut, Err: m.err})
	case *overdueMsg:
		l.step(lockstate.Cancel{ID: m.request.id})
	case *wakeMsg:
		l.woken.Store(false)
		l.step(lockstate.Woken{})
	case *newsMsg:
		l.step(m.command())
	case *missedMsg:
		l.step(lockstate.Missed{})
	case *resetMsg:
		l.step(lockstate.StoreReset{})
	case *tickMsg:
		l.armed = 0
		l.step(lockstate.Tick{})
	case *resumedMsg:
		l.step(lockstate.Tick{})
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

// step lets the state machine take the command, and follows it.
func (l *lock) step(c lockstate.Command) {
	advance(l.state, c, l.moment(), l.perform)
	for len(l.takeBack) > 0 {
		id := l.takeBack[0]
		l.takeBack = l.takeBack[1:]
		advance(l.state, lockstate.Unclaimed{ID: id}, l.moment(), l.perform)
	}
	l.subscribe()
}

func (l *lock) moment() lockstate.Moment {
	return lockstate.Moment{Now: l.now, Fresh: l.agent.fresh.Add(1)}
}

// do does what an event asks for. The state has changed already.
func (l *lock) do(e *lockstate.Event) {
	r := l.requests.get(e.Request.ID) // nil if the event is about none
	switch e.Kind {
	case lockstate.Requested:
		r = l.arriving
		r.id = e.Request.ID
		l.requests.put(r.id, r)
		r.watch()
		l.arriving = nil
	case lockstate.Answered:
		l.forget(r)
		r.deny(l.entry.name, l.explain(e))
	case lockstate.Granted, lockstate.Reentered:
		l.releaser = nil
		l.publish(r, e) // before the holder can do anything that is recorded
		l.grant(r, e)
		return
	case lockstate.Recalled:
		if r.takeBack() {
			l.takeBack = append(l.takeBack, r.id)
			if !r.cancelled {
				l.neglect(r)
			}
		} else {
			r.unwatch()
			l.attend(r)
		}
	case lockstate.Ended:
		l.forget(r)
		l.holds.remove(r)
		if c := l.calls.get(e.Call); c != nil {
			c.request = r
			l.releaser = c.caller
		}
		if e.Reason == 0 {
			l.attend(r)
			r.end(lockagent.ErrReleased)
		} else {
			if e.Reason == lockagent.LostClosed {
				l.cutShort(r)
			}
			r.end(r.lost(e.Reason))
		}
	case lockstate.Extended:
		r.fixed.Store(int64(e.Fixed))
	case lockstate.Unlocked:
		l.answer(e)
	case lockstate.AskBreak:
		l.askBreak(e.Call)
	case lockstate.Attempted:
		l.acquire(r, e)
	case lockstate.FoundBusy:
		l.news.told(e.Holder)
	case lockstate.Forgot:
		l.news = news{}
	case lockstate.Began:
		l.news = news{}
	case lockstate.Renewing:
		l.renew(e)
	case lockstate.Renewed:
		l.prolong(e.Tenure)
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
	case lockstate.Dropped:
		l.news = news{}
		if l.closing && !slices.Contains(l.outliving, e.Tenure) {
			l.agent.ending.abandoned.Add(1)
		}
	}
	l.publish(r, e)
}

func (l *lock) grant(r *request, e *lockstate.Event) {
	r.unwatchWait()
	r.token, r.tenure = e.Token, e.Tenure
	r.deadline.Store(int64(l.state.Deadline(e.Tenure)))
	r.fixed.Store(int64(e.Fixed))
	l.holds.add(r)
	r.begin()
	r.deliver(lockagent.NewGrant(l.entry.name, r.Owner, e.Token, e.Count, r.hold()))
	if r.claimed() {
		r.unwatch()
		l.attend(r)
	} else {
		l.hurry(r)
	}
	if l.agent.cfg.Recorder == nil { // which is who they are for from now on
		r.caller = nil
	}
}

// prolong moves the deadline of the holds of a tenure.
func (l *lock) prolong(tenure uint64) {
	deadline := l.state.Deadline(tenure)
	for r := range l.holds.all {
		if r.tenure == tenure {
			r.deadline.Store(int64(deadline))
		}
	}
}

// forget lets a request go whose grant is over or that has none.
func (l *lock) forget(r *request) {
	l.requests.take(r.id)
	r.unwatch()
}

// answer answers a call to release, to leave or to break.
func (l *lock) answer(e *lockstate.Event) {
	c := l.calls.take(e.Call)
	err := e.Err
	switch {
	case c.kind == toBreak: // and the hold is broken, whatever the store says of it
	case e.Reason != 0:
		err = c.request.lost(e.Reason)
	case c.request != nil && errors.Is(err, lockagent.ErrNotHeld):
		err = c.request.releasedTwice()
	}
	c.answer(c.kind == toBreak, err)
}

// subscribe has wake-ups come when they are wanted, and not when they are not. If
// the store panics over that, waiters do without: they ask again by themselves.
func (l *lock) subscribe() {
	switch wanted := l.state.Listening(); {
	case wanted && l.unsubscribe == nil:
		l.unsubscribe = func() {}
		defer l.agent.survive("store")
		l.unsubscribe = l.agent.cfg.Store.Subscribe(l.entry.name, l.wake)
	case !wanted && l.unsubscribe != nil:
		unsubscribe := l.unsubscribe
		l.unsubscribe = nil
		defer l.agent.survive("store")
		unsubscribe()
	}
}

// wake is called by the store.
func (l *lock) wake() {
	if l.woken.CompareAndSwap(false, true) { // one on its way is enough
		send(l.entry, &wakeMsg{})
	}
}

// arm sets a tick for when the state wants one, or when the lock will have been idle
// for long enough. A tick that would come too early is left alone: what it finds to do
// is nothing.
func (l *lock) arm() {
	at, ok := l.state.Alarm()
	if !ok {
		if !l.idle() || l.entry.refs.Load() > 0 {
			return // whatever is still to be processed sees to it
		}
		at = l.used + lockstate.Instant(l.agent.cfg.Idle)
	}
	if l.armed != 0 && l.armed <= at {
		return
	}
	l.armed = max(at, 1)
	l.agent.ticks.set(l, at)
}

// idle reports whether nothing would be missed if the actor left.
func (l *lock) idle() bool {
	return l.state.Idle() && l.requests.len() == 0 && l.calls.len() == 0
}

// leave retires the actor if nobody has needed it for a while. It reports whether
// the actor is gone.
func (l *lock) leave() bool {
	if !l.idle() || !l.closing && l.now.Sub(l.used) < l.agent.cfg.Idle {
		return false
	}
	l.agent.ticks.unset(l)
	l.armed = 0
	if !l.entry.retire() {
		return false
	}
	l.agent.registry.remove(l.entry)
	l.entry.place.stop()
	return true
}

// recover answers everybody after a panic and starts over.
func (l *lock) recover(p any) {
	l.agent.complain("actor of lock "+string(l.entry.name), p)
	if r := l.arriving; r != nil {
		l.arriving = nil
		if l.requests.get(r.id) == nil {
			r.deny(l.entry.name, lockagent.ErrInternal)
		}
	}
	had := l.has()
	l.tellAll()
	for _, id := range l.requests.keys() { // what the state does not know of any more
		r := l.requests.get(id)
		l.forget(r)
		if !r.granted() {
			r.deny(l.entry.name, lockagent.ErrInternal)
		} else {
			r.end(r.lost(lockagent.LostInternal))
		}
	}
	for _, id := range l.calls.keys() {
		l.calls.take(id).answer(false, lockagent.ErrInternal)
	}
	l.takeBack, l.holds = nil, holds{}
	l.restart(had)
}

// has is what the lock may have in the store, all of which is to be withdrawn.
func (l *lock) has() (n lockstate.Snapshot) {
	defer l.agent.survive("state of lock " + string(l.entry.name))
	return l.state.Snapshot().WithoutHolds()
}

// tellAll has the state end every hold and answer every request, as it does on
// closing, but for another reason. The store is told nothing.
func (l *lock) tellAll() {
	defer l.agent.survive("state of lock " + string(l.entry.name))
	advance(l.state, lockstate.Close{}, l.moment(), func(e *lockstate.Event) {
		r := l.requests.get(e.Request.ID)
		switch {
		case e.Kind == lockstate.Answered && r != nil:
			e.Err = lockagent.ErrInternal
			l.do(e)
		case e.Kind == lockstate.Ended && r != nil && r.granted():
			e.Reason = lockagent.LostInternal
			l.do(e)
		}
	})
}

// restart begins with a new state, which first withdraws what the old one had in the store.
func (l *lock) restart(had lockstate.Snapshot) {
	if l.closing && len(had.Tenures) > 0 { // no time to find out whether it panics again
		had = lockstate.Snapshot{}
		l.agent.ending.abandoned.Add(1)
	}
	pause := lockstate.Instant(retryMax) // it may panic again at once
	l.state = l.agent.machine(l.entry.name, had, 0, l.now+pause)
	if l.closing {
		advance(l.state, lockstate.Close{}, l.moment(), func(*lockstate.Event) {})
	}
}
