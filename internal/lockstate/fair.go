package lockstate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// Fair is one fair lock as one agent sees it. Every waiter has a place of its own in the
// store's queue. So the lock is granted in the order of the places, across agents, and no
// hand-off overtakes a waiter of another agent.
//
// The parts of a Fair are States. A part serves one request, or all requests of one session.
// To the store, and to each other, the parts are like different agents: their tenures keep
// each other out. So the guarantees of a State hold for all parts together. A Fair gives each
// command to the parts that it concerns, and joins their events.
//
// All requests of a Fair are [Exclusive].
//
// Make one with [NewFair]. The methods are those of [State].
type Fair struct {
	name  lockagent.Name
	cfg   *Config
	fresh func() uint64

	parts  []*State // at least one, in the order in which their waiters came
	owed   []owed
	ghosts map[uint64]bool // tenures that a call to the store is about to end

	habit      habit           // of all parts
	concurrent bool            // the tenures of the parts do not keep each other out, see [Permits]
	floor      lockagent.Token // the greatest token that the agent knows of
}

// owed is a call that several parts answer.
type owed struct {
	call    CallID
	missing int

	// What went wrong, if anything.
	err    error
	reason lockagent.LossReason
}

// NewFair returns a fair lock that nobody holds. cfg is as for [New]. fresh returns a number
// for [Moment].Fresh: a step of a Fair consists of steps of its parts, which need numbers of
// their own.
func NewFair(name lockagent.Name, cfg *Config, fresh func() uint64) *Fair {
	return ResumeFair(name, cfg, fresh, Snapshot{}, 0, 0)
}

// ResumeFair is [Resume] for a fair lock, with any number of tenures.
func ResumeFair(
	name lockagent.Name, cfg *Config, fresh func() uint64, n Snapshot, shift time.Duration, now Instant,
) *Fair {
	f := &Fair{name: name, cfg: cfg, fresh: fresh, ghosts: make(map[uint64]bool), floor: n.Floor}
	for _, part := range n.parts() {
		f.parts = append(f.parts, Resume(name, cfg, part, shift, now))
	}
	if len(f.parts) == 0 {
		f.parts = append(f.parts, New(name, cfg))
	}
	return f
}

// InDoubt is [State.InDoubt] of any part.
func (f *Fair) InDoubt() bool { return f.part((*State).InDoubt) != nil }

// Step is [State.Step]. The parts that c concerns take it one after the other.
func (f *Fair) Step(c Command, m Moment, do func(*Event)) {
	var concerned []*State
	if a, ok := c.(Acquire); ok {
		m = f.seat(m, do)
		concerned = []*State{f.partFor(&a.Request, m)}
	} else {
		if r, ok := c.(DisownReplied); ok {
			delete(f.ghosts, r.Tenure)
		}
		concerned = f.concerned(c, m)
		f.owe(c, len(concerned))
	}
	for i, p := range concerned {
		if i > 0 {
			m.Fresh = f.fresh()
		}
		f.step(p, c, m, do)
	}
	f.admit(m, do)
	if len(f.parts) > 1 {
		f.parts = slices.DeleteFunc(f.parts, (*State).Idle)
	}
	if len(f.parts) == 0 {
		f.parts = append(f.parts, concerned[0])
	}
}

// mostCalls is how many calls of the parts may be under way when another part begins to ask. It is enough to keep a
// server busy. Without a bound, waiters that give up within milliseconds leave the store thousands of calls to make for
// nobody, and whoever has patience waits behind these. A request that does not wait is not held back.
const mostCalls = 16

// calls is how many parts wait for an answer of the store. Parts whose last call failed do not count: they would hold
// back all others while the store is silent.
func (f *Fair) calls() (n int) {
	if len(f.parts) <= mostCalls {
		return 0
	}
	for _, p := range f.parts {
		if p.failures == 0 && (p.phase == asking || p.phase == releasing && p.leaving.inFlight) {
			n++
		}
	}
	return n
}

