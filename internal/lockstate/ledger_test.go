package lockstate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lockagent/lockagent"
)

// ledger keeps account of the requests, grants and calls of a lock. It knows the machine only
// by its events.
type ledger struct {
	waiting []Request // not answered yet
	grants  []deed    // not ended yet
	calls   []CallID  // not answered yet
	closed  bool
}

// deed is a grant as its owner sees it.
type deed struct {
	Request
	token    lockagent.Token
	tenure   uint64
	fixed    Instant
	claimBy  Instant // 0 once the shell was asked to take the grant back
	recalled bool    // and the shell has not told the outcome
}

func (l *ledger) clone() ledger {
	c := *l
	c.waiting = slices.Clone(l.waiting)
	c.grants = slices.Clone(l.grants)
	c.calls = slices.Clone(l.calls)
	return c
}

// of counts the grants of an owner.
func (l *ledger) of(o lockagent.Owner) (n int) {
	for i := range l.grants {
		if l.grants[i].Owner == o {
			n++
		}
	}
	return n
}

// held reports whether a grant of an owner has a token.
func (l *ledger) held(o lockagent.Owner, t lockagent.Token, m Mode) bool {
	return slices.ContainsFunc(l.grants, func(d deed) bool { return d.Owner == o && d.token == t && d.Mode <= m })
}

// beside reports whether a grant of a mode can stand beside all others.
func (l *ledger) beside(m Mode) bool {
	return !slices.ContainsFunc(l.grants, func(d deed) bool { return d.Mode == Exclusive || m == Exclusive })
}

// tokens are the greatest tokens that were granted: of all grants, and of exclusive ones.
type tokens struct{ all, exclusive lockagent.Token }

func (l *ledger) waiter(id RequestID) int {
	return slices.IndexFunc(l.waiting, func(r Request) bool { return r.ID == id })
}

func (l *ledger) grant(id RequestID) int {
	return slices.IndexFunc(l.grants, func(d deed) bool { return d.ID == id })
}

// endsEarlier reports whether an end of a lease is earlier than that of a grant, or of a kept one earlier than its owner was told.
func (g *deed) endsEarlier(end, told Instant) bool {
	if g.fixed == 0 {
		return end != 0 && (g.Lease == 0 || end < told)
	}
	return end != 0 && end < g.fixed
}

// keeps reports whether a grant of an owner has a kept lease.
func (l *ledger) keeps(o lockagent.Owner) bool {
	return slices.ContainsFunc(l.grants, func(d deed) bool { return d.Owner == o && d.Lease == 0 })
}

