package events

import (
	"math"
	"time"
)

// ReadsAll says that the audit is passed every message of its stream. Then a position that is missing
// shows that a message was removed. Call it only if the stream has no other subjects than those that
// are read: see [StreamState].Shared.
func (a *Audit) ReadsAll() { a.whole = true }

// Reached says that all was read up to a position, at a time by the clock of the server. So the last
// messages may be missing, too.
func (a *Audit) Reached(position uint64, now time.Time) {
	if position > a.position {
		a.follow(position+1, now)
		a.position = position
	}
}

// follow follows the positions of a log. All records of a message have the same, and a checkpoint may
// be from between two of them.
func (a *Audit) follow(position uint64, stored time.Time) {
	before := a.position
	if position == 0 || position < before {
		a.ordered = false
	}
	a.position = max(before, position)
	switch {
	case a.first.IsZero() && before == 0:
		a.late = a.late || position > 1
		a.first = stored
	case a.whole && a.ordered && position > before+1:
		a.hole(Range{before + 1, position - 1}, stored)
	}
}

// hole notes that messages are missing, which the stream took before a time. They may be all that there
// was of an agent.
func (a *Audit) hole(gone Range, stored time.Time) {
	a.lost = Hole{Range: gone, Stored: stored}
	h := a.lost
	for _, s := range sorted(a.stores) {
		if s.Timed || stored.IsZero() {
			w := a.holeIn(s)
			h.In = append(h.In, Stretch{s.ID, max(w.Low, 0), w.High})
		}
	}
	a.found.Holes.add(h)
}

// holeIn has the time of a store to which the last hole leads.
func (a *Audit) holeIn(s *storeLog) blank {
	w := blank{Kind: hole, Low: math.MinInt64, High: later(s.at(a.lost.Stored), a.Tail), Gap: a.lost.Range, Noted: a.clock.Now + 1}
	if s.Floor != 0 {
		w.Low = s.Floor
	}
	a.blank(s.ID, w)
	return w
}
