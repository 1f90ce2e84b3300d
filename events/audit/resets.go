package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/show"
)

// resetSpan is what all agents together tell of one reset. They notice it at different times: the
// old incarnation may still serve one agent when the new one has long served another.
type resetSpan struct {
	StoreReset // the earliest that any of them tells

	First lockagent.StoreTime `json:"first"` // the earliest and the latest time that any of them tells
	Last  lockagent.StoreTime `json:"last"`

	// Behind says that the clock of the new incarnation is behind that of the old one, as an agent has seen.
	Behind bool `json:"behind,omitempty"`
}

func newReset(r lockagent.Reset) StoreReset {
	return StoreReset{
		From: r.From, To: r.To, Reason: r.Reason, After: r.After, Before: r.Before, Step: Micros(r.Step), Store: r.Store,
	}
}

// explains is the explanation by a reset, as it is known now: others may tell more of it later.
func (r *resetSpan) explains() Explanation {
	reset := r.StoreReset
	return Explanation{Reset: &reset}
}

// slack is by how much times of different agents about one matter may differ.
const slack = time.Second

// reset notes a reset of the store, or a step of its clock.
func (a *Audit) reset(l *agentLog, r *events.Record) {
	reset := newReset(r.Reset)
	l.Resets = append(l.Resets, reset)
	if len(l.Resets) > maxResets && l.Store != "" {
		l.Resets = slices.Delete(l.Resets, 0, 1)
	}
	a.wasReset(a.store(l.Store), reset)
}

// wasReset notes it of a store.
func (a *Audit) wasReset(s *storeLog, reset StoreReset) {
	if reset.Before < reset.After {
		a.toldNothing(s)
	}
	switch {
	case reset.From != reset.To:
		behind := reset.Before < reset.After.Add(-rounding(s.ID))
		s.noteReset(resetSpan{reset, min(reset.After, reset.Before), max(reset.After, reset.Before), behind})
	case reset.After != reset.Before || reset.Step != 0: // else only the name of the store is another one
		a.step(s, spanOfStep(reset))
	}
}

// noteReset adds a reset to those that are known. Each agent tells of it once.
func (s *storeLog) noteReset(n resetSpan) {
	for i := range s.Resets {
		x := &s.Resets[i]
		if x.From != n.From || x.To != n.To {
			continue
		}
		x.First, x.Last, x.Behind = min(x.First, n.First), max(x.Last, n.Last), x.Behind || n.Behind
		if n.compare(x.StoreReset) < 0 {
			x.StoreReset = n.StoreReset
		}
		return
	}
	s.Resets = append(s.Resets, n)
	slices.SortFunc(s.Resets, func(x, y resetSpan) int { return x.compare(y.StoreReset) })
}

// spanOfStep is the stretch of a step of the clock: it has all times that the clock may have shown at the moment of the
// step, before it and since. Nobody knows when that moment was between the two readings. So the clock of before may
// have gone on until it would have shown what was read next, and the clock of now may have begun where the first
// reading would have been. A time that is earlier than the stretch is from before the step, and a later one from behind
// it.
func spanOfStep(reset StoreReset) resetSpan {
	size := cmp.Or(time.Duration(reset.Step), reset.Before.Sub(reset.After))
	before, since := reset.Before.Add(-size), reset.After.Add(size)
	return resetSpan{reset, min(reset.After, reset.Before, since), max(reset.After, reset.Before, before), false}
}

// step notes a step of the clock.
func (a *Audit) step(s *storeLog, step resetSpan) {
	early := Stretch{s.ID, step.First, min(step.Last, s.Last)} // what has been judged of it
	told := func(x resetSpan) bool { return x.First <= early.From && early.To <= x.Last }
	if early.From < early.To && !slices.ContainsFunc(s.Steps, told) {
		a.found.JudgedEarly.add(JudgedEarly{Stretch: early, Why: "somebody set the clock of the store"})
	}
	known := s.noteStep(step)
	for _, lock := range a.locks {
		if n := &lock.Number; lock.Store == s.ID { // which change is later than another, nobody knows
			n.Since, n.Seen, n.Unsure = 0, 0, max(n.Unsure, later(step.Last, slack))
		}
	}
	if known || step.Before >= step.After {
		return
	}
	// The clock was set back: what is to come has earlier times.
	s.Floor, s.Newest = min(s.Floor, step.Before.Add(-delay)), min(s.Newest, step.Before)
	for _, l := range a.logs {
		if born, known := l.Elsewhere[s.ID]; known {
			l.Elsewhere[s.ID] = min(born, step.Before)
		}
		if l.Store == s.ID {
			l.Settled, l.Told, l.Ended = min(l.Settled, step.Before), 0, 0
			l.Unshown = min(l.Unshown, step.Before)
			l.Born, l.Early = min(l.Born, step.Before), min(l.Early, step.Before)
			a.place(l)
		}
	}
}

// noteStep adds a step of the clock to those that are known, and reports whether one was about then. Agents notice one
// step at different times, and several steps as one. So what touches becomes one stretch.
func (s *storeLog) noteStep(n resetSpan) (known bool) {
	s.Steps = slices.DeleteFunc(s.Steps, func(x resetSpan) bool {
		if x.First > later(n.Last, slack) || n.First > later(x.Last, slack) {
			return false
		}
		n.First, n.Last, known = min(x.First, n.First), max(x.Last, n.Last), true
		if x.compare(n.StoreReset) < 0 {
			n.StoreReset = x.StoreReset
		}
		return true
	})
	s.Steps = append(s.Steps, n)
	slices.SortFunc(s.Steps, func(x, y resetSpan) int { return cmp.Compare(x.First, y.First) })
	return known
}

