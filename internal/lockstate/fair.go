package lockstate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// Fair is one lock as one agent sees it, where every waiter has a place of its own in the
// store's queue. So the lock is granted in the order of the places, across agents, and
// nothing is handed off past the waiters of other agents.
//
// Its parts are States that have one waiter or holder each, or those of one session. To the store,
// and to each other, they are like different agents: their tenures keep each other out. What a
// State guarantees therefore holds for all of them together. A Fair does no more than find the
// parts that a command concerns, and join what they say.
//
// Make one with [NewFair]. The methods are those of [State].
type Fair struct {
	name  lockagent.Name
	cfg   *Config
	fresh func() uint64

	parts []*State // at least one, in the order in which their waiters came
	owed  []owed
	// ghosts are being ended.
	ghosts map[uint64]bool

	// The greatest tokens that are known: of all, and of those of exclusive tenures.
	floor, exclusive lockagent.Token
}

// owed is a call that several parts are to answer.
type owed struct {
	call    CallID
	missing int
	failed  Event // the first answer that tells of a failure
}

// NewFair returns a fair lock that nobody holds. cfg is as for [New]. fresh returns numbers that
// no step of this agent has, see [Moment]: a step may need several.
func NewFair(name lockagent.Name, cfg *Config, fresh func() uint64) *Fair {
	return ResumeFair(name, cfg, fresh, Snapshot{}, 0, 0)
}

// ResumeFair is [Resume] for a fair lock, with any number of tenures.
func ResumeFair(name lockagent.Name, cfg *Config, fresh func() uint64, n Snapshot, shift time.Duration, now Instant) *Fair {
	f := &Fair{name: name, cfg: cfg, fresh: fresh, ghosts: make(map[uint64]bool), floor: n.Floor}
	for i := range n.Tenures {
		f.parts = append(f.parts, Resume(name, cfg, Snapshot{Tenures: n.Tenures[i : i+1]}, shift, now))
	}
	if len(f.parts) == 0 {
		f.parts = append(f.parts, New(name, cfg))
	}
	return f
}

