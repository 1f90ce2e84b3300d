package lockstate

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// latchWorld is a small world of its own: two agents, each a Latch with a very simple shell, over a model of
// a store with one latch. It changes by one [action] at a time.
type latchWorld struct {
	now   Instant
	asked [len(latchPeople)]int
	left  latchChances

	count  int  // of the latch; 0 if there is none
	opened bool // a note says that the latch was counted down to 0
	agents [2]latchAgent
	calls  []latchCall

	past    *latchPast
	problem string       // what went wrong, if anything
	log     func(string) // nil, or called with every event
}

// latchPast is how a world came about.
type latchPast struct {
	before *latchPast
	by     action
}

// latchChances bound how often things may happen.
type latchChances struct {
	asks    int // requests of each person
	order   int // as of [chances]
	lost    int // replies, messages and connections that are lost, and replies that arrive twice
	refused int // questions that the store refuses for good
	cancels int // requests whose context ends
	closed  int // agents that are closed
	sets    int // new latches
	downs   int // by agents, who leave a note
	outside int // by outsiders, who only send a message
	deletes int
	resets  int // losses of the store's memory
	forgets int // notes that are too old
}

// latchPeople are the owners, and where they ask. The third one is at the other agent.
var latchPeople = [...]person{{owner: "ann"}, {owner: "bob"}, {owner: "cid", agent: 1}}

// The actions of this world alone.
const (
	doSet         = doOutsider + 1 + iota // the latch is set to a + 1
	doDown                                // an agent counts down
	doDownOutside                         // an outsider counts down
	doDelete                              // an agent deletes the latch
	doForget                              // the store forgets that the latch was counted down to 0
	doReplyTwice                          // the reply to call a arrives, and will arrive again
	// Agent a is told that messages were missed, before its subscription stands or after.
	doOtherMissed
)

// The messages of Redisson's channel.
const (
	latchOpen    = '0'
	latchChanged = '1' // it was set or deleted
)

// latchQuestions is how far apart questions are, see [ceil].
const latchQuestions = queuedSleep + 2*tick

// latchAgent is an agent: the machine, and what its shell and its part of the store know.
type latchAgent struct {
	l      Latch
	fresh  uint64
	ledger ledger
	fates  []fate
	news   // its wake-up says that the subscription stands
	inbox  []byte
	stood  bool // the agent has heard that the subscription stands
	lately bool // a message told that the latch is open
	missed bool // a message was lost since the last question, and the agent does not know that
}

// fate is what happened to the latch since a request came.
type fate struct {
	id     RequestID
	absent bool // there was none at some instant
	opened bool // it was counted down to 0
	gone   bool // it was deleted, or counted down so that nobody could tell the agent
	found  bool // the agent, which heard all messages, found it closed
}

// latchCall is a question on its way to the store or back.
type latchCall struct {
	agent    int
	number   uint64
	upto     RequestID // the youngest request that it concerns
	queue    bool
	heard    bool // the subscription stood
	before   bool // a message had told that the latch is open
	executed bool
	closed   bool // the answer
	opened   bool // the answer's note
	zombie   bool // the machine got an answer
}

func newLatchWorld(left latchChances, count int) *latchWorld {
	w := &latchWorld{left: left, count: count}
	for i := range w.agents {
		cfg := worldConfig()
		w.agents[i].l = *NewLatch("ready", &cfg)
	}
	return w
}

func (w *latchWorld) clone() *latchWorld {
	c := *w
	c.calls = slices.Clone(w.calls)
	for i := range c.agents {
		a := &c.agents[i]
		a.l.requests = a.l.requests.clone()
		a.ledger = a.ledger.clone()
		a.fates = slices.Clone(a.fates)
		a.inbox = slices.Clone(a.inbox)
	}
	return &c
}

func (w *latchWorld) fail(format string, args ...any) {
	if w.problem == "" {
		w.problem = fmt.Sprintf(format, args...)
	}
}

// tell gives a command to an agent, and does what the events ask for.
func (w *latchWorld) tell(i int, c Command) {
	a := &w.agents[i]
	a.fresh++
	paused := false
	a.l.Step(c, Moment{Now: w.now, Fresh: a.fresh}, func(e *Event) {
		if w.log != nil {
			w.log(fmt.Sprintf("    agent %d: %s", i+1, text(e)))
		}
		if problem := a.ledger.note(e, &a.l, new(tokens)); problem != "" {
			w.fail("agent %d: %s: %s", i+1, text(e), problem)
		}
		switch e.Kind {
		case Requested:
			a.fates = append(a.fates, fate{id: e.Request.ID, absent: w.count == 0})
		case Answered:
			at := slices.IndexFunc(a.fates, func(f fate) bool { return f.id == e.Request.ID })
			w.answered(i, e, a.fates[at])
			a.fates = slices.Delete(a.fates, at, at+1)
		case Attempted:
			if slices.ContainsFunc(w.calls, func(c latchCall) bool { return c.agent == i && !c.zombie }) {
				w.fail("agent %d asks twice at a time", i+1)
			}
			w.calls = append(w.calls, latchCall{
				agent: i, number: e.Tenure, upto: a.l.requests.last(), queue: e.FoundClosed, heard: a.stood,
				before: a.lately,
			})
			a.missed, paused = false, false
		case FoundBusy, AttemptFailed:
			paused = true
		}
	})
	if paused {
		a.l.retryAt = ceil(a.l.retryAt, w.now) // see [world.tell]
	}
	if !a.l.Listening() {
		a.subscribed, a.waking, a.stood, a.inbox = false, false, false, nil
	}
}

