package actor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/inperson"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// layers are what the store has beside the methods of every store. A layer that it does not have is nil.
type layers struct {
	messages lockagent.Messages
	operator lockagent.Operator
	counters lockagent.Counters
	history  lockagent.History
	grace    lockagent.Grace
	rests    bool
}

func layersOf(s lockagent.Store) (l layers) {
	l.messages, _ = lockagent.Layer[lockagent.Messages](s)
	l.operator, _ = lockagent.Layer[lockagent.Operator](s)
	l.counters, _ = lockagent.Layer[lockagent.Counters](s)
	l.history, _ = lockagent.Layer[lockagent.History](s)
	l.grace, _ = lockagent.Layer[lockagent.Grace](s)
	rests, ok := lockagent.Layer[lockagent.Rests](s)
	l.rests = ok && rests.Rests()
	return l
}

// The errors of calls that need a layer which the store does not have.
var (
	errNoMessages = wrongOption("Config.Store",
		"it has no lockagent.Messages, so nobody tells whether another process goes on from the same journal; "+
			"use a store that has")
	errNoOperator = wrongOption("Config.Store",
		"it has no lockagent.Operator, so it can neither break nor inspect a lock; use a store that has")
	errNoCounters = wrongOption("Config.Store",
		"it has no lockagent.Counters, so there are no semaphores and no latches; use a store that has")
)

// storeCall is a call to the store: see make. With its reply it becomes a message to the
// actor. It pins the actor until that message has been processed.
type storeCall[R any] struct {
	counted
	lock    *lock
	by      *request        // that asks for the tenure; nil unless the call is made in person
	caller  context.Context // of who makes the call in person, or nil
	tenure  uint64          // the tenure, if the state machine asked for the call
	disowns bool            // the tenure is a ghost
	asker   message         // the message that the reply answers, if the state machine did not ask
	replied atomic.Bool

	reply R
	err   error
}

// make runs a function that makes the call. If the store panics, the call may have taken effect
// or not, as with a store that is unavailable.
func (c *storeCall[R]) make(call func()) {
	c.lock.entry.pin() // never fails: the actor is running
	c.guarded(call)
}

func (c *storeCall[R]) guarded(call func()) {
	c.lock.agent.guard(call, func(err error) {
		var none R
		c.done(none, err)
	})
}

// guard makes a call to the store. If the store panics, failed is called.
func (a *Agent) guard(call func(), failed func(error)) {
	returned := false
	defer func() {
		if returned {
			return
		}
		p := recover()
		if p == nil {
			goroutineEnded("the store")
		}
		a.complain("store", p)
		failed(fmt.Errorf("%w: %w: panic: %v", lockagent.ErrStoreUnavailable, lockagent.ErrInternal, p))
	}()
	call()
	returned = true
}

// done takes the reply. It ignores a second reply.
func (c *storeCall[R]) done(reply R, err error) {
	if c.replied.CompareAndSwap(false, true) {
		c.reply, c.err = reply, err
		send(c.lock.entry, c)
	}
}

func (l *lock) tenureOf(number uint64) lockagent.Tenure {
	return lockagent.Tenure{Agent: l.agent.cfg.ID, Number: number}
}

// makeInPerson is make for a call that is left to the caller of the present message. The caller makes one call only.
func (c *storeCall[R]) makeInPerson(ask func(context.Context)) {
	caller := &c.lock.entry.caller
	if caller.left != nil {
		c.make(func() { ask(inperson.Not(caller.ctx)) })
		return
	}
	c.lock.entry.pin()
	c.caller = caller.ctx
	caller.left = func() { c.guarded(func() { ask(inperson.Context(c.caller)) }) }
}

// left reports whether the caller left before the store had answered. Then the error says nothing about the store.
func (c *storeCall[R]) left() bool {
	return c.caller != nil && c.err != nil && !lockagent.Definite(c.err) && c.caller.Err() != nil
}

func (l *lock) acquire(r *request, e *lockstate.Event) {
	l.news.asked(e.Now)
	c := &storeCall[lockagent.AcquireReply]{lock: l, tenure: e.Tenure}
	req := lockagent.AcquireRequest{
		Name: l.entry.name, Kind: l.entry.kind, Mode: modeOf(e.Request.Mode), Tenure: l.tenureOf(e.Tenure),
		Lease: e.AskedLease, Floor: e.Floor, Permits: e.Request.Permits,
		Queue: e.Queue, Arrived: e.Arrived, Rests: e.Rests, Contends: e.Contends, FoundClosed: e.FoundClosed,
	}
	ask := func(ctx context.Context) { l.agent.cfg.Store.Acquire(ctx, req, c.done) }
	if l.entry.caller.asks == r { // no caller works for another one
		c.by = r
		c.makeInPerson(ask)
		return
	}
	values := r.values()
	c.make(func() { ask(values) })
}

func (l *lock) renew(e *lockstate.Event) {
	l.news.asked(e.Now)
	c := &storeCall[lockagent.RenewReply]{lock: l, tenure: e.Tenure}
	req := lockagent.RenewRequest{
		Name: l.entry.name, Kind: l.entry.kind, Mode: modeOf(e.Mode), Tenure: l.tenureOf(e.Tenure),
		Lease: e.AskedLease, Urgent: e.Urgent, Watched: l.watching > 0, Last: e.Floor,
	}
	req.Permits, req.Total = l.permitsIn(e.Tenure)
	c.make(func() { l.agent.cfg.Store.Renew(context.Background(), req, c.done) })
}