// text says why times are not compared. The report tells apart from that how far the clock was set.
func (r *resetSpan) text() string {
	return fmt.Sprintf(
		"somebody set the clock of the store at some time from %s to %s, and times before and since cannot be compared",
		show.Store(r.First), show.Store(r.Last),
	)
}

// step returns the first step of the clock that may have been between two times, or nil.
func (s *storeLog) step(from, to lockagent.StoreTime) *resetSpan {
	for i := range s.Steps {
		if r := &s.Steps[i]; r.First <= later(to, slack) && from <= later(r.Last, slack) {
			return r
		}
	}
	return nil
}

// stepBeside returns a step of the clock that a tenure touches, which ended at end, or nil. It touches none if it began
// before the step and the store confirmed it since: then it went on all the time.
func (s *storeLog) stepBeside(x *span, end lockagent.StoreTime) *resetSpan {
	for i := range s.Steps {
		r := &s.Steps[i]
		low, high := r.First.Add(-slack), later(r.Last, slack)
		if x.Start <= high && (end == 0 || x.overlaps(end) >= low) && (x.Start >= low || x.Confirmed <= high) {
			return r
		}
	}
	return nil
}

// stepOver returns a step of the clock that may have been between the beginning of the second of two tenures and what
// is known of the end of the first one, or nil. An end is told by the clock that confirmed the tenure last.
func (a *Audit) stepOver(store *storeLog, first, second *span) *resetSpan {
	end := max(cmp.Or(a.atMost(first), a.atLeast(first)), first.Told)
	return store.step(min(max(first.Start, first.Confirmed), second.Start), max(end, second.Start))
}

// forgetResets forgets the resets, steps and grace periods that were over before a time, as no tenure reaches them that
// is still to be judged. That takes a look at all locks, so it is worth while only after as many records.
func (a *Audit) forgetResets(s *storeLog, until lockagent.StoreTime) {
	if until == endOfTime {
		return
	}
	old := func(r resetSpan) bool { return r.Last.Add(longest) < until }
	oldGrace := func(g graceSpan) bool { return max(g.Began, g.Ended).Add(longest) < until }
	some := slices.ContainsFunc(s.Resets, old) || slices.ContainsFunc(s.Steps, old) ||
		slices.ContainsFunc(s.Graces, oldGrace)
	if a.found.Events-s.Cleaned < len(a.locks) || !some {
		return
	}
	s.Cleaned = a.found.Events
	least := until.Add(-longest)
	for _, l := range a.locks {
		if l.Store != s.ID {
			continue
		}
		for _, x := range l.Spans {
			least = min(least, x.Start)
		}
	}
	for i := range s.Holes {
		least = min(least, s.Holes[i].Low)
	}
	for _, l := range a.logs {
		for i := range l.Open {
			least = min(least, l.Open[i].Low)
		}
	}
	past := func(r resetSpan) bool { return later(r.Last, delay) < least }
	for _, r := range s.Steps {
		if past(r) {
			a.found.Resets.add(r.StoreReset)
			s.Stepped = max(s.Stepped, r.Last)
		}
	}
	for _, r := range s.Resets {
		if past(r) {
			a.found.Resets.add(r.StoreReset)
		}
	}
	s.Steps, s.Resets = slices.DeleteFunc(s.Steps, past), slices.DeleteFunc(s.Resets, past)
	a.forgetGraces(s, func(at lockagent.StoreTime) bool { return later(at, delay) < least })
}

// between returns a reset that lies between two incarnations, or nil. The name of an incarnation
// may not be known. Then the reset must lie between two times. Resets that a grace period covers do not count; covered
// says that there are only such.
func (s *storeLog) between(
	a, b string, earlier, later lockagent.StoreTime, covers func(*resetSpan) bool,
) (r *resetSpan, covered bool) {
	if a != "" && b != "" {
		if r, covered = s.path(a, b, covers); r == nil && !covered {
			// The incarnation of before may have granted when the next one did, and it keeps to no grace period of that.
			var begun storeLog
			for _, r := range s.Resets {
				if !s.beganAfter(r.To, later) {
					begun.Resets = append(begun.Resets, r)
				}
			}
			r, _ = begun.path(b, a, func(*resetSpan) bool { return false })
		}
		return r, covered
	}
	for i := range s.Resets {
		r := &s.Resets[i]
		if r.Last < earlier || r.First > later || a != "" && a != r.From || b != "" && b != r.To {
			continue
		}
		if !covers(r) {
			return r, false
		}
		covered = true
	}
	return nil, covered
}

// beganAfter reports whether an incarnation began after a time, as is known if it began with a grace period.
func (s *storeLog) beganAfter(incarnation string, at lockagent.StoreTime) bool {
	g := s.graceOf(incarnation)
	return g != nil && at < g.Began.Add(-slack)
}

// path returns the first uncovered one of the resets that lead from one incarnation to another, or nil. If all of them
// are covered, it says so.
func (s *storeLog) path(from, to string, covers func(*resetSpan) bool) (r *resetSpan, covered bool) {
	type place struct {
		incarnation string
		lost        bool // a reset on the way is not covered
	}
	first := map[place]*resetSpan{{from, false}: nil} // the first uncovered one on the way to each place
	for reached := []place{{from, false}}; len(reached) > 0; reached = reached[1:] {
		at := reached[0]
		for i := range s.Resets {
			r := &s.Resets[i]
			if r.From != at.incarnation || r.To == from {
				continue
			}
			next, lost := place{r.To, true}, first[at]
			if lost == nil && covers(r) {
				next.lost = false
			} else if lost == nil {
				lost = r
			}
			if _, again := first[next]; !again {
				first[next] = lost
				reached = append(reached, next)
			}
		}
	}
	_, covered = first[place{to, false}]
	return first[place{to, true}], covered && from != to
}
