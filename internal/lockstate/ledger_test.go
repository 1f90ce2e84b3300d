package lockstate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// ledger keeps account of the requests, grants and calls of a lock. It knows the machine only
// by its events.
type ledger struct {
	waiting []Request // not answered yet
	grants  []deed    // not ended yet
	calls   []CallID  // not answered yet
	closed  bool

	turn      turn
	leaving   CallID    // it ended the last hold, and the lock has not been returned or handed off
	yields    Instant   // until then others may ask for the lock first
	cancelled RequestID // of the present command
}

// turn is what the events tell of a tenure.
type turn struct {
	tenure uint64
	began  Instant
	from   Instant       // the budget counts from here
	holds  int           // since then
	served bool          // it has served a hold
	rests  bool          // it may rest
	failed bool          // the last renewal failed
	asks   time.Duration // the lease that a renewal asks for which is under way
}

// deed is a grant as its owner sees it.
type deed struct {
	Request
	token      lockagent.Token
	tenure     uint64
	fixed      Instant
	claimBy    Instant // 0 once the shell was asked to take the grant back
	reclaiming bool    // and the shell has not told the outcome
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

// endsEarlier reports whether an end of a lease is earlier than that of a grant, or for a kept lease earlier than the
// deadline that its owner knows.
func (g *deed) endsEarlier(end, deadline Instant) bool {
	if g.fixed == 0 {
		return end != 0 && (g.Lease == 0 || end < deadline)
	}
	return end != 0 && end < g.fixed
}

// keeps reports whether a grant of an owner has a kept lease.
func (l *ledger) keeps(o lockagent.Owner) bool {
	return slices.ContainsFunc(l.grants, func(d deed) bool { return d.Owner == o && d.Lease == 0 })
}

// noted, if it is not nil, is called with each event that a ledger takes into account. A test that runs alone sets it.
var noted func(*Event)

// note takes an event into account, after it was applied to s. last are the greatest tokens of
// all time. It returns what is wrong with the event, or an empty text.
func (l *ledger) note(e *Event, s machine, last *tokens) string {
	if noted != nil {
		noted(e)
	}
	id := e.Request.ID
	_, concurrent := s.(*Permits) // whose tenures do not keep each other out
	_, fair := s.(*Fair)
	fair = fair || concurrent // it has several tenures
	if state, ok := s.(*State); ok {
		if problem := l.follow(e, state); problem != "" {
			return problem
		}
	}
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
		case e.Request.Outlive && e.Fixed == 0:
			return "a hold that is to outlive its process has a kept lease"
		case e.Kind == Granted && !concurrent && !l.beside(e.Request.Mode):
			return "the lock is granted while it is held here"
		case e.Kind == Granted && !concurrent &&
			(e.Token <= last.exclusive || e.Request.Mode == Exclusive && e.Token <= last.all):
			return fmt.Sprintf("token %d is granted after %d", e.Token, *last)
		case e.Kind == Granted &&
			slices.ContainsFunc(l.grants, func(d deed) bool { return d.token == e.Token || !fair && d.token > e.Token }):
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
		l.grants = append(l.grants, deed{
			Request: e.Request, token: e.Token, tenure: e.Tenure, fixed: e.Fixed, claimBy: e.ClaimBy,
		})
	case Reclaiming:
		i := l.grant(id)
		if i < 0 || l.grants[i].claimBy == 0 {
			return "a grant is taken back twice, or that is over"
		}
		if e.Now < l.grants[i].claimBy && id != l.cancelled {
			return "a grant is taken back too early"
		}
		l.grants[i].claimBy, l.grants[i].reclaiming = 0, true
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

// follow keeps account of the tenures of a State. It returns what is wrong with an event, or an empty text.
func (l *ledger) follow(e *Event, s *State) string {
	t := &l.turn
	switch e.Kind {
	case Began:
		*t = turn{tenure: e.Tenure, began: e.Now, from: e.Now, rests: s.tenure.rests}
	case Renewing:
		t.rests, t.asks = false, e.AskedLease
	case Renewed:
		t.failed, t.asks = false, 0
	case Doubted:
		t.failed = false
	case RenewFailed:
		t.failed, t.asks = true, 0
	case Contested:
		if t.rests {
			t.rests, t.from, t.holds = false, e.Now, 0
		}
	case Granted:
		l.leaving = 0
		if problem := l.handedOff(e, s); problem != "" {
			return problem
		}
		t.rests = t.rests && !e.Request.NoRest
		t.holds, t.served = t.holds+int(e.Holds), true
	case Ended:
		if e.Call != 0 {
			l.leaving = e.Call
		}
	case Unlocked:
		if e.Call == l.leaving && e.Err == nil && e.Reason == 0 {
			return "a release is answered before the lock has been returned or handed off"
		}
	case Returning:
		w, first := s.requests.head(), t.tenure == e.Tenure && !t.served && !t.failed
		t.tenure = 0 // the release may have to be made again
		if !first || w == nil || l.closed || w.Mode < s.tenure.mode || e.Now >= s.tenure.deadline ||
			max(s.left(e.Now), t.asks) > max(s.lease(&w.Request), lockagent.PassLease)+rounding {
			break
		}
		return "a tenure goes back before its first hold, though somebody wants it"
	case Attempted:
		if e.Now < l.yields && !slices.ContainsFunc(l.waiting, func(r Request) bool { return r.Try }) {
			return "the lock is asked for before others had their turn"
		}
		l.yields = 0
	case Returned:
		l.leaving, l.yields = 0, e.RetryAt
	case Rested, Withdrawn, Dropped, Denied, Detached:
		l.leaving = 0
	}
	return ""
}

// handedOff returns what is wrong with a grant of a State that was not the first one of its tenure.
func (l *ledger) handedOff(e *Event, s *State) string {
	t, of := &l.turn, &s.tenure
	joins := len(l.grants) > 0 && of.mode == Shared && !of.contested && !of.outsiders
	most, length := s.cfg.HandOffGrants, s.cfg.HandOffTime
	if of.outsiders {
		most, length = max(1, most/20), length/10
	}
	switch {
	case of.doubt:
		return "the lock is granted in a tenure in doubt"
	case e.Token > of.greatest(e.Now):
		return "a token is ahead of the store's clock"
	case e.How == lockagent.ByStore || t.tenure != e.Tenure: // or a process before has granted the lock in this tenure
	case t.failed:
		return "the lock is handed off while renewals fail"
	case of.deadline.Sub(e.Now) < e.Lease/10:
		return "the lock is handed off shortly before the deadline"
	case t.rests && e.Now >= t.began.add(s.cfg.Rest):
		return "the lock rests for too long"
	case !t.rests && !joins && (t.holds >= most || e.Now >= t.from.add(length)):
		return "the lock is handed off beyond the budget"
	}
	return ""
}