// Step is [State.Step]. It has the parts take c, one after the other.
func (f *Fair) Step(c Command, m Moment, do func(*Event)) {
	var concerned []*State
	if a, ok := c.(Acquire); ok {
		m = f.seat(m, do)
		concerned = []*State{f.partFor(&a.Request)}
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
	if len(f.parts) > 1 {
		f.parts = slices.DeleteFunc(f.parts, (*State).Idle)
	}
	if len(f.parts) == 0 {
		f.parts = append(f.parts, concerned[0])
	}
}

func (f *Fair) step(p *State, c Command, m Moment, do func(*Event)) {
	p.floor = f.floor
	if r, ok := c.(AcquireReplied); ok && f.outdated(p, &r) {
		r.Err = errOutdated
		c = r
	}
	p.Step(c, m, func(e *Event) {
		if e.Kind == Began {
			f.displace(p, e, do)
		}
		if f.joined(p, e, m.Now) {
			do(e)
		}
	})
}

// errOutdated has the store asked again.
var errOutdated = fmt.Errorf("%w: the lock has been granted to another request since this answer was given", lockagent.ErrStoreUnavailable)

// outdated reports whether the store granted the lock to a part before another grant that is known
// here already: the answers came in another order, and the tenure was over in between.
func (f *Fair) outdated(p *State, r *AcquireReplied) bool {
	last := f.floor
	if p.attempt.mode == Shared {
		last = f.exclusive
	}
	return r.Err == nil && r.Reply.Granted && r.Reply.Token <= last
}

// displace ends the holds of tenures that cannot have the lock any more, because the store has
// granted it to another part: somebody broke the lock, or the store has forgotten.
func (f *Fair) displace(by *State, began *Event, do func(*Event)) {
	for _, p := range f.parts {
		if p.phase == held && p != by && (p.tenure.mode == Exclusive || by.tenure.mode == Exclusive) {
			f.step(p, displaced{at: began.StoreTime}, Moment{Now: began.Now, Fresh: f.fresh()}, do)
		}
	}
}

// displaced says that the store has granted the lock to another tenure of this agent.
type displaced struct{ at lockagent.StoreTime }

func (displaced) command() {}

// joined makes an event of one part that of the lock. It reports false if there is none.
func (f *Fair) joined(p *State, e *Event, now Instant) bool {
	switch e.Kind {
	case Began, Granted:
		f.floor = max(f.floor, e.Token)
		if p.tenure.mode == Exclusive {
			f.exclusive = max(f.exclusive, e.Token)
		}
	case Queued:
		e.Waiters = f.Waiters()
	case Answered:
		e.Err = f.nameHolder(e.Err, now)
	case Disowning: // it is no ghost if another part has it; and one call ends a ghost for all
		if f.ghosts[e.Tenure] || f.part(func(p *State) bool { return p.has(e.Tenure) }) != nil {
			return false
		}
		f.ghosts[e.Tenure] = true
	case Unlocked:
		return f.answers(e)
	}
	return true
}

// nameHolder has an error that tells of a tenure of this agent tell of its owner.
func (f *Fair) nameHolder(err error, now Instant) error {
	held, _ := errors.AsType[*lockagent.HeldError](err)
	if held == nil {
		return err
	}
	t, ok := lockagent.ParseTenure(held.Holder)
	if !ok || t.Agent != f.cfg.Agent {
		return err
	}
	p := f.part(func(p *State) bool { return len(p.grants) > 0 && p.tenure.number == t.Number })
	if p == nil {
		return err
	}
	return &lockagent.HeldError{Name: f.name, Holder: string(p.grants[0].request.Owner), Left: p.end().Sub(now)}
}

// owe remembers a call that several parts are to answer.
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

// answers reports whether the answer to a call is the last one. It makes it the one that
// matters.
func (f *Fair) answers(e *Event) bool {
	i := slices.IndexFunc(f.owed, func(o owed) bool { return o.call == e.Call })
	if i < 0 {
		return true
	}
	o := &f.owed[i]
	if o.failed.Call == 0 && (e.Err != nil || e.Reason != 0) {
		o.failed = *e
	}
	if o.missing--; o.missing > 0 {
		return false
	}
	if o.failed.Call != 0 {
		e.Err, e.Reason = o.failed.Err, o.failed.Reason
	}
	f.owed = slices.Delete(f.owed, i, i+1)
	return true
}

// part is the first part that match accepts, or nil.
func (f *Fair) part(match func(*State) bool) *State {
	if i := slices.IndexFunc(f.parts, match); i >= 0 {
		return f.parts[i]
	}
	return nil
}

// partFor is the part that a request is for: that of its session, or else one of its own,
// behind all others.
func (f *Fair) partFor(r *Request) *State {
	if p := f.part(func(p *State) bool { return p.closed || p.lets(r) }); p != nil {
		return p
	}
	p := f.part(func(p *State) bool { return p.phase == free && p.queue.len() == 0 })
	if p == nil {
		p = New(f.name, f.cfg)
	}
	p.contended = f.Listening() // so that it asks for a place at once
	f.parts = append(slices.DeleteFunc(f.parts, func(q *State) bool { return q == p }), p)
	return p
}

// lets reports whether a request may be let in again by the session of the part, now or when that
// has the lock.
func (s *State) lets(r *Request) bool {
	return s.grants.again(r) != nil || r.Session && s.queue.ofSession(r.Owner, func(w *Request) bool { return w.Mode <= r.Mode }) != nil
}

// seat has the parts ask for a place that found the lock busy, and have not asked for one,
// because the subscription does not stand yet. The request that comes now would be faster. It
// returns the moment of that.
func (f *Fair) seat(m Moment, do func(*Event)) Moment {
	for _, p := range f.parts {
		if p.phase == sleeping && p.failures == 0 && !p.attempt.placed {
			f.step(p, Woken{}, m, do)
			m.Fresh = f.fresh()
		}
	}
	return m
}

// concerned are the parts that are to hear a command. If it concerns none, one of them says
// so: the one that holds the lock, if there is one.
func (f *Fair) concerned(c Command, m Moment) (parts []*State) {
	for _, p := range f.parts {
		if p.concerns(c, m) {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		parts = append(parts, f.front())
	}
	return parts
}

// front is the part that has held the lock for longest, or any if nobody holds it.
func (f *Fair) front() *State {
	front := f.parts[0]
	for _, p := range f.parts[1:] {
		if len(p.grants) > 0 && (len(front.grants) == 0 || p.grants[0].since < front.grants[0].since) {
			front = p
		}
	}
	return front
}

// concerns reports whether a command is about what the part has, asks for, or serves.
func (s *State) concerns(c Command, m Moment) bool {
	serves := func(id RequestID) bool { return s.queue.find(id) != nil || s.grants.find(id) >= 0 }
	switch c := c.(type) {
	case Cancel:
		return serves(c.ID)
	case Unclaimed:
		return serves(c.ID)
	case Extend:
		return serves(c.ID)
	case Release:
		return serves(c.ID) || c.ID == 0 && s.grants.of(c.Owner) > 0
	case OwnerGone:
		return s.grants.of(c.Owner) > 0 || s.queue.search(func(r *Request) bool { return r.Owner == c.Owner }) != nil
	case Break:
		return len(s.grants) > 0
	case Tick:
		at, ok := s.Alarm()
		return ok && at <= m.Now
	case Passed:
		return s.has(c.Tenure)
	case Standby:
		return s.has(c.Tenure)
	case Wanted:
		return s.has(c.Tenure)
	case Broken:
		return s.has(c.Tenure)
	case AcquireReplied:
		return s.has(c.Tenure)
	case RenewReplied:
		return s.has(c.Tenure)
	case ReleaseReplied:
		return s.has(c.Tenure)
	}
	return true // Woken, Missed, StoreReset, DisownReplied, Close, Detach
}

// Idle is [State.Idle].
func (f *Fair) Idle() bool { return f.part(func(p *State) bool { return !p.Idle() }) == nil }

// Listening is [State.Listening].
func (f *Fair) Listening() bool { return f.part((*State).Listening) != nil }

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
		n.Tenures = append(n.Tenures, p.Snapshot().Tenures...)
	}
	return n
}