// answered checks an answer.
func (w *latchWorld) answered(i int, e *Event, f fate) {
	a, who := &w.agents[i], e.Request.Owner
	switch {
	case errors.Is(e.Err, ErrOpen) && !f.absent:
		w.fail("%s is told that the latch is open, but it was not", who)
	case errors.Is(e.Err, ErrOpen) && f.found && !f.opened && !a.missed && len(a.inbox) == 0:
		w.fail("%s found the latch closed, and is told that it is open, but nobody counted it down", who)
	case errors.Is(e.Err, lockagent.ErrLatchGone) && !f.gone && !slices.Contains(a.inbox, latchOpen):
		w.fail("%s is told that the latch is gone, but it was counted down", who)
	case errors.Is(e.Err, lockagent.ErrClosed) && !a.ledger.closed:
		w.fail("%s is told that the agent is closed", who)
	}
}

// change makes the latch count so much. It notes what that means to those who wait, and sends a message if there is
// one.
func (w *latchWorld) change(to int, message byte, note bool) {
	w.count = to
	for i := range w.agents {
		a := &w.agents[i]
		for f := range a.fates {
			f := &a.fates[f]
			f.absent = f.absent || to == 0
			f.opened = f.opened || message == latchOpen
			f.gone = f.gone || to == 0 && message != latchOpen ||
				message == latchOpen && !note && a.stood && !a.subscribed
		}
		if a.subscribed && message != 0 {
			a.inbox = append(a.inbox, message)
		}
	}
}

// untold notes that agent i may not have heard of a count-down.
func (w *latchWorld) untold(i int) {
	a := &w.agents[i]
	for f := range a.fates {
		a.fates[f].gone = a.fates[f].gone || slices.Contains(a.inbox, latchOpen)
	}
}

func (w *latchWorld) execute(c *latchCall) {
	if w.count > 0 {
		w.opened = false
	}
	c.executed, c.closed, c.opened = true, w.count > 0, w.opened
}

// reply gives the answer to a question to its agent.
func (w *latchWorld) reply(c latchCall) {
	a := &w.agents[c.agent]
	r := AcquireReplied{Tenure: c.number}
	switch {
	case c.closed:
		a.lately = a.lately && !c.before
		r.Reply.Remaining = -1
		for f := range a.fates {
			f := &a.fates[f]
			f.found = f.found || c.heard && !c.zombie && f.id <= c.upto
		}
	case c.queue && !c.opened && !a.lately:
		r.Err = lockagent.ErrLatchGone
	default:
		r.Reply.Granted = true
	}
	w.tell(c.agent, r)
}

// do makes something happen.
func (w *latchWorld) do(d action) {
	if errand, busy := w.errand(); busy && d != errand {
		w.left.order--
	}
	w.past = &latchPast{w.past, d}
	if n := w.left.of(d); n != nil {
		*n--
	}
	i, b := int(d.a), int(d.b)
	switch d.kind {
	case doAsk:
		w.asked[i]++
		w.tell(latchPeople[i].agent, Acquire{Request: Request{Owner: latchPeople[i].owner}})
	case doCancel:
		w.tell(i, Cancel{ID: w.agents[i].ledger.waiting[b].ID, Err: lockagent.ErrTimeout, TimedOut: true})
	case doExecute:
		w.execute(&w.calls[i])
	case doReply, doReplyTwice:
		c := w.calls[i]
		w.calls[i].zombie = true
		if d.kind == doReply {
			w.calls = slices.Delete(w.calls, i, i+1)
		}
		w.reply(c)
	case doLose, doRefuse:
		c := w.calls[i]
		w.calls[i].zombie = true
		err := lockagent.ErrStoreUnavailable
		if d.kind == doRefuse {
			err = lockagent.ErrNotPermitted
		}
		w.tell(c.agent, AcquireReplied{Tenure: c.number, Err: err})
	case doSubscribe:
		w.agents[i].subscribed, w.agents[i].waking = true, true
	case doWake:
		w.agents[i].waking, w.agents[i].stood = false, true
		w.tell(i, Woken{})
	case doHear, doMissMessage:
		w.hear(i, d.kind == doHear)
	case doInterrupt:
		w.untold(i)
		a := &w.agents[i]
		a.subscribed, a.waking, a.inbox, a.missing = false, false, nil, true
	case doTellMissed:
		w.agents[i].missing = false
		w.tell(i, Missed{})
	case doOtherMissed:
		w.tell(i, Missed{})
	case doTick:
		w.tell(i, Tick{})
	case doWait:
		w.now, _ = w.next()
	case doClose:
		w.tell(i, Close{})
	case doNews:
		w.agents[i].resetting = false
		w.tell(i, StoreReset{})
	default:
		w.operate(d)
	}
	w.check()
}

