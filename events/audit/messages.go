package audit

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// ReadsAll says that the audit is passed every message of its stream. Then a position that is missing
// shows that a message was removed. Call it only if the stream has no other subjects than those that
// are read: see [natslog.StreamState].Shared.
func (a *Audit) ReadsAll() { a.whole = true }

// Reached says that all was read up to a position, at a time by the clock of the server. So the last
// messages may be missing, too.
func (a *Audit) Reached(position uint64, now time.Time) {
	if position > a.position {
		a.reach(position+1, now)
		a.position = position
	}
}

// follow follows the positions of a log. All records of a message have the same, and a checkpoint may
// be from between two of them.
func (a *Audit) follow(r *events.Record) {
	before := a.position
	a.reach(r.Position, r.Stored)
	if r.Origin == "" || r.Position != 0 && r.Position == before {
		return
	}
	for text := range strings.SplitSeq(r.Origin, ",") {
		switch o, ok := events.ParseOrigin(text); {
		case !ok:
			a.AddError(fmt.Errorf("events: message %d: the header %s has %q", r.Position, events.OriginHeader, text))
		case o.Lost.Last != 0:
			a.messagesMissing(MessageHole{Range: o.Lost, Origin: o.Stream, Agent: r.Agent, Stored: r.Stored})
		}
	}
}

// reach follows the position of one message.
func (a *Audit) reach(position uint64, stored time.Time) {
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
		a.messagesMissing(MessageHole{Range: events.Range{First: before + 1, Last: position - 1}, Stored: stored})
	}
}

// messagesMissing notes that messages are missing, which the stream took before a time, or would have taken. They may
// be all that there was of an agent.
func (a *Audit) messagesMissing(h MessageHole) {
	a.lost = h
	for _, s := range sorted(a.stores) {
		if s.Timed || h.Stored.IsZero() {
			w := a.messagesMissingIn(s)
			h.In = append(h.In, Stretch{s.ID, max(w.Low, 0), w.High})
		}
	}
	if a.concernsAny(h.In) {
		a.found.MessageHoles.add(h)
	}
}

// messagesMissingIn has the time of a store to which the last hole leads.
func (a *Audit) messagesMissingIn(s *storeLog) hole {
	w := hole{
		Kind: ofMessages, Low: math.MinInt64, High: later(s.at(a.lost.Stored), a.Tail), Range: a.lost.Range,
		Origin: a.lost.Origin, Stored: a.lost.Stored,
	}
	if w.Origin != "" {
		w.Low = a.lowOf(w.Origin, s)
	} else if s.Floor != 0 {
		w.Low = s.Floor
	}
	a.addHole(s.ID, w)
	return w
}

// storeTimes is a time of each store.
type storeTimes map[string]lockagent.StoreTime

// toldOf notes that a record tells of a time of a store.
func (a *Audit) toldOf(r *events.Record, store string, t lockagent.StoreTime) {
	if r.Origin == "" {
		return
	}
	for text := range strings.SplitSeq(r.Origin, ",") {
		stream, _, _ := strings.Cut(text, ".")
		told := a.origins[stream]
		if told == nil {
			told = make(storeTimes)
			a.origins[stream] = told
		}
		told[store] = max(told[store], t)
	}
}

// toldNothing says that what origins have told of a store does not count any more: its clock was set back.
func (a *Audit) toldNothing(s *storeLog) {
	for _, told := range a.origins {
		maps.DeleteFunc(told, func(store string, _ lockagent.StoreTime) bool { return a.fold.Store(store) == s.ID })
	}
}

// lowOf is a time of a store: an agent of which an origin has told nothing yet had no holds before. A forwarder may be
// behind for days, so it does not matter when the hub took the last copy. What the copies tell counts. An agent tells
// of its start within the patience of the audit. A time from before a step of the clock that is forgotten says nothing.
func (a *Audit) lowOf(of string, s *storeLog) lockagent.StoreTime {
	low := lockagent.StoreTime(math.MinInt64)
	if s.Stepped != 0 {
		return low
	}
	for store, t := range a.origins[of] {
		if a.fold.Store(store) == s.ID {
			low = max(low, t.Add(-a.Patience))
		}
	}
	return low
}
