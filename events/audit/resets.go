package audit

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// resetSpan is what all agents together tell of one reset. They notice it at different times: the
// old incarnation may still serve one agent when the new one has long served another.
type resetSpan struct {
	StoreReset // the earliest that any of them tells; of steps see [storeLog.stepped]

	First lockagent.StoreTime `json:"first"` // the earliest and the latest time that any of them tells
	Last  lockagent.StoreTime `json:"last"`

	Noted time.Duration `json:"noted"` // when it was told of first, on the clock of the log
}

func newReset(r lockagent.Reset) StoreReset {
	return StoreReset{From: r.From, To: r.To, Reason: r.Reason, After: r.After, Before: r.Before, Step: Micros(r.Step), Store: r.Store}
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
func (a *Audit) reset(l *agentLog, r *events.Record) {
	reset, earlier := newReset(r.Reset), l.Resets
	l.Resets = append(l.Resets, reset)
	if len(l.Resets) > maxResets {
		l.Resets = slices.Delete(l.Resets, 0, 1)
	}
	s := a.store(l.Store)
	known := false
	if reset.Before < reset.After {
		a.toldNothing(s)
	}
	switch {
	case reset.From != reset.To:
		s.Resets, _ = noteReset(s.Resets, a.spanOfReset(reset))
		return
	case reset.Step != 0:
		known = s.stepped(a.spanOfReset(reset), earlier)
	case reset.After == reset.Before:
		return // only the name of the store is another one
	default:
		s.Steps, known = noteReset(s.Steps, a.spanOfReset(reset))
	}
	l.Noted = a.clock.Now + 1
	if !known && reset.Before > reset.After && s.Last != 0 && reset.After < min(s.Floor, s.Last) {
		// Perhaps a hold by the clock since was beside one by the clock before, which is forgotten.
		a.found.Belated.add(Belated{Stretch: Stretch{s.ID, reset.After, s.Floor}, Why: "somebody set the clock of the store"})
	}
	if !known && reset.Before < reset.After {
		// The clock was set back: what is to come has earlier times.
		s.Floor, s.Newest = min(s.Floor, reset.Before.Add(-delay)), min(s.Newest, reset.Before)
		for _, other := range a.logs {
			if born, known := other.Elsewhere[l.Store]; known {
				other.Elsewhere[l.Store] = min(born, reset.Before)
			}
			if other.Store == l.Store {
				other.Settled, other.Told, other.Ended = min(other.Settled, reset.Before), 0, 0
				other.Born, other.Early = min(other.Born, reset.Before), min(other.Early, reset.Before)
				a.place(other)
			}
		}
	}
}

func (a *Audit) spanOfReset(reset StoreReset) resetSpan {
	return resetSpan{reset, min(reset.After, reset.Before), max(reset.After, reset.Before), a.clock.Now + 1}
}

func sortResets(list []resetSpan) {
	slices.SortFunc(list, func(x, y resetSpan) int { return x.compare(y.StoreReset) })
}

// noteReset adds a reset to those that are known, and reports whether another agent has told of it
// already: each tells of a reset once. A clock may be set more than once.
func noteReset(list []resetSpan, n resetSpan) (all []resetSpan, known bool) {
	for i := range list {
		x := &list[i]
		if x.From != n.From || x.To != n.To || x.Step != 0 || n.From == n.To && (n.First > x.Last.Add(slack) || n.Last < x.First.Add(-slack)) {
			continue
		}
		x.First, x.Last = min(x.First, n.First), max(x.Last, n.Last)
		if n.compare(x.StoreReset) < 0 {
			x.StoreReset = n.StoreReset
		}
		return list, true
	}
	list = append(list, n)
	sortResets(list)
	return list, false
}

// stepped notes a step of the clock of which the size is known. It reports whether another agent has told
// of it already. earlier are those of which the same agent has told.
//
// A step was at some time between two readings of the clock. For an agent that does not use the store
// these are many minutes apart. One that uses it tells of the same step in a shorter time.
func (s *storeLog) stepped(n resetSpan, earlier []StoreReset) (known bool) {
	for i := range s.Steps {
		x := &s.Steps[i]
		if !x.alike(&n) || slices.ContainsFunc(earlier, func(e StoreReset) bool {
			return x.alike(&resetSpan{StoreReset: e, First: min(e.After, e.Before), Last: max(e.After, e.Before)})
		}) {
			continue
		}
		switch {
		case n.within(x) && !x.back():
			n.Noted = x.Noted
			*x = n
		case x.within(&n) && !x.back():
		default: // perhaps two steps of one size
			x.First, x.Last = min(x.First, n.First), max(x.Last, n.Last)
		}
		known = true
		break
	}
	if !known {
		s.Steps = append(s.Steps, n)
	}
	// A reading may be followed by several steps until the next one.
	sum := func(of *resetSpan) (n int, sum Micros) {
		for i := range s.Steps {
			if x := &s.Steps[i]; x != of && x.Step != 0 && x.within(of) {
				n, sum = n+1, sum+x.Step
			}
		}
		return n, sum
	}
	for i := range s.Steps {
		if x := &s.Steps[i]; x.Step != 0 {
			if n, sum := sum(x); n > 0 && x.fits(sum) {
				s.Steps = slices.Delete(s.Steps, i, i+1)
				break
			}
		}
	}
	sortResets(s.Steps)
	return known
}

// alike reports whether two agents may tell of one step.
func (r *resetSpan) alike(other *resetSpan) bool {
	return r.From == other.From && r.To == other.To && (r.Step > 0) == (other.Step > 0) && (r.Step < 0) == (other.Step < 0) &&
		r.First <= other.Last && other.First <= r.Last && (r.fits(other.Step) || other.fits(r.Step))
}

func (r *resetSpan) within(other *resetSpan) bool {
	return other.First <= r.First && r.Last <= other.Last
}

// back reports whether the clock showed some times twice.
func (r *resetSpan) back() bool { return r.Before < r.After }

// fits reports whether a step of this size may be the same.
func (r *resetSpan) fits(size Micros) bool {
	return time.Duration(size-r.Step).Abs() <= stepTolerance+r.drift()
}

// stepTolerance is by how much two agents may see one step differently, beside the drift of their clocks.
const stepTolerance = 200 * time.Millisecond

// drift is by how much clocks may differ that nobody sets, between the readings.
func (r *resetSpan) drift() time.Duration { return r.Last.Sub(r.First) / drift }

// steppedBack reports whether a time may have come twice.
func (s *storeLog) steppedBack(t lockagent.StoreTime) bool {
	return slices.ContainsFunc(s.Steps, func(x resetSpan) bool {
		return x.back() && t >= x.First.Add(-delay) && t <= x.Last.Add(delay)
	})
}

// step returns the first step of the clock between two times, or nil, and by how much the clock was set in
// that time at most.
func (s *storeLog) step(from, to lockagent.StoreTime) (first *resetSpan, size time.Duration) {
	vague := false
	for i := range s.Steps {
		x := &s.Steps[i]
		if !x.near(from, to) || vague && x.Step == 0 {
			continue
		}
		if first == nil {
			first = x
		}
		size, vague = size+x.size(), vague || x.Step == 0
	}
	return first, size
}

// near reports whether it may have been between two times.
func (r *resetSpan) near(from, to lockagent.StoreTime) bool {
	return r.Last.Add(delay) >= from && r.First.Add(-delay) <= to
}

// byStep returns a step of the clock that explains why a hold ended after the start of the next one, or nil. It
// comes before that start. The store keeps a lease by its own clock. So if the clock was set forward, the next
// hold does not begin before the lease seems to be over.
func (s *storeLog) byStep(x *span, end, start lockagent.StoreTime) *resetSpan {
	from, to := max(x.Start, x.Confirmed), min(end, start)
	step, size := s.step(from, to)
	onlyForward := !slices.ContainsFunc(s.Steps, func(r resetSpan) bool { return r.near(from, to) && r.Step <= 0 })
	if step == nil || end.Sub(start) > size+slack || onlyForward && start.Add(slack) < x.confirmedEnd() {
		return nil
	}
	return step
}

// size is by how much the clock was set at most. If the log does not say it, the readings tell. Agents
// that notice such a step one after another late tell of several as one.
func (r *resetSpan) size() time.Duration {
	if r.Step == 0 {
		return r.Last.Sub(r.First)
	}
	return time.Duration(r.Step).Abs() + r.drift()
}

func (r *resetSpan) forward() bool {
	if r.Step == 0 {
		return r.Before > r.After
	}
	return r.Step > 0
}

// reach is when a tenure ended at the latest, by the clock as it is now. Its holder had perhaps not
// noticed that somebody set the clock forward since the store confirmed the tenure last. Then the end
// is a time of the clock before. Steps after a time do not count. The last of those that do is returned
// as well, or nil.
func (s *storeLog) reach(x *span, end, until lockagent.StoreTime) (at lockagent.StoreTime, step *resetSpan) {
	if end == 0 {
		return 0, nil
	}
	for i := range s.Steps {
		r := &s.Steps[i]
		last := r.Last
		if r.Step == 0 {
			last = r.Before
		}
		if r.forward() && last > x.Confirmed && r.First <= until && (r.Step == 0 || r.First <= end) {
			end, step = end.Add(r.size()), r
		}
	}
	return end, step
}

// forgetResets forgets the resets and steps that were over before a time, as no tenure reaches them that is still to be judged.
// That takes a look at all locks, so it is worth while only after as many records.
func (a *Audit) forgetResets(s *storeLog, until lockagent.StoreTime) {
	if until == endOfTime {
		return
	}
	old := func(r resetSpan) bool { return r.Last.Add(longest) < until }
	if a.found.Events-s.Cleaned < len(a.locks) || !slices.ContainsFunc(s.Resets, old) && !slices.ContainsFunc(s.Steps, old) {
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
	for i := range s.Blanks {
		least = min(least, s.Blanks[i].Low)
	}
	for _, l := range a.logs {
		for i := range l.Open {
			least = min(least, l.Open[i].Low)
		}
	}
	past := func(r resetSpan) bool { return later(r.Last, delay) < least }
	for _, r := range s.Steps {
		if past(r) {
			s.Bygone.add(r.StoreReset)
			s.Stepped = max(s.Stepped, r.Last)
		}
	}
	for _, r := range s.Resets {
		if past(r) {
			s.Bygone.add(r.StoreReset)
		}
	}
	s.Steps, s.Resets = slices.DeleteFunc(s.Steps, past), slices.DeleteFunc(s.Resets, past)
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