// release gives a tenure back. The context has the values of the caller who released the last hold.
func (l *lock) release(e *lockstate.Event) {
	l.news.asked(e.Now)
	c := &storeCall[lockagent.ReleaseReply]{lock: l, tenure: e.Tenure}
	req := lockagent.ReleaseRequest{
		Name: l.entry.name, Kind: l.entry.kind, Tenure: l.tenureOf(e.Tenure), Last: e.Floor, Unanswered: e.Unanswered,
	}
	ask := func(ctx context.Context) { l.agent.cfg.Store.Release(ctx, req, c.done) }
	if _, ok := l.entry.caller.asks.(*call); ok {
		c.makeInPerson(ask)
		return
	}
	values := valuesOf(l.releaser)
	c.make(func() { ask(values) })
}

// disown releases a ghost.
func (l *lock) disown(e *lockstate.Event) {
	c := &storeCall[lockagent.ReleaseReply]{lock: l, tenure: e.Tenure, disowns: true}
	c.make(func() {
		l.agent.cfg.Store.Release(context.Background(), lockagent.ReleaseRequest{
			Name: l.entry.name, Kind: l.entry.kind, Tenure: l.tenureOf(e.Tenure), Last: e.Floor,
		}, c.done)
	})
}

func (l *lock) askBreak(id lockstate.CallID) {
	asker := l.calls.take(id)
	c := &storeCall[lockagent.BreakReply]{lock: l, asker: asker}
	c.make(func() {
		req := lockagent.BreakRequest{Name: l.entry.name, Kind: l.entry.kind, Operator: asker.operator}
		l.agent.layers.operator.Break(context.Background(), req, c.done)
	})
}

// broken answers a call to break a lock that this agent did not hold alone.
func (l *lock) broken(m *storeCall[lockagent.BreakReply]) {
	by := m.asker.(*call)
	l.agent.brokeFor(l.entry.name, l.entry.kind, by.operator, &m.reply)
	l.reply(func() { by.answer(m.reply.Broken, m.err) })
}

func (l *lock) inspect(m *statusMsg) {
	c := &storeCall[lockagent.Inspection]{lock: l, asker: m}
	c.make(func() { l.agent.layers.operator.Inspect(context.Background(), l.entry.name, l.entry.kind, c.done) })
	m.unheld = l.state.Unheld() // the reply is a later message
}

// inspected answers with what the store knows and what this agent knows.
func (l *lock) inspected(m *storeCall[lockagent.Inspection]) {
	asker := m.asker.(*statusMsg)
	s := statusOf(l.entry.name, &m.reply)
	l.reply(func() { asker.answer(s, m.err) })
	s.Waiters = l.state.Waiters()
	is := func(tenure uint64) bool { return tenure != 0 && s.Holder == l.tenureOf(tenure).String() }
	if owner, token, count, tenure := l.state.Hold(); count > 0 && is(tenure) {
		s.Owner, s.Token, s.HoldCount = owner, token, count
	} else if is(asker.unheld) || is(l.state.Unheld()) { // nobody holds the lock, and it may have gone back meanwhile
		s = lockagent.Status{Name: s.Name, Waiters: s.Waiters}
	}
	s.Resting = l.state.Resting() && !s.Locked
}

// statusOf is what the store knows of a lock.
func statusOf(name lockagent.Name, i *lockagent.Inspection) lockagent.Status {
	return lockagent.Status{
		Name: name, Locked: i.Held, Holder: i.Holder, HoldCount: i.HoldCount, Remaining: i.Remaining,
	}
}

// timeEvery is how often the agent asks for the time of the store. The clocks of two machines
// drift apart by less than a second in the meantime.
const timeEvery = 10 * time.Minute

// storeTime asks the store for its time, which is for the event log: an audit can judge only what
// happened before the time that every agent has told. So the agent asks as soon as it starts,
// again and again until the store answers, and then from time to time.
type storeTime struct {
	mu      sync.Mutex // guards what follows, and is held while the answer is recorded
	timer   *time.Timer
	pause   time.Duration // after the last failure
	stopped bool          // nothing is recorded any more
}

func (a *Agent) askTime() {
	var once sync.Once
	answer := func(at lockagent.StoreTime, err error) { once.Do(func() { a.tellTime(at, err) }) }
	defer func() {
		if p := recover(); p != nil {
			a.complain("store", p)
			answer(0, fmt.Errorf("%w: panic: %v", lockagent.ErrInternal, p))
		}
	}()
	a.layers.history.Time(context.Background(), answer)
}

func (a *Agent) tellTime(at lockagent.StoreTime, err error) {
	t := &a.storeTime
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped || errors.Is(err, lockagent.ErrClosed) {
		return
	}
	if err != nil {
		t.pause = min(max(2*t.pause, retryMin), maxSleep)
		t.timer = time.AfterFunc(t.pause, a.askTime)
		return
	}
	t.pause = 0
	t.timer = time.AfterFunc(timeEvery, a.askTime)
	a.record(context.Background(), &lockagent.Event{Kind: lockagent.EventAlive, StoreTime: at, Lease: a.cfg.Lease})
}

func (t *storeTime) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
}
