package actor

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// lock is the actor of one lock name. All fields belong to the actor, unless they say
// otherwise.
type lock struct {
	agent  *Agent
	entry  *entry
	state  machine
	scribe *scribe // nil if nothing is journaled

	requests few[lockstate.RequestID, request] // those that wait and those that hold
	calls    few[lockstate.CallID, call]
	lastCall lockstate.CallID

	perform  func(*lockstate.Event) // l.do, bound once
	arriving *request               // the new request of the present step, or nil
	now      lockstate.Instant      // of the present step
	time     time.Time              // the same on the wall clock
	takeBack []lockstate.RequestID  // grants that were taken back in the present step

	neglected lockstate.Instant // when a grant was found that nobody had received; 0 after one that was received
	neglects  int32             // how many of them there were in a row
	answers   []func()          // to callers, after the present message: see reply
	served    bool              // a request was granted: the state knows how the lock is used

	releaser context.Context     // of the caller who released the last hold, until the next grant; may be nil
	news     news                // from the store
	link     *link               // of the last pass; nil if its release was not traced
	totals   map[uint64]allotted // of tenures that may be granted to a request; nil unless the lock is a semaphore

	unsubscribe func()
	woken       atomic.Bool       // a wake-up is on its way; set by the store
	draining    bool              // new requests are refused
	closing     bool              // all requests and holds end
	unwanted    bool              // somebody wants to use the name as another kind
	detached    bool              // another process goes on with the holds
	outliving   []uint64          // tenures that stay in the store, because of Request.Outlive
	armed       lockstate.Instant // when the next tick comes, or 0
	timer       *time.Timer       // sends it; nil until the first one is armed
	used        lockstate.Instant // when the last counted message was processed
	watching    int32             // how many holds ask whether others want the lock
	wanted      bool              // others want it; only if holds ask
}

func newLock(a *Agent, e *entry) *lock {
	state := a.machines[e.kind](e.name, lockstate.Snapshot{}, 0, 0)
	l := &lock{agent: a, entry: e, state: state, scribe: a.newScribe(e.kind)}
	l.perform = l.do
	return l
}

// receive processes a message to the actor. It must not panic, see [lock.handle].
func (l *lock) receive(m message) {
	l.time = time.Now()
	l.now = l.agent.clock.instant(l.time)
	defer l.processed(m) // also if handle panics
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
	l.unwanted = false
	answers := l.answers
	l.answers = nil
	for _, answer := range answers {
		answer()
	}
}

// handle processes a message. If the agent's own code panics, the lock ends all requests and
// holds, and starts over: see [lock.recover]. Panics of other code, such as callbacks, do not
// come this far. Whoever waits for an answer to a message has to be known before the state is asked about the message:
// then a panic leaves nobody without an answer.
func (l *lock) handle(m message) {
	returned := false
	defer func() {
		p := recover()
		if p == nil && !returned {
			goroutineEnded("code that lock " + string(l.entry.name) + " called")
		}
		if p != nil {
			l.recover(p)
		}
	}()
	l.process(m)
	returned = true
}

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
			l.unwanted = true
			if !l.state.Resting() {
				return
			} // otherwise the name is free when the store has answered
		}
		l.step(m.command)
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
	for len(l.takeBack) > 0 {
		id := l.takeBack[0]
		l.takeBack = l.takeBack[1:]
		advance(l.state, lockstate.Unclaimed{ID: id}, l.moment(), l.perform)
	}
	l.recordStep()
	l.subscribe()
	l.tellWanted()
}

