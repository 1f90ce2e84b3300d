package audit

import (
	"fmt"
	"math"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/internal/show"
)

// hole is a time of a store in which an agent may have had holds that the log does not have. If no
// agent is named, it may be any.
type hole struct {
	Agent lockagent.AgentID   `json:"agent,omitempty"`
	Epoch uint64              `json:"epoch,omitempty"`
	Kind  holeKind            `json:"kind"`
	Low   lockagent.StoreTime `json:"low"`
	High  lockagent.StoreTime `json:"high"`

	// Range is what is missing: records, epochs, messages. Of a tail Last is the last record.
	Range   events.Range `json:"range,omitzero"`
	Process fold.Process `json:"process,omitzero"`  // of a tail
	Assumed bool         `json:"assumed,omitempty"` // a tail that no later record bounds
	Sure    bool         `json:"sure,omitempty"`    // a life: it left records, which are missing
	// Origin is the stream in which missing messages stood, if they were to be forwarded from there.
	Origin string `json:"origin,omitempty"`

	// Anywhere says that the agent had not named its store. Then Low and High are times of none that is known. By the
	// clock of the stream the hole was over at Stored. Missing messages were, too.
	Anywhere bool      `json:"anywhere,omitempty"`
	Stored   time.Time `json:"stored,omitzero"`
}

type holeKind uint8

const (
	ofRecords   holeKind = iota // records are missing
	ofTail                      // the log of the agent has no end
	ofLives                     // the agent had lives without a record
	ofMessages                  // messages of the stream are missing
	ofBeginning                 // the beginning of the log was retired
	ofHolds                     // the agent has holds that the log does not have
)

const didNotStop = "did not stop"

func (w *hole) text() string {
	switch w.Kind {
	case ofTail:
		return fmt.Sprintf(
			"agent %s (epoch %d) %s, and may have held the lock until %s", fold.AgentText(w.Agent, w.Process), w.Epoch,
			didNotStop, untilText(w.High),
		)
	case ofLives:
		return fmt.Sprintf(
			"agent %s may have held the lock in a life of which the log has no record, before epoch %d", w.Agent, w.Range.Last+1,
		)
	case ofHolds:
		return fmt.Sprintf(
			"agent %s (epoch %d) told that it had holds of which the log does not tell, until %s at the latest",
			fold.AgentText(w.Agent, w.Process), w.Epoch, untilText(w.High),
		)
	case ofMessages:
		of := "the stream"
		if w.Origin != "" {
			of = "origin " + show.Plain(w.Origin)
		}
		return fmt.Sprintf(
			"any agent may have held the lock, for the messages %d to %d of %s are missing", w.Range.First, w.Range.Last, of,
		)
	}
	return fmt.Sprintf(
		"agent %s (epoch %d) may have held the lock, for its records %d to %d are missing", w.Agent, w.Epoch, w.Range.First,
		w.Range.Last,
	)
}

// touches reports whether the agent of a hole may have had the lock while a span of a store had it.
func (a *Audit) touches(store *storeLog, w *hole, s *span) bool {
	if s.Agent == w.Agent && s.Permits == 0 &&
		(w.Kind != ofRecords || s.Last.Epoch == w.Epoch && s.Last.Seq < w.Range.First ||
			s.first().Epoch == w.Epoch && s.first().Seq > w.Range.Last) {
		return false // an agent's own records tell their order; but an agent may have several permits at a time
	}
	low, high := a.extent(store, w)
	if s.Start >= high {
		return false
	}
	end := a.atMost(s)
	return end == 0 || max(end, s.believed()) > low
}

// extent returns the beginning and the end of a hole. The agent may not have noticed a step of the clock that came
// before the hole was over. Then these are times of the clock before, and nobody knows how they compare with those
// since. So the hole is longer by the stretch of the step at both sides. But what it has of the clock since is not
// before that stretch.
func (a *Audit) extent(store *storeLog, w *hole) (low, high lockagent.StoreTime) {
	if low, high = w.Low, w.High; w.Anywhere && store.ID != "" {
		low, high = math.MinInt64, later(store.at(w.Stored), a.Tail)
	}
	for i := range store.Steps {
		r := &store.Steps[i]
		if r.First > later(high, slack) {
			continue
		}
		stretch := r.Last.Sub(r.First)
		if high = later(high, stretch); low > r.First {
			low = max(r.First, low.Add(-stretch))
		}
	}
	return low, high
}