// hear is what becomes of the first message to agent i.
func (w *latchWorld) hear(i int, arrives bool) {
	a := &w.agents[i]
	if !arrives {
		w.untold(i)
		a.inbox, a.missed = a.inbox[1:], true
		return
	}
	message := a.inbox[0]
	a.inbox = a.inbox[1:]
	if a.lately && message != latchOpen { // the answer under way may be older
		for f := range a.fates {
			a.fates[f].gone = true
		}
	}
	a.lately = message == latchOpen
	for c := range w.calls {
		w.calls[c].before = w.calls[c].before && w.calls[c].agent != i
	}
	w.tell(i, Woken{})
}

// operate changes the latch.
func (w *latchWorld) operate(d action) {
	switch d.kind {
	case doSet:
		w.opened = false
		w.change(int(d.a)+1, latchChanged, false)
	case doDown, doDownOutside:
		note := d.kind == doDown
		if w.count > 1 {
			w.change(w.count-1, 0, note)
			return
		}
		w.opened = w.opened || note
		w.change(0, latchOpen, note)
	case doDelete:
		w.opened = false
		w.change(0, latchChanged, false)
	case doReset:
		w.opened = false
		w.change(0, 0, false)
		for i := range w.agents {
			w.agents[i].resetting = true
		}
	case doForget:
		w.opened = false
		for i := range w.agents {
			for f := range w.agents[i].fates {
				w.agents[i].fates[f].gone = true
			}
		}
	}
}

// check checks what has to be true at any time.
func (w *latchWorld) check() {
	for i := range w.agents {
		a := &w.agents[i]
		l := &a.l
		_, busy := w.errandOf(i)
		sleeps := l.requests.waiting.len() > 0 && l.asking == 0
		switch {
		case l.Waiters() != len(a.ledger.waiting):
			w.fail("%d requests wait at agent %d, the events tell of %d", l.Waiters(), i+1, len(a.ledger.waiting))
		case l.closed && (l.Listening() || l.Waiters() > 0):
			w.fail("agent %d is closed, but wants something", i+1)
		case sleeps && l.retryAt > w.now.add(latchQuestions):
			w.fail("agent %d does not ask again until %v", i+1, time.Duration(l.retryAt))
		case sleeps && w.count == 0 && l.failures == 0 && !a.missed && !busy:
			w.fail("agent %d waits for a latch that is open, and was told so", i+1)
		case l.requests.waiting.len() == 0 && l.asking == 0 && l.contended && l.quietAt > w.now.add(l.cfg.Linger):
			w.fail("nobody waits at agent %d, but it is subscribed until %v", i+1, time.Duration(l.quietAt))
		}
	}
}

// key is the same for worlds that are the same in everything that can matter later, see [keyer].
func (w *latchWorld) key(k *keyer) uint64 {
	k.buf = k.buf[:0]
	for _, n := range w.asked {
		k.int(int64(n))
	}
	for _, n := range w.left.all() {
		k.int(int64(*n))
	}
	k.int(int64(w.count))
	k.flags(w.opened)
	for i := range w.agents {
		w.keyOfAgent(k, &w.agents[i])
	}
	for i := range w.calls {
		c := &w.calls[i]
		k.int(int64(c.agent))
		k.flags(c.zombie, c.executed, c.closed, c.opened, c.queue, c.heard, c.before)
	}
	return maphash.Bytes(k.seed, k.buf)
}

func (w *latchWorld) keyOfAgent(k *keyer, a *latchAgent) {
	l := &a.l
	k.flags(
		a.subscribed, a.waking, a.stood, a.lately, a.missing, a.resetting, a.missed, l.closed, l.contended, l.hears,
		l.asking != 0, l.heard, l.woken, l.failures > 0,
	)
	k.buf = append(append(k.buf, a.inbox...), byte(len(a.inbox)))
	k.until(l.retryAt, w.now)
	k.until(l.quietAt, w.now)
	k.int(int64(l.requests.waiting.len()))
	for at := range a.fates {
		f := &a.fates[at]
		r := l.requests.find(f.id)
		k.buf = append(k.buf, r.Owner[0])
		k.flags(r.queued, f.id <= l.upto, f.id <= l.found, f.absent, f.opened, f.gone, f.found)
	}
}