func (l *lock) moment() lockstate.Moment {
	return lockstate.Moment{Now: l.now, Fresh: l.agent.fresh.Add(1)}
}

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
		}
		l.publish(r, e) // before the events of what the holder does
		l.link = nil
		l.grant(r, e)
		return
	case lockstate.Recalled:
		switch {
		case !r.takeBack():
			r.unwatch()
			l.attend(r)
		default:
			l.takeBack = append(l.takeBack, r.id)
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
			lost := r.lost(e.Reason)
			lost.Operator = e.Operator
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
		r.watched(Watcher.Renewed)
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
		l.tellUncertain(e)
	case lockstate.BecameUncertain:
		l.tellUncertain(e)
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
		err = c.request.lost(e.Reason)
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

// arm sets the next tick: when the state wants one, or when the lock will have been idle for
// long enough. It does not put off a tick that is set for an earlier instant: that tick finds
// nothing to do.
func (l *lock) arm() {
	at, ok := l.state.Alarm()
	if !ok {
		if !l.idle() || l.entry.refs.Load() > 0 {
			return // the next message or reply arms again
		}
		at = l.used + lockstate.Instant(l.agent.cfg.Idle)
	}
	if l.armed != 0 && l.armed <= at {
		return
	}
	l.armed = max(at, 1)
	after := min(at.Sub(l.agent.clock.now()), longestSleep)
	if l.timer == nil {
		l.timer = time.AfterFunc(after, l.tick)
	} else {
		l.timer.Reset(after)
	}
}

// tick is called by the timer.
func (l *lock) tick() { send(l.entry, &commandMsg{command: lockstate.Tick{}}) }

// longestSleep bounds for how long a lock does not look at the clock. Timers stand still while the machine is
// suspended, and leases do not.
const longestSleep = 30 * time.Second

// idle reports whether nothing would be lost if the actor left.
func (l *lock) idle() bool {
	return l.state.Idle() && l.requests.len() == 0 && l.calls.len() == 0
}

// leave retires the actor if it has been idle for long enough, if the name is wanted as another kind, or if it served
// nobody and now answers a caller. It reports whether the actor is gone.
func (l *lock) leave() bool {
	if l.entry.retired() {
		return true
	}
	atOnce := l.closing || l.unwanted || len(l.answers) > 0 && !l.served
	if !l.idle() || !atOnce && l.now.Sub(l.used) < l.agent.cfg.Idle {
		return false
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.armed = 0
	l.recordLeave()
	if !l.entry.retire() {
		return false
	}
	l.agent.registry.remove(l.entry)
	l.entry.place.stop()
	return true
}

// reply answers a caller who is no holder, when the present message has been processed. The actor leaves before, unless
// it has more to do, or has served requests. So a caller who was refused, or has only looked, can use the name as
// another kind as soon as the answer is there.
func (l *lock) reply(answer func()) { l.answers = append(l.answers, answer) }

// aboutTheName reports whether a request was refused for its name or its kind, and not because somebody holds the lock.
func aboutTheName(err error) bool {
	option, _ := errors.AsType[*lockagent.OptionError](err)
	return errors.Is(err, lockagent.ErrWrongKind) || errors.Is(err, lockagent.ErrWrongType) ||
		errors.Is(err, lockagent.ErrBadName) ||
		option != nil && option.Option == "kind"
}

// recover ends all requests, holds and calls after a panic, and starts over.
func (l *lock) recover(p any) {
	l.agent.complain("actor of lock "+string(l.entry.name), p)
	if r := l.arriving; r != nil {
		l.arriving = nil
		if l.requests.get(r.id) == nil {
			r.deny(l.entry.name, lockagent.ErrInternal)
		}
	}
	had, ids := l.has(), l.requests.keys()
	l.tellAll()
	for _, id := range l.requests.keys() { // those that the state does not know of
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
	l.entry.caller.asks = nil // as in answer
	l.takeBack = nil
	l.restart(had)
	l.recordRestart(ids)
}

// has is what the lock may have in the store. The new state withdraws all of it.
func (l *lock) has() (n lockstate.Snapshot) {
	l.agent.callback("state of lock "+string(l.entry.name), func() { n = l.state.Snapshot().WithoutHolds() })
	return n
}

// tellAll ends every hold and answers every request that the state knows of. It closes the
// state, but gives ErrInternal and LostInternal as the reasons, and makes no calls to the
// store.
func (l *lock) tellAll() {
	l.agent.callback("state of lock "+string(l.entry.name), func() {
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
	})
}

// restart makes a new state, which first withdraws the tenures of the old one.
func (l *lock) restart(had lockstate.Snapshot) {
	if l.closing && len(had.Tenures) > 0 { // leave them: another panic could keep Close from ending
		had = lockstate.Snapshot{}
		l.agent.ending.abandoned.Add(1)
	}
	pause := lockstate.Instant(retryMax) // it may panic again at once
	l.state = l.agent.machines[l.entry.kind](l.entry.name, had, 0, l.now+pause)
	if l.closing {
		advance(l.state, lockstate.Close{}, l.moment(), func(*lockstate.Event) {})
	}
}
