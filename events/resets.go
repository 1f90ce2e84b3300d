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

	Noted time.Duration `json:"noted"` // when it was told of first, on the clock of the log
}

// explains is the explanation by a reset, as it is known now: others may tell more of it later.
func (r *resetSpan) explains() Explanation {
	reset := r.StoreReset
	return Explanation{Reset: &reset}
}

func (r *resetSpan) excuses(v Violation) Explanation {
	e := r.explains()
	e.Violation = v
	return e
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
		l.Noted = a.clock.Now + 1
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
	*list = append(*list, resetSpan{reset, first, last, a.clock.Now + 1})
	slices.SortFunc(*list, func(x, y resetSpan) int { return x.compare(y.StoreReset) })
	if reset.From == reset.To && reset.Before < reset.After {
		// The clock was set back: what is to come has earlier times.
		s.Floor, s.Newest = min(s.Floor, reset.Before.Add(-delay)), min(s.Newest, reset.Before)
		for _, other := range a.logs {
			if other.Store == l.Store {
				other.Settled, other.Told, other.Ended = min(other.Settled, reset.Before), 0, 0
				other.Born, other.Early = min(other.Born, reset.Before), min(other.Early, reset.Before)
				a.place(other)
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

// reach is when a tenure ended at the latest, by the clock as it is now. Its holder had perhaps not
// noticed that somebody set the clock forward since the store confirmed the tenure last. Then the end
// is a time of the clock before. Steps after a time do not count. The last of those that do is returned
// as well, or nil.
func (s *storeLog) reach(x *span, end, until lockagent.StoreTime) (at lockagent.StoreTime, step *resetSpan) {
	if end == 0 {
		return 0, nil
	}
	for i := range s.Steps {
		if r := &s.Steps[i]; r.Before > r.After && r.Before > x.Confirmed && r.After <= until {
			end, step = end.Add(r.size()), r
		}
	}
	return end, step
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
