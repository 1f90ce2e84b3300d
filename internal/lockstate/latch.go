package lockstate

import (
	"errors"

	"github.com/lockagent/lockagent"
)

// Latch is one latch as one agent sees it: requests wait until its count is 0. All of them share
// the attempts to find that out. Nobody holds a latch. When it is open, each request is Answered with
// [ErrOpen]: an answer that grants nothing.
//
// Make one with [NewLatch]. The methods are those of [State].
type Latch struct {
	name     lockagent.Name
	cfg      *Config
	requests table // none of which is ever granted

	closed    bool
	contended bool    // wake-ups are wanted, see State
	quietAt   Instant // if nobody waits

	hears    bool      // the subscription stands: no message is missed from now on
	asking   uint64    // the number of the attempt under way, or 0
	upto     RequestID // the youngest request when it was sent
	heard    bool      // hears, when it was sent
	woken    bool      // a wake-up came since then: ask again
	found    RequestID // the youngest request for which an attempt that heard has found the latch closed
	failures int32     // attempts that failed in a row
	retryAt  Instant
}

// ErrOpen answers the requests that wait for a latch when it is open.
var ErrOpen = errors.New("the latch is open")

// NewLatch returns a latch for which nobody waits. cfg is as for [New].
func NewLatch(name lockagent.Name, cfg *Config) *Latch { return &Latch{name: name, cfg: cfg} }

// Step is [State.Step].
func (l *Latch) Step(c Command, m Moment, do func(*Event)) {
	take := func(e Event) {
		e.Now = m.Now
		l.apply(&e)
		do(&e)
	}
	l.decide(c, m, take)
	switch {
	case l.closed:
		l.answer(func(*Request) bool { return true }, Event{Err: lockagent.ErrClosed}, take)
	case l.requests.waiting.n > 0 && l.asking == 0 && m.Now >= l.retryAt:
		take(Event{
			Kind: Attempted, Request: l.requests.head().Request, Tenure: m.Fresh,
			Ask: Ask{AskedLease: l.cfg.Watchdog, FoundClosed: l.requests.head().ID <= l.found},
		})
	}
	if l.requests.waiting.n == 0 && l.contended && (m.Now >= l.quietAt || l.closed) {
		take(Event{Kind: Quieted})
	}
}

func (l *Latch) decide(c Command, m Moment, take func(Event)) {
	switch c := c.(type) {
	case Acquire:
		r := c.Request
		r.ID, r.Arrived = RequestID(m.Fresh), m.Now
		take(Event{Kind: Requested, Request: r})
	case Cancel:
		l.answer(
			func(r *Request) bool { return r.ID == c.ID },
			Event{Wait: Wait{TimedOut: c.TimedOut, Cancelled: !c.TimedOut}, Err: c.Err}, take,
		)
	case OwnerGone:
		l.answer(func(r *Request) bool { return r.Owner == c.Owner }, Event{Err: lockagent.ErrSessionClosed}, take)
		take(unlocked(c.Call, nil))
	case Release:
		take(unlocked(c.Call, lockagent.ErrNotHeld))
	case Break:
		if c.Token != 0 { // nobody holds a latch
			take(unlocked(c.Call, lockagent.ErrNotHeld))
			return
		}
		take(Event{Kind: AskBreak, Call: c.Call})
	case Close:
		take(Event{Kind: Closed})
	case Detach:
		take(Event{Kind: Closed})
		take(Event{Kind: Detached})
	case Woken:
		take(Event{Kind: Woke, Retry: Retry{RetryAt: m.Now, Subscribed: l.contended}})
	case Missed, StoreReset: // perhaps the subscription does not stand yet
		take(Event{Kind: Woke, Retry: Retry{RetryAt: m.Now, Subscribed: l.hears}})
	case AcquireReplied:
		if c.Tenure == l.asking {
			l.replied(c, m, take)
		}
	}
}

// replied decides about the answer to the attempt under way. It concerns the requests that had arrived
// when the attempt was sent.
func (l *Latch) replied(c AcquireReplied, m Moment, take func(Event)) {
	asked := l.upto
	waited := func(r *Request) bool { return r.ID <= asked }
	var err error
	switch {
	case errors.Is(c.Err, lockagent.ErrLatchGone): // the others have not found it closed
		asked, err = min(asked, l.found), c.Err
	case c.Err != nil && lockagent.Definite(c.Err):
		err = c.Err
	case c.Err != nil:
		take(Event{
			Kind: AttemptFailed, Err: c.Err,
			Retry: Retry{RetryAt: m.Now.add(l.cfg.backoff(int(l.failures)+1, m)), Failures: l.failures + 1},
		})
		return
	case c.Reply.Granted:
		err = ErrOpen
	default:
		l.foundClosed(&c.Reply, m, take)
		return
	}
	take(Event{Kind: Forgot})
	l.answer(waited, Event{Err: err}, take)
}