// note takes an event into account, after it was applied to s. last are the greatest tokens of
// all time. It returns what is wrong with the event, or an empty text.
func (l *ledger) note(e *Event, s machine, last *tokens) string {
	id := e.Request.ID
	_, beside := s.(*Permits) // whose tenures do not keep each other out
	_, fair := s.(*Fair)
	fair = fair || beside // it has several tenures
	switch e.Kind {
	case Requested:
		if id == 0 || l.waiter(id) >= 0 || l.grant(id) >= 0 {
			return "a request has an id that is in use"
		}
		l.waiting = append(l.waiting, e.Request)
	case Queued:
		if l.waiter(id) < 0 {
			return "a request is queued that does not wait"
		}
	case Answered:
		i := l.waiter(id)
		if i < 0 {
			return "a request is answered that does not wait"
		}
		if e.Err == nil {
			return "a request is answered without an error or a grant"
		}
		if e.Request.Lease == 0 && errors.Is(e.Err, lockagent.ErrLeaseTooShort) {
			return "a request for a kept lease is told to ask for a longer one"
		}
		l.waiting = slices.Delete(l.waiting, i, i+1)
	case Granted, Reentered:
		i := l.waiter(id)
		switch {
		case i < 0:
			return "a request is granted that does not wait"
		case l.closed:
			return "a request is granted after closing"
		case e.Now >= s.Deadline(e.Tenure) || e.Fixed != 0 && e.Now >= e.Fixed:
			return "a request is granted past its deadline"
		case e.Request.Outlive && e.Fixed > s.Deadline(e.Tenure):
			return "a hold that is to outlive its process needs a renewal for that"
		case e.Kind == Granted && !beside && !l.beside(e.Request.Mode):
			return "the lock is granted while it is held here"
		case e.Kind == Granted && !beside && (e.Token <= last.exclusive || e.Request.Mode == Exclusive && e.Token <= last.all):
			return fmt.Sprintf("token %d is granted after %d", e.Token, *last)
		case e.Kind == Granted && slices.ContainsFunc(l.grants, func(d deed) bool { return d.token == e.Token || !fair && d.token > e.Token }):
			return "two grants have one token"
		case e.Kind == Reentered && !l.held(e.Request.Owner, e.Token, e.Request.Mode):
			return "the lock is granted again to an owner or under a token that does not hold it"
		case e.Kind == Reentered && !e.Request.Session:
			return "the lock is granted again without a session"
		case e.Count != l.of(e.Request.Owner)+1:
			return fmt.Sprintf("the %dth grant is counted as the %dth", l.of(e.Request.Owner)+1, e.Count)
		case e.Fixed != 0 && e.Request.Lease == 0 || e.Fixed == 0 && e.Request.Lease != 0 && !l.keeps(e.Request.Owner):
			return "a fixed lease is kept, or a kept one fixed"
		}
		if most := max(1, e.Request.Holds); e.Holds < 1 || e.Holds > most {
			return fmt.Sprintf("an owner who wants to make %d holds may make %d", most, e.Holds)
		}
		last.all = max(last.all, e.Token+lockagent.Token(e.Holds-1))
		if e.Request.Mode == Exclusive {
			last.exclusive = last.all
		}
		l.waiting = slices.Delete(l.waiting, i, i+1)
		l.grants = append(l.grants, deed{Request: e.Request, token: e.Token, tenure: e.Tenure, fixed: e.Fixed, claimBy: e.ClaimBy})
	case Recalled:
		i := l.grant(id)
		if i < 0 || l.grants[i].claimBy == 0 {
			return "a grant is taken back twice, or that is over"
		}
		l.grants[i].claimBy, l.grants[i].recalled = 0, true
	case Ended:
		i := l.grant(id)
		switch {
		case i < 0:
			return "a grant ends that is over"
		case e.Count != l.of(e.Request.Owner)-1:
			return fmt.Sprintf("%d grants are left, but %d are told", l.of(e.Request.Owner)-1, e.Count)
		case e.Token != l.grants[i].token || e.Tenure != l.grants[i].tenure:
			return "a grant ends under another token or tenure"
		}
		l.grants = slices.Delete(l.grants, i, i+1)
	case Extended:
		i := l.grant(id)
		if i < 0 || l.grants[i].Lease == 0 || e.Fixed <= e.Now && e.Fixed != 0 {
			return "a grant is extended that is over or kept"
		}
		if g := &l.grants[i]; g.endsEarlier(e.Fixed, s.Deadline(g.tenure)) {
			return "a lease ends earlier than its owner was told"
		}
		l.grants[i].fixed = e.Fixed
	case Unlocked, AskBreak:
		i := slices.Index(l.calls, e.Call)
		if i < 0 {
			return "a call is answered that was answered or not made"
		}
		l.calls = slices.Delete(l.calls, i, i+1)
	case Closed:
		l.closed = true
	case Detached:
		l.closed, l.grants = true, nil
	case Attempted, Returning, Withdrawing, Returned, Withdrawn, Denied, Forgot, Dropped:
		if slices.ContainsFunc(l.grants, func(d deed) bool { return !fair || d.tenure == e.Tenure }) {
			return "the tenure is over, or asked for, while the lock is held"
		}
	}
	return ""
}