// admit lets parts ask that were held back, in their order.
func (f *Fair) admit(m Moment, do func(*Event)) {
	for f.calls() < mostCalls {
		p := f.part(func(p *State) bool { return p.heldBack })
		if p == nil {
			return
		}
		f.step(p, Tick{}, Moment{Now: m.Now, Fresh: f.fresh()}, do)
	}
}

func (f *Fair) step(p *State, c Command, m Moment, do func(*Event)) {
	if !f.concurrent {
		p.floor = f.floor
	}
	p.habit = f.habit
	p.heldBack = p.phase == free && f.calls() >= mostCalls
	if r, ok := c.(AcquireReplied); ok {
		switch {
		case f.outdated(&r):
			r.Err = errOutdated
			c = r
		case f.has(r.Reply.Holder):
			r.sibling = true
			c = r
		}
	}
	seated := p.attempt.queued()
	p.Step(c, m, func(e *Event) {
		if !seated && p.attempt.queued() {
			// The store may answer several parts at once. It gave them their places one after the other.
			at := p.attempt.arrived
			for f.part(func(q *State) bool { return q != p && q.attempt.arrived == at }) != nil {
				at++
			}
			p.attempt.arrived, seated = at, true
		}
		if e.Kind == Began {
			f.displace(p, e, do)
		}
		if f.joined(e, m.Now) {
			do(e)
		}
	})
	f.habit = p.habit
}

// has reports whether a holder, in the words of the store, is a tenure of a part.
func (f *Fair) has(holder string) bool {
	t, ok := lockagent.ParseTenure(holder)
	return ok && t.Agent == f.cfg.Agent && f.part(func(p *State) bool { return p.has(t.Number) }) != nil
}

// errOutdated takes the place of an outdated answer. The part then asks the store again.
var errOutdated = fmt.Errorf(
	"%w: the lock has been granted to another request since this answer was given", lockagent.ErrStoreUnavailable,
)

// outdated reports whether an answer grants the lock, but is older than the tenure of another
// part. The store gave this answer first, somebody broke the tenure, and the store granted the
// lock to the other part. But the other answer arrived first.
func (f *Fair) outdated(r *AcquireReplied) bool {
	return !f.concurrent && r.Err == nil && r.Reply.Granted && r.Reply.Token <= f.floor
}

// displace ends the tenures that cannot have the lock any more, because the store has granted
// the lock to another part. Either somebody broke them, or the store lost its data.
func (f *Fair) displace(by *State, began *Event, do func(*Event)) {
	for _, p := range f.parts {
		if !f.concurrent && p.phase == held && p != by {
			lost := displaced{at: began.StoreTime, until: storeUpper(began.StoreTime, began.Sent, began.Now)}
			f.step(p, lost, Moment{Now: began.Now, Fresh: f.fresh()}, do)
		}
	}
}

// displaced says that the store granted the lock to another tenure of this agent.
type displaced struct {
	at    lockagent.StoreTime
	until lockagent.StoreTime // the store's clock shows no more than this now
}

func (displaced) command() {}

// joined turns an event of a part into one of the whole lock. It reports false if the event
// is not for the shell.
func (f *Fair) joined(e *Event, now Instant) bool {
	switch e.Kind {
	case Began, Granted:
		f.floor = max(f.floor, e.Token)
	case Attempted:
		e.Floor = f.floor
	case Queued:
		e.Waiters = f.Waiters()
	case Answered:
		e.Err = f.nameHolder(e.Err, now)
	case Disowning: // not twice
		if f.ghosts[e.Tenure] {
			return false
		}
		f.ghosts[e.Tenure] = true
	case Unlocked:
		return f.answers(e)
	}
	return true
}

// nameHolder returns err. If err names a tenure of this agent as the holder, it names the
// owner instead.
func (f *Fair) nameHolder(err error, now Instant) error {
	held, _ := errors.AsType[*lockagent.HeldError](err)
	if held == nil {
		return err
	}
	t, ok := lockagent.ParseTenure(held.Holder)
	if !ok || t.Agent != f.cfg.Agent {
		return err
	}
	p := f.part(func(p *State) bool { return p.requests.held.n > 0 && p.tenure.number == t.Number })
	if p == nil {
		return err
	}
	return &lockagent.HeldError{Name: f.name, Holder: string(p.requests.oldest().Owner), Left: p.end().Sub(now)}
}