// open begins a hole of an agent. It goes on until the log shows a time at which it was over.
func (a *Audit) open(l *agentLog, w hole) {
	l.Holes++
	l.Whole = false
	if i := len(l.Open) - 1; w.Kind == ofRecords && i >= 0 && l.Open[i].Kind == ofRecords && l.Open[i].Epoch == l.Epoch {
		l.Open[i].Range.Last = w.Range.Last
		return
	}
	w.Agent, w.Epoch, w.High = l.ID, l.Epoch, math.MaxInt64
	l.Open = append(l.Open, w)
}

// bounded ends the holes of an agent: it recorded something after them, no later than at high.
func (a *Audit) bounded(l *agentLog, high lockagent.StoreTime) {
	a.overBy(l, high, func(w *hole) bool { return w.Kind != ofHolds })
}

// departed ends all holes of an agent, which has stopped or died.
func (a *Audit) departed(l *agentLog, high lockagent.StoreTime) {
	a.overBy(l, high, func(*hole) bool { return true })
}

// begunBy says that the process of an agent had begun at a time of the store. The earlier
// processes were over by then.
func (a *Audit) begunBy(l *agentLog, t lockagent.StoreTime) {
	a.overBy(l, t, func(w *hole) bool {
		return w.Kind == ofTail || w.Kind == ofLives || w.Kind == ofHolds && w.Epoch < l.Epoch
	})
}

func (a *Audit) overBy(l *agentLog, high lockagent.StoreTime, which func(*hole) bool) {
	kept := l.Open[:0]
	for _, w := range l.Open {
		if !which(&w) {
			kept = append(kept, w)
			continue
		}
		w.High = high
		switch s := a.store(l.Store); w.Kind {
		case ofBeginning:
			s.From = max(s.From, high)
			continue
		case ofLives:
			if l.Store == "" && !w.Sure {
				continue // an agent that never has a store holds nothing
			}
			if a.concerns(l.Store, w.Low, high) {
				a.found.RecordHoles.add(RecordHole{Agent: l.ID, Epoch: w.Range.First, Lives: w.Range.Last - w.Range.First + 1})
			}
		case ofTail:
			if a.concerns(l.Store, w.Low, high) {
				a.found.Tails.add(w.tail())
			}
			a.livedOn(l, &w)
		case ofRecords:
			if !a.within.IsZero() && a.concerns(l.Store, w.Low, high) {
				a.found.RecordHoles.add(RecordHole{Agent: l.ID, Epoch: w.Epoch, Range: w.Range})
			}
		}
		w.Stored = l.Stored
		a.addHole(l.Store, w)
	}
	if l.Open = kept; len(kept) == 0 {
		l.Open = nil
	}
}

// tail is how reports tell of it.
func (w *hole) tail() Tail {
	return Tail{
		Agent: w.Agent, Epoch: w.Epoch, Process: w.Process, Last: w.Range.Last, From: max(w.Low, 0), To: w.High,
		Assumed: w.Assumed,
	}
}

// addHole notes that holds in a time of a store are not proven, or of any store if that is not named. A part of it may
// have been judged.
func (a *Audit) addHole(store string, w hole) {
	if store != "" {
		s := a.store(store)
		s.Holes = append(s.Holes, w)
		a.judgedEarly(s, &w)
		return
	}
	w.Anywhere = true
	a.anywhere = append(a.anywhere, w)
	if w.Kind == ofLives || w.Kind == ofRecords && w.Range.First == 1 {
		// Otherwise nothing has been judged since the agent began.
		for _, s := range sorted(a.stores) {
			a.judgedEarly(s, &w)
		}
	}
}

// judgedEarly notes that a part of a hole had been judged.
func (a *Audit) judgedEarly(s *storeLog, w *hole) {
	if low, high := a.extent(s, w); s.Last != 0 && low < min(s.Floor, s.Last) && a.concerns(s.ID, low, high) {
		a.found.JudgedEarly.add(JudgedEarly{Stretch: Stretch{s.ID, max(low, 0), min(high, s.Floor)}, Why: w.text()})
	}
}

