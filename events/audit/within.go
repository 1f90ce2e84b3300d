package audit

import (
	"fmt"
	"math"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/show"
)

// TimeRange is a stretch of time. A zero time is an open end.
type TimeRange struct {
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// IsZero reports whether both ends are open.
func (t TimeRange) IsZero() bool { return t.From.IsZero() && t.Until.IsZero() }

// String is from when to when it is.
func (t TimeRange) String() string {
	switch {
	case t.IsZero():
		return "all the time"
	case t.Until.IsZero():
		return "since " + show.Wall(t.From)
	case t.From.IsZero():
		return "up to " + show.Wall(t.Until)
	}
	return show.Range(t.From, t.Until)
}

// Within has the audit give its verdict on a stretch of time. What it finds counts only if it may concern a hold that
// was held in the stretch: an overlap that began later does not, and neither does a hold that was over before.
//
// All records of the log have to be added all the same. A hold of the stretch may have begun long before, and what
// happened in the stretch may be told long after it. Call Within before the first Add.
//
// A hold is outside only if the clock of its store and that of its agent both say so. What an agent says that cannot be
// counts whenever it says so, because nobody knows what is true of its other records. If the clock of a store was set,
// nothing of that store is outside.
func (a *Audit) Within(stretch TimeRange) { a.within = stretch }

// steady reports whether times of a store can be compared with those of the stretch.
func (s *storeLog) steady() bool { return len(s.Steps) == 0 && s.Stepped == 0 }

// beganLater reports whether a tenure began behind the stretch.
func (a *Audit) beganLater(store *storeLog, s *span) bool {
	until := a.within.Until
	return !until.IsZero() && store.steady() && s.Start != 0 && show.StoreWall(s.Start).After(until) &&
		s.first().From.After(until)
}

// endedBefore reports whether a tenure was over before the stretch, and its owner knew that. end is when it ended at
// the latest, or 0.
func (a *Audit) endedBefore(store *storeLog, s *span, end lockagent.StoreTime) bool {
	from, wall := a.within.From, s.Last.Until
	return !from.IsZero() && store.steady() && s.Open == 0 && end != 0 &&
		show.StoreWall(max(end, s.believed())).Before(from) && !wall.IsZero() && wall.Before(from)
}

// outside reports whether no part of a tenure is in the stretch.
func (a *Audit) outside(store *storeLog, s *span, end lockagent.StoreTime) bool {
	return a.beganLater(store, s) || a.endedBefore(store, s, end)
}

// aside reports whether two tenures, the second of which began later, can only have overlapped outside of the stretch.
func (a *Audit) aside(store *storeLog, first, second *span) bool {
	return a.beganLater(store, second) || a.endedBefore(store, first, a.atMost(first)) ||
		a.endedBefore(store, second, a.atMost(second))
}

// concerns reports whether a time of a store, of which the log does not have all, may have a part in the stretch.
func (a *Audit) concerns(store string, low, high lockagent.StoreTime) bool {
	if a.within.IsZero() || store == "" || !a.store(store).steady() {
		return true
	}
	from, until := a.within.From, a.within.Until
	behind := !until.IsZero() && low > 0 && show.StoreWall(low).After(until.Add(slack))
	before := !from.IsZero() && high != math.MaxInt64 && show.StoreWall(high).Before(from.Add(-slack))
	return !behind && !before
}

// concernsAny is as concerns, for one of several stores.
func (a *Audit) concernsAny(in []Stretch) bool {
	for _, s := range in {
		if a.concerns(s.Store, s.From, s.To) {
			return true
		}
	}
	return len(in) == 0
}

// stillOpen notes the records that are missing of agents that still may have had holds with them. Of a stretch that is
// known only when it is over.
func (a *Audit) stillOpen() {
	if a.within.IsZero() {
		return
	}
	for _, l := range sorted(a.logs) {
		for i := range l.Open {
			if w := &l.Open[i]; w.Kind == ofRecords && a.concerns(l.Store, w.Low, w.High) {
				a.found.RecordHoles.add(RecordHole{Agent: l.ID, Epoch: w.Epoch, Range: w.Range})
			}
		}
	}
}

// cover notes which part of the stretch is not judged: the log begins later, it ends earlier, or agents that live still
// have to tell of it.
func (a *Audit) cover(s *storeLog, j *Judged) {
	if a.within.IsZero() || s.Newest == 0 {
		return
	}
	from := a.within.From
	of := "the locks"
	if s.ID != "" {
		of += " of store " + show.Plain(s.ID)
	}
	if !from.IsZero() && a.late && show.StoreWall(s.From).After(from) {
		a.found.Uncovered.add(
			Note(
				fmt.Sprintf(
					"%s are judged from %s on: the log that was read begins later than the time that was asked for", of,
					show.Store(s.From),
				),
			),
		)
	}
	until := a.within.Until
	if until.IsZero() {
		until = from // the stretch ends with the log, and has to begin before that
	}
	switch {
	case until.IsZero():
	case j.To != 0 && show.StoreWall(j.To).Before(until):
		a.found.Uncovered.add(
			Note(
				fmt.Sprintf(
					"%s are judged up to %s: agents that live may still tell of later holds, so ask again in a while", of,
					untilText(j.To),
				),
			),
		)
	case (a.cutOff[s.ID] || a.cutOff[""]) && show.StoreWall(s.Newest).Before(until):
		a.found.Uncovered.add(
			Note(
				fmt.Sprintf(
					"%s are judged up to %s: the log that was read ends earlier than the time that was asked for, and agents had "+
						"not stopped",
					of, show.Store(s.Newest),
				),
			),
		)
	}
}

// unstopped has the stores of the agents that lived when the log ended.
func (a *Audit) unstopped() map[string]bool {
	stores := make(map[string]bool)
	for _, l := range a.logs {
		if l.speaks() && a.clock.Now-l.Heard <= a.Patience {
			stores[l.Store] = true
		}
	}
	return stores
}
