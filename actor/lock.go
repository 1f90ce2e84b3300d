package actor

import (
	"context"
	"errors"
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

	requests smallMap[lockstate.RequestID, request] // those that wait and those that hold
	calls    smallMap[lockstate.CallID, call]
	lastCall lockstate.CallID

	perform   func(*lockstate.Event) // l.do, bound once
	arriving  *request               // the new request of the present step, or nil
	now       lockstate.Instant      // of the present step
	time      time.Time              // the same on the wall clock
	unclaimed []lockstate.RequestID  // grants that were taken back in the present step

	neglected lockstate.Instant // when a grant was found that nobody had received; 0 after one that was received
	neglects  int32             // how many of them there were in a row
	answers   []func()          // to callers, after the present message: see reply
	served    bool              // a request was granted: the state knows how the lock is used

	releaser context.Context     // of the caller who released the last hold, until the next grant; may be nil
	news     news                // from the store
	link     *link               // of the last pass; nil if its release was not traced
	totals   map[uint64]allotted // of tenures that may be granted to a request; nil unless the lock is a semaphore

	lastTotal int // how many permits there were as the store told last; 0 unless the lock is a semaphore

	unsubscribe func()
	woken       atomic.Bool       // a wake-up is on its way; set by the store
	draining    bool              // new requests are refused
	closing     bool              // all requests and holds end
	vacating    bool              // somebody wants to use the name as another kind
	detached    bool              // another process goes on with the holds
	outliving   []uint64          // tenures that stay in the store, because of Request.Outlive
	armed       lockstate.Instant // when the next tick comes, or 0
	timer       *time.Timer       // sends it; nil until the first one is armed
	used        lockstate.Instant // when the last counted message was processed
	tellAt      lockstate.Instant // when the event log is told of its holds; 0 before the first tick
	watching    int32             // how many holds ask whether others want the lock
	wanted      bool              // others want it; only if holds ask
	returns     int               // the return of the agent for which the lock is counted, or 0: see [returns]
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
	if l.returns != 0 && !l.state.InDoubt() {
		l.agent.returns.done(l.returns)
		l.returns = 0
	}
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
	l.vacating = false
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
	atOnce := l.closing || l.vacating || len(l.answers) > 0 && !l.served
	if !l.idle() || !atOnce && l.now.Sub(l.used) < l.agent.cfg.Idle {
		return false
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.armed = 0
	l.journalLeave()
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
			r.end(r.lost(lockagent.LostInternal, ""))
		}
	}
	for _, id := range l.calls.keys() {
		l.calls.take(id).answer(false, lockagent.ErrInternal)
	}
	l.entry.caller.asks = nil // as in answer
	l.unclaimed = nil
	l.restart(had)
	l.journalRestart(ids)
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