// lives looks at what may have been before the epoch of an agent that begins with r. An agent counts
// its lives, so one that left no record shows.
func (a *Audit) lives(l *agentLog, r *events.Record) {
	known := l.Epoch
	switch last := l.current; {
	case last == nil && a.late:
		if known = r.Follows.Epoch; !a.whole && known > 0 {
			known-- // its records may be missing from anywhere
		}
		if r.Kind != lockagent.EventAgentStarted {
			return // the beginning of this life is missing, too
		}
	case last != nil && !last.Stopped:
		a.leave(l)
		a.open(l, hole{Kind: ofTail, Low: l.hidden(), Range: events.Range{Last: l.last()}, Process: a.processOf(l)})
	}
	if known+1 < r.Epoch {
		w := hole{Kind: ofLives, Low: l.low(), Range: events.Range{First: known + 1, Last: r.Epoch - 1}}
		if l.current == nil {
			w.Low, w.Sure = math.MinInt64, r.Follows.Epoch != 0 // nobody knows when the first of them began
		}
		a.open(l, w)
	}
}

// died notes that an agent is silent for good, and did not stop.
func (a *Audit) died(l *agentLog) {
	w := hole{
		Agent: l.ID, Epoch: l.Epoch, Kind: ofTail, Low: l.hidden(),
		Range: events.Range{Last: l.last()}, Process: a.processOf(l), Assumed: true,
	}
	w.High = a.livedUntil(l, l.Store, l.low())
	a.departed(l, w.High)
	if a.concerns(l.Store, w.Low, math.MaxInt64) { // that it held nothing later is assumed
		a.found.Tails.add(w.tail())
		a.found.Assumed++
	}
	if w.Stored = l.Stored; l.Later.After(w.Stored) {
		w.Stored = l.Later
	}
	a.addHole(l.Store, w)
	l.Dead = true
	a.leave(l)
	a.livedOn(l, &w)
}

// livedUntil is up to when an agent that is silent is taken to have lived.
func (a *Audit) livedUntil(l *agentLog, store string, low lockagent.StoreTime) lockagent.StoreTime {
	s, high := a.nowhere, max(later(low, a.Tail), l.Ended)
	if store != "" {
		s = a.store(store)
	}
	switch {
	case !l.Timed:
		high = later(s.at(l.Stored), a.Tail)
	case l.Unsigned:
		high = max(high, later(s.at(l.Stored), a.Tail))
	}
	if !l.Later.IsZero() {
		high = max(high, later(s.at(l.Later), a.Tail))
	}
	return high
}

// quiet notes that the stream took no message for longer than an agent is silent: NATS was away.
// An agent that may have lived at its beginning may have lived until its end.
func (a *Audit) quiet(from, until time.Time) {
	for _, l := range a.logs {
		last := l.Stored
		if l.Later.After(last) {
			last = l.Later
		}
		if !l.Stopped && !l.Dead && !last.Add(a.Tail).Before(from) {
			l.Later = until
		}
	}
}

// later is d after t, or endOfTime.
func later(t lockagent.StoreTime, d time.Duration) lockagent.StoreTime {
	if t == endOfTime {
		return t
	}
	return t.Add(d)
}

// at is what the clock of a store showed at the latest when the stream took a message. It is estimated
// from the times that agents have told of, and endOfTime if there is none.
func (s *storeLog) at(stored time.Time) lockagent.StoreTime {
	if !s.Timed || stored.IsZero() {
		return endOfTime
	}
	return lockagent.StoreTime(stored.UnixMicro()).Add(s.Ahead + slack)
}

// timed compares that clock with the one of the stream: it showed a time before the stream took a
// message.
func (a *Audit) timed(s *storeLog, t lockagent.StoreTime, stored time.Time) {
	if s.Began == 0 {
		s.Began = t
	}
	if stored.IsZero() {
		return
	}
	known := s.Timed
	if ahead := t.Sub(lockagent.StoreTime(stored.UnixMicro())); !known || ahead > s.Ahead {
		s.Ahead, s.Timed = ahead, true
		for i := range s.Holes {
			// What was known of the clock may have been from copies that came even later than those behind the loss.
			if w := &s.Holes[i]; w.Origin != "" {
				w.High = max(w.High, later(s.at(w.Stored), a.Tail))
			}
		}
	}
	if !known && a.lost.Last != 0 {
		a.messagesMissingIn(s)
	}
}

// beginLate says from when a log is judged of which the beginning is missing. There may have been an
// agent of which nothing is left, and which did not stop.
func (a *Audit) beginLate(s *storeLog) {
	switch {
	case !a.late:
	case !a.first.IsZero() && s.Timed:
		s.From = max(s.From, later(s.at(a.first), a.Tail))
	case s.Began != 0:
		s.From = max(s.From, later(s.Began, a.Tail))
	}
}
