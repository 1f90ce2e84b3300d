package lockstate

import (
	"errors"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// Permits is one semaphore as one agent sees it. It is made of parts, as a [Fair] is: every waiter
// has a tenure and a place of its own, and the store decides who comes first. But the tenures of a
// semaphore do not keep each other out. So a tenure that begins ends no other one, and its token
// says nothing about the others. A [Break] without a token is for the store, which knows all of them.
//
// A wake-up leads to one attempt, and not to one of each waiter. If that attempt shows that the
// next waiter may succeed, too, or if its waiter gives up, the next waiter asks the store. The store passes permits to
// those with a place by itself.
//
// Make one with [ResumePermits]. The methods are those of [State].
type Permits struct{ Fair }

// ResumePermits is [ResumeFair] for a semaphore.
func ResumePermits(
	name lockagent.Name, cfg *Config, fresh func() uint64, n Snapshot, shift time.Duration, now Instant,
) *Permits {
	p := &Permits{*ResumeFair(name, cfg, fresh, n, shift, now)}
	p.concurrent = true
	return p
}

// Step is [State.Step].
func (p *Permits) Step(c Command, m Moment, do func(*Event)) {
	switch c := c.(type) {
	case Woken:
		if !c.All {
			p.wake(func(*State) bool { return true }, m, do)
			return
		}
	case Break: // without a token, other agents may have permits, too
		if c.Token == 0 {
			do(&Event{Kind: AskBreak, Call: c.Call, Now: m.Now})
			return
		}
	}
	if r, ok := c.(AcquireReplied); ok && p.deleted(&r) {
		r.Err = lockagent.ErrDeleted
		c = r
	}
	var next func(*State) bool
	p.Fair.Step(c, m, func(e *Event) {
		if next == nil {
			next = p.mayFollow(c, e)
		}
		if held, ok := errors.AsType[*lockagent.HeldError](e.Err); ok {
			held.Permits = e.Request.Permits // the error is for this request alone
		}
		do(e)
	})
	if next != nil {
		p.wake(next, Moment{Now: m.Now, Fresh: p.fresh()}, do)
	}
}

// deleted reports whether an answer says that the number of permits is not set, although it was when the store answered
// the same waiter before.
func (p *Permits) deleted(r *AcquireReplied) bool {
	asked := p.part(func(s *State) bool { return s.phase == asking && s.attempt.number == r.Tenure })
	return asked != nil && asked.attempt.set && r.Err == nil && !r.Reply.Granted && r.Reply.NotSet
}

// wake has the first waiter that match accepts ask the store.
func (p *Permits) wake(match func(*State) bool, m Moment, do func(*Event)) {
	w := p.part(func(s *State) bool { return (s.phase == asking || s.phase == sleeping) && match(s) })
	if w != nil {
		p.step(w, Woken{}, m, do)
	}
}

// mayFollow tells which waiters may succeed after an event, or nil. A waiter with a place needs no
// attempt: the store passes permits to it.
func (p *Permits) mayFollow(c Command, e *Event) func(*State) bool {
	unseated := func(s *State) bool { return s.phase == sleeping && !s.attempt.queued() }
	if e.Kind == Withdrawing { // it may have been the one that was woken
		return unseated
	}
	reply, ok := c.(AcquireReplied)
	if !ok {
		return nil
	}
	i := slices.IndexFunc(p.parts, func(s *State) bool { return s.has(reply.Tenure) })
	behind := func(s *State) bool { return unseated(s) && slices.Index(p.parts, s) > i }
	switch e.Kind {
	case Began: // there may be more permits
		return unseated
	case AttemptRefused: // the error may concern all
		return func(s *State) bool { return s.phase == sleeping }
	case FoundBusy:
		if e.Queued {
			return behind // it gets a place, too
		}
		if p.parts[i].requests.waiting.n == 0 { // its waiter gave up meanwhile
			return behind
		}
		wanted := p.parts[i].asksFor()
		return func(s *State) bool { return behind(s) && s.asksFor() < wanted }
	}
	return nil
}

// asksFor is how many permits the request at the head asks for.
func (s *State) asksFor() int {
	if w := s.requests.head(); w != nil {
		return w.Permits
	}
	return 0
}
