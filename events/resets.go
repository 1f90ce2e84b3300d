package events

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// resetSpan is what all agents together tell of one reset. They notice it at different times: the
// old incarnation may still serve one agent when the new one has long served another.
type resetSpan struct {
	StoreReset // the earliest that any of them tells

	First lockagent.StoreTime `json:"first"` // the earliest and the latest time that any of them tells
	Last  lockagent.StoreTime `json:"last"`
}

// slack is by how much times of different agents about one matter may differ.
const slack = time.Second

// reset notes a reset of the store, or a step of its clock.
func (a *Audit) reset(l *agentLog, r *Record) {
	reset := StoreReset(r.Reset)
	l.Resets = append(l.Resets, reset)
	if len(l.Resets) > maxResets {
		l.Resets = slices.Delete(l.Resets, 0, 1)
	}
	if reset.From == reset.To && reset.After == reset.Before {
		return // only the name of the store is another one
	}
	s := a.store(l.Store)
	list := &s.Resets
	if reset.From == reset.To {
		list = &s.Steps
	}
	first, last := min(reset.After, reset.Before), max(reset.After, reset.Before)
	for i := range *list {
		// Each agent tells of a reset once. A clock may be set more than once.
		if x := &(*list)[i]; x.From == reset.From && x.To == reset.To && (reset.From != reset.To || first <= x.Last.Add(slack) && last >= x.First.Add(-slack)) {
			x.First, x.Last = min(x.First, first), max(x.Last, last)
			if reset.compare(x.StoreReset) < 0 {
				x.StoreReset = reset
			}
			return
		}
	}
	*list = append(*list, resetSpan{reset, first, last})
	slices.SortFunc(*list, func(x, y resetSpan) int { return x.compare(y.StoreReset) })
	if reset.From == reset.To && reset.Before < reset.After {
		// The clock was set back: what is to come has earlier times.
		s.Floor = min(s.Floor, reset.Before.Add(-delay))
		for _, other := range a.logs {
			if other.Store == l.Store {
				other.Settled, other.Told = min(other.Settled, reset.Before), 0
			}
		}
	}
}

// steppedBack reports whether a time may have come twice.
func (s *storeLog) steppedBack(t lockagent.StoreTime) bool {
	return slices.ContainsFunc(s.Steps, func(x resetSpan) bool {
		return x.Before < x.After && t >= x.First.Add(-delay) && t <= x.Last.Add(delay)
	})
}

// step returns a step of the clock between two times, or nil.
func (s *storeLog) step(from, to lockagent.StoreTime) *resetSpan {
	for i := range s.Steps {
		if x := &s.Steps[i]; x.Last.Add(delay) >= from && x.First.Add(-delay) <= to {
			return x
		}
	}
	return nil
}

// size is by how much the clock was set at most. Agents that notice one step after another late tell of
// both as one.
func (r *resetSpan) size() time.Duration { return r.Last.Sub(r.First) }

// reach is up to when a tenure may have gone on that its agent ended at a time, and the step of the clock
// that makes it later. The agent counts from the last answer of the store. So it does not know of a
// step forward since then. It did not know either if the clock never showed the time that it tells.
func (s *storeLog) reach(of *span, end lockagent.StoreTime) (at lockagent.StoreTime, step *resetSpan) {
	at = end
	for i := range s.Steps {
		x := &s.Steps[i]
		since := x.First >= of.Confirmed.Add(-slack) && x.First <= at.Add(slack)
		never := end >= x.First.Add(-slack) && end < x.Last
		if end != 0 && x.Before > x.After && (since || never) {
			at, step = at.Add(x.size()+slack), x
		}
	}
	return at, step
}

// between returns a reset that lies between two incarnations, or nil. The name of an incarnation
// may not be known. Then the reset must lie between two times.
func (s *storeLog) between(a, b string, earlier, later lockagent.StoreTime) *resetSpan {
	if a != "" && b != "" {
		if r := s.path(a, b); r != nil {
			return r
		}
		return s.path(b, a)
	}
	for i := range s.Resets {
		r := &s.Resets[i]
		if r.Last >= earlier && r.First <= later && (a == "" || a == r.From) && (b == "" || b == r.To) {
			return r
		}
	}
	return nil
}

// path returns the first of the resets that lead from one incarnation to another, or nil.
func (s *storeLog) path(from, to string) *resetSpan {
	first := map[string]*resetSpan{from: nil} // on the path to each incarnation
	for reached := []string{from}; len(reached) > 0; reached = reached[1:] {
		for i := range s.Resets {
			r := &s.Resets[i]
			if _, again := first[r.To]; again || r.From != reached[0] {
				continue
			}
			first[r.To] = first[r.From]
			if first[r.To] == nil {
				first[r.To] = r
			}
			reached = append(reached, r.To)
		}
	}
	return first[to]
}
