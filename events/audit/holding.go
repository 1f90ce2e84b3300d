package audit

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/internal/show"
)

// Appeared takes a hold of which the log does not have the grant, but a record that it goes on. The grant may be
// missing, or the log begins late.
func (a follower) Appeared(h *fold.Hold, r *events.Record) {
	l := a.current
	l.Shown++
	if !judged(h.LockKey) {
		a.found.Unjudged++
		l.Kept++ // nobody follows whether it goes back
		return
	}
	if l.Whole {
		l.Whole = false
		a.found.violation(Violation{
			Kind: Contradiction, First: a.heldBy(l, r),
			Why:  "the agent tells that a hold goes on of which it has not told the grant",
			Look: "This is a defect of the agent, or its records were changed. Look at its records before this number.",
		})
	}
	lock := a.lock(h.LockKey)
	s := lock.live(h.Agent, h.Tenure)
	if s == nil {
		s = a.newSpan(lock, h)
	} else { // another hold of the tenure is known
		if h.Start != 0 && (s.Start == 0 || h.Start < s.Start) {
			s.Start = h.Start
		}
		s.Confirmed, s.Lease = max(s.Confirmed, h.Confirmed), max(s.Lease, h.Lease)
		s.Modes |= modeOf(h.Mode)
		s.beginAlone(h)
		s.FirstToken, s.LastToken = min(s.FirstToken, h.Token), max(s.LastToken, h.LastToken())
	}
	s.Open++
	a.outlasts(h, s)
	s.Gone = false
	a.lasts(h, s, r)
	if h.Start == 0 {
		s.doubt("the log does not say when the store began its tenure")
	}
	s.doubt("the log tells that it goes on, and does not have its grant")
}

// Confirmed holds a record that a hold goes on against what the log says of the hold.
func (a follower) Confirmed(h *fold.Hold, r *events.Record) {
	s := a.goesOn(h)
	if s == nil {
		return
	}
	odd := func(why string) {
		a.suspect(s, suspect{Kind: Contradiction, Hold: pieceOf(h), Why: why})
	}
	switch whole := a.hasAll(s); {
	case h.Start != r.StoreTime && h.Start != 0:
		odd(
			fmt.Sprintf(
				"the agent tells that it began at %s, and told before that it began at %s", show.Store(r.StoreTime),
				show.Store(h.Start),
			),
		)
	case h.Owner != r.Owner || h.Incarnation != r.Incarnation || h.Permits != r.Permits || h.Holds != r.Holds ||
		r.Total != 0 && r.Total != h.Total || r.How == lockagent.ByStore && h.How != r.How:
		odd("what the agent tells of it while it goes on is not what it told when it began")
	case whole && h.Grants != r.Count:
		a.counted(h.LockKey, h, r)
	case whole && h.Mode != r.Mode && (modeOf(h.Mode) != shared || modeOf(r.Mode) != exclusive): // else it is said below
		odd(fmt.Sprintf("the agent tells that it is %s, and by its other records it is %s", r.Mode, h.Mode))
	}
	a.upgraded(h, r)
	if h.Mode != r.Mode && modeOf(r.Mode) == shared && modeOf(h.Mode) == exclusive {
		// The record is missing that says when its owner gave back what excluded others.
		s.Modes |= shared
		s.endAlone(h, s.Start, endOfTime)
		s.doubt("the log does not say since when it is shared")
	}
	s.Confirmed = max(s.Confirmed, r.Confirmed)
	if r.Lease != 0 {
		s.Lease = r.Lease
	}
	a.lasts(h, s, r)
}

// lasts notes for how long a hold has gone on by a record that tells so. The end of the tenure is held against that.
func (a *Audit) lasts(h *fold.Hold, s *span, r *events.Record) {
	s.Least, s.Lasted = max(s.Least, r.Confirmed), max(s.Lasted, r.Confirmed)
	s.lastsUntil(h, r)
	if h.Start == 0 {
		return
	}
	end := s.confirmedEnd()
	if until := max(h.Start, s.After).Add(slowed(r.Held)); end != 0 && until > end.Add(rounding(h.Store)) {
		a.suspect(s, suspect{Kind: Outlived, Hold: pieceOf(h), By: until.Sub(end), At: until, Why: fmt.Sprintf(
			"the store had confirmed its lease until %s, and its agent says that it goes on at %s at least",
			show.Store(end), show.Store(until))})
	}
}