func (l *Latch) foundClosed(r *lockagent.AcquireReply, m Moment, take func(Event)) {
	e := Event{
		Kind: FoundBusy, Busy: Busy{Holder: r.Holder, Left: r.Remaining},
		Retry:    Retry{RetryAt: m.Now.add(l.cfg.sleep(r.Remaining, queuedSleep, m))},
		Decision: Decision{StoreTime: r.At, Clock: r.Clock},
	}
	if l.woken {
		e.RetryAt = m.Now
	}
	take(e)
	for w := range l.requests.waiters {
		if !w.queued {
			take(queued(w.Request, l.requests.waiting.len()))
		}
	}
}

// answer answers every waiting request that match accepts.
func (l *Latch) answer(match func(*Request) bool, with Event, take func(Event)) {
	var whom []Request
	for w := range l.requests.waiters {
		if match(&w.Request) {
			whom = append(whom, w.Request)
		}
	}
	with.Kind = Answered
	for _, with.Request = range whom {
		take(with)
	}
}

// apply folds an event into the state, see [State].
func (l *Latch) apply(e *Event) {
	switch e.Kind {
	case Requested:
		l.requests.arrive(e.Request)
	case Queued:
		l.requests.find(e.Request.ID).queued = true
	case Answered:
		l.requests.remove(l.requests.find(e.Request.ID))
		l.quietAt = e.Now.add(l.cfg.Linger)
		if l.requests.waiting.n == 0 {
			l.found, l.retryAt = 0, 0
		}
	case Attempted:
		l.asking, l.upto, l.heard, l.woken = e.Tenure, l.requests.last(), l.hears, false
	case FoundBusy:
		l.asking, l.failures, l.retryAt, l.contended = 0, 0, e.RetryAt, true
		switch {
		case l.requests.waiting.n == 0: // the next request asks at once
			l.retryAt = 0
		case l.heard:
			l.found = l.upto
		}
	case AttemptFailed:
		l.asking, l.failures, l.retryAt = 0, e.Failures, e.RetryAt
	case Forgot: // what was found does not concern those who came later
		l.asking, l.failures, l.retryAt, l.found = 0, 0, 0, 0
	case Woke:
		l.woken, l.hears, l.retryAt = true, e.Subscribed, e.RetryAt
	case Quieted:
		l.contended, l.hears = false, false
	case Closed:
		l.closed = true
	}
}

// Idle is [State.Idle].
func (l *Latch) Idle() bool { return l.requests.waiting.n == 0 && l.asking == 0 && !l.contended }

// Listening is [State.Listening].
func (l *Latch) Listening() bool { return l.contended }

// Resting is [State.Resting]. Nobody has a latch, so none rests.
func (l *Latch) Resting() bool { return false }

// InDoubt is false: nobody holds a latch.
func (l *Latch) InDoubt() bool { return false }

// Unheld is [State.Unheld].
func (l *Latch) Unheld() uint64 { return 0 }

// Waiters is [State.Waiters].
func (l *Latch) Waiters() int { return l.requests.waiting.len() }

// Hold is [State.Hold]: nobody holds a latch.
func (l *Latch) Hold() (owner lockagent.Owner, token lockagent.Token, count int, tenure uint64) {
	return "", 0, 0, 0
}

// Grants is [State.Grants]: there are none.
func (l *Latch) Grants(lockagent.Owner, func(RequestID) bool) {}

// Asked is [State.Asked]: no session asks for a latch.
func (l *Latch) Asked(lockagent.Owner) bool { return false }

// Deadline is [State.Deadline].
func (l *Latch) Deadline(uint64) Instant { return 0 }

// Alarm is [State.Alarm].
func (l *Latch) Alarm() (at Instant, ok bool) {
	switch {
	case l.asking != 0:
		return never, false
	case l.requests.waiting.n > 0:
		return l.retryAt, true
	case l.contended:
		return l.quietAt, true
	}
	return never, false
}

// Snapshot is [State.Snapshot]: there is nothing to go on with.
func (l *Latch) Snapshot() Snapshot { return Snapshot{} }

// Tenure is [State.Tenure]: there is none.
func (l *Latch) Tenure(uint64) (SavedTenure, bool) { return SavedTenure{}, false }

// Request is [State.Request]: who waits for a latch asks again.
func (l *Latch) Request(RequestID) (SavedRequest, bool) { return SavedRequest{}, false }

// Floor is [State.Floor].
func (l *Latch) Floor() lockagent.Token { return 0 }