// owe remembers a call that several parts answer.
func (f *Fair) owe(c Command, parts int) {
	var call CallID
	switch c := c.(type) {
	case Break:
		call = c.Call
	case OwnerGone:
		call = c.Call
	case Release:
		call = c.Call
	}
	if call != 0 && parts > 1 {
		f.owed = append(f.owed, owed{call: call, missing: parts})
	}
}

// answers reports whether no other part still has to answer the call. The last answer tells
// what went wrong in any part.
func (f *Fair) answers(e *Event) bool {
	i := slices.IndexFunc(f.owed, func(o owed) bool { return o.call == e.Call })
	if i < 0 {
		return true
	}
	o := &f.owed[i]
	if e.Err != nil || e.Reason != 0 {
		o.err, o.reason = e.Err, e.Reason
	}
	if o.missing--; o.missing > 0 {
		return false
	}
	e.Err, e.Reason = o.err, o.reason
	f.owed = slices.Delete(f.owed, i, i+1)
	return true
}

// Idle is [State.Idle].
func (f *Fair) Idle() bool { return f.part(func(p *State) bool { return !p.Idle() }) == nil }

// Listening is [State.Listening].
func (f *Fair) Listening() bool { return f.part((*State).Listening) != nil }

// Resting is [State.Resting]. No tenure of a part rests.
func (f *Fair) Resting() bool { return false }

// Unheld is [State.Unheld]. The permits of a semaphore are in several tenures, and so it has none.
func (f *Fair) Unheld() uint64 {
	p := f.part(func(p *State) bool { return p.Unheld() != 0 })
	if p == nil || f.concurrent {
		return 0
	}
	return p.Unheld()
}

// Waiters is [State.Waiters].
func (f *Fair) Waiters() (n int) {
	for _, p := range f.parts {
		n += p.Waiters()
	}
	return n
}

// Hold is [State.Hold].
func (f *Fair) Hold() (owner lockagent.Owner, token lockagent.Token, count int, tenure uint64) {
	return f.front().Hold()
}

// Grants is [State.Grants].
func (f *Fair) Grants(o lockagent.Owner, yield func(RequestID) bool) {
	more := true
	for _, p := range f.parts {
		p.Grants(o, func(id RequestID) bool {
			more = yield(id)
			return more
		})
		if !more {
			return
		}
	}
}

// Asked is [State.Asked].
func (f *Fair) Asked(session lockagent.Owner) bool {
	return f.part(func(p *State) bool { return p.Asked(session) }) != nil
}

// Deadline is [State.Deadline].
func (f *Fair) Deadline(tenure uint64) (at Instant) {
	for _, p := range f.parts {
		at = max(at, p.Deadline(tenure))
	}
	return at
}

// Alarm is [State.Alarm].
func (f *Fair) Alarm() (at Instant, ok bool) {
	at = never
	for _, p := range f.parts {
		if due, ok := p.Alarm(); ok {
			at = min(at, due)
		}
	}
	return at, at != never
}

// Snapshot is [State.Snapshot].
func (f *Fair) Snapshot() Snapshot {
	n := Snapshot{Floor: f.floor}
	for _, p := range f.parts {
		of := p.Snapshot()
		n.Tenures = append(n.Tenures, of.Tenures...)
		n.Requests = append(n.Requests, of.Requests...)
	}
	slices.SortFunc(n.Requests, SavedRequest.Compare)
	return n
}

// Tenure is [State.Tenure].
func (f *Fair) Tenure(number uint64) (SavedTenure, bool) {
	p := f.part(func(p *State) bool { return p.has(number) })
	if p == nil {
		return SavedTenure{}, false
	}
	return p.Tenure(number)
}

// Request is [State.Request].
func (f *Fair) Request(id RequestID) (r SavedRequest, ok bool) {
	f.part(func(p *State) bool {
		r, ok = p.Request(id)
		return ok
	})
	return r, ok
}

// Floor is [State.Floor].
func (f *Fair) Floor() lockagent.Token { return f.floor }