// lastsUntil notes until when a hold has gone on at least, by the clock of its agent.
func (s *span) lastsUntil(h *fold.Hold, r *events.Record) {
	if s != nil && h.Start != 0 {
		s.Lasted = max(s.Lasted, r.Confirmed, max(h.Start, s.After).Add(r.Held-r.Held/drift))
	}
}

// has reports whether a hold goes on in the present life of the agent, by its log. A whole life began without holds.
func (l *agentLog) has(h *fold.Hold) bool { return h.Epoch == l.Epoch || !l.Whole && !h.Gone }

// known is how many holds these are, and their sum.
func (a *Audit) known(l *agentLog) (holds int, sum uint64) {
	for _, h := range a.fold.Holds(l.ID) {
		if l.has(h) {
			holds++
			sum += lockagent.HoldSum(h.Lock, h.Tenure, h.Token)
		}
	}
	return holds, sum
}

// toldAgain bounds for how long an agent has a hold before it tells that the hold goes on.
const toldAgain = 11 * time.Minute

// tells takes what a sign of life says of the holds of the agent. The agent has no hidden hold in these cases:
//
//   - The agent has no hold.
//   - The agent has the holds that the log has.
//   - The agent has all of these holds but one. The end of that hold is missing.
//
// Otherwise the agent may have hidden holds. The agent will tell of each hold that goes on. So nothing is judged until
// then. If the agent does not tell, nothing is proven of that time.
func (a *Audit) tells(l *agentLog, r *events.Record) {
	holds, sum := a.known(l)
	switch {
	case r.HasNoHolds():
		a.shows(l, r.StoreTime)
		return
	case r.Count == holds && r.Sum == sum:
		a.goOn(l, r, nil)
		return
	case r.Count == holds-1:
		for _, h := range a.fold.Holds(l.ID) {
			if l.has(h) && r.Sum == sum-lockagent.HoldSum(h.Lock, h.Tenure, h.Token) {
				a.goOn(l, r, h)
				return
			}
		}
	}
	more := max(1, r.Count-holds)
	switch {
	case l.Partial:
	case l.Hides == 0:
		a.hides(l, r.StoreTime, more)
	case l.Unshown == 0: // the start of the agent had no time
		l.Unshown, l.Hides = r.StoreTime, max(l.Hides, l.Shown+more)
	case r.StoreTime > l.Unshown.Add(toldAgain):
		a.notShown(l, r.StoreTime)
		a.hides(l, r.StoreTime, more)
	default:
		l.Hides = max(l.Hides, l.Shown+more)
	}
}

// hides notes that an agent has so many holds that the log does not have, or more.
func (a *Audit) hides(l *agentLog, now lockagent.StoreTime, holds int) {
	l.Hidden = l.hidden()
	l.Unshown, l.Hides, l.Shown = now, holds, 0
	l.Open = append(l.Open, hole{
		Agent: l.ID, Epoch: l.Epoch, Kind: ofHolds, Low: l.Hidden, High: math.MaxInt64, Process: a.processOf(l),
	})
}

// shows notes that an agent has no hidden hold any more. If the log tells of as many as the agent had, these are judged
// as others.
func (a *Audit) shows(l *agentLog, now lockagent.StoreTime) {
	if l.Shown < l.Hides {
		a.notShown(l, now)
	}
	l.Open = slices.DeleteFunc(l.Open, func(w hole) bool { return w.Kind == ofHolds })
	l.Hidden, l.Unshown, l.Hides, l.Shown = 0, 0, 0, 0
}

// notShown notes that nothing is proven up to a time, because an agent had hidden holds.
func (a *Audit) notShown(l *agentLog, now lockagent.StoreTime) {
	a.overBy(l, now.Add(aliveLag), func(w *hole) bool { return w.Kind == ofHolds })
}

// goOn notes that an agent has all holds that the log has, but perhaps one, and no hidden hold. Those of the process
// before go on.
func (a *Audit) goOn(l *agentLog, r *events.Record, but *fold.Hold) {
	a.shows(l, r.StoreTime)
	for _, h := range a.fold.Holds(l.ID) {
		if s := a.spanOf(h); h == but || !l.has(h) || s != nil && !s.Gone {
			continue
		}
		if s := a.goesOn(h); s != nil {
			s.Seen = l.Holes
		}
	}
}
