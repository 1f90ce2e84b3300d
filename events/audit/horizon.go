package audit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/internal/show"
)

// storeLog is what an audit knows of one store.
type storeLog struct {
	ID string `json:"id"`

	// Floor is the horizon, less the delay: all that ended before is judged and forgotten.
	// From is the end of what the beginning of the log leaves open.
	Floor lockagent.StoreTime `json:"floor,omitempty"`
	From  lockagent.StoreTime `json:"from,omitempty"`

	// Ends is when the last hold ended that is forgotten, of the locks that have one place of it.
	// Cleared is when the last hole ended that is forgotten, and the last one of other agents.
	Ends    []lockagent.StoreTime `json:"ends,omitempty"`
	Cleared [2]cleared            `json:"cleared"`

	// Last is when the last hold ended that was judged.
	Last lockagent.StoreTime `json:"last,omitempty"`

	// Ahead is by how much its clock is ahead of that of the stream at least, if it is Timed.
	Ahead time.Duration `json:"ahead,omitempty"`
	Timed bool          `json:"timed,omitempty"`

	// Began is the first time that any agent has told of.
	Began lockagent.StoreTime `json:"began,omitempty"`

	Holes  []hole      `json:"holes,omitempty"`
	Resets []resetSpan `json:"resets,omitempty"`
	Steps  []resetSpan `json:"steps,omitempty"` // of the clock
	Graces []graceSpan `json:"graces,omitempty"`

	// Stepped is when the last step was over that is forgotten, as no tenure reaches it that is still to be judged.
	Stepped lockagent.StoreTime `json:"stepped,omitempty"`

	First  lockagent.StoreTime `json:"first,omitempty"` // the earliest and the latest time that is judged
	Judged lockagent.StoreTime `json:"judged,omitempty"`
	Holds  int                 `json:"holds,omitempty"`
	// Within is how many of the Holds are of the stretch, if the verdict is about a stretch of time.
	Within int `json:"within,omitempty"`

	// Names are those of the locks, to count them; the first many.
	Names map[uint64]bool `json:"names,omitempty"`

	// Accepted are those of the Holds that do not name their store, which somebody accepted.
	Accepted int `json:"accepted,omitempty"`

	// Unproven is when the last hold ended that is not proven, or 0.
	Unproven lockagent.StoreTime `json:"unproven,omitempty"`

	// Newest is the latest time that any agent has told of, and Heard when, on the clock of the log.
	Newest lockagent.StoreTime `json:"newest,omitempty"`
	Heard  time.Duration       `json:"heard,omitempty"`

	// Swept is how many records had come when all locks were last compared with holes. Cleaned is likewise
	// of resets.
	Swept   int `json:"swept,omitempty"`
	Cleaned int `json:"cleaned,omitempty"`

	living  heap[*agentLog] // by the time that they have settled
	locks   heap[*lockLog]  // by the time at which there is something to judge
	touched []*lockLog      // of which that time is to be found out again
}

func (a *Audit) store(id string) *storeLog {
	if a.near != nil && a.near.ID == id {
		return a.near
	}
	s := a.stores[id]
	if s == nil {
		if s = a.nowhere; id != "" {
			s = &storeLog{ID: id}
		}
		a.stores[id] = s
	}
	a.near = s
	return s
}

// horizon is a time of a store. All agents that live have told what they did before. It is endOfTime if none lives that
// has named the store.
func (a *Audit) horizon(s *storeLog) lockagent.StoreTime {
	if least := s.living.least(); least != nil {
		return min(lockagent.StoreTime(least.at), a.unnamed(s))
	}
	return endOfTime
}

// unnamed is a time of a store: agents that live and have not named their store still have to tell of what is later.
// They may have had holds in any. It is endOfTime if there are none.
func (a *Audit) unnamed(s *storeLog) lockagent.StoreTime {
	at := lockagent.StoreTime(endOfTime)
	if s == a.nowhere {
		return at
	}
	for _, l := range a.nowhere.living.spots {
		if born, known := l.of.Elsewhere[s.ID]; known {
			at = min(at, born.Add(-a.Patience))
		} else {
			return math.MinInt64
		}
	}
	return at
}

// settle judges for good what lies before the horizon, and forgets it.
func (a *Audit) settle(id string) {
	if !a.ordered || id == "" && len(a.stores) > 1 || a.clock.outage(a.Tail) {
		return
	}
	s := a.nowhere
	if id != "" {
		s = a.store(id)
	}
	h := a.horizon(s)
	if h < 0 || h == math.MaxInt64 {
		return // one has not said anything yet, or nobody lives: who comes next may tell of an earlier time
	}
	if floor := h.Add(-delay); floor > s.Floor+lockagent.StoreTime(time.Second.Microseconds()) {
		s.Floor = floor
		a.judge(s, floor)
	}
}

// abandon judges a store of which no agent lives, and none has come for a while. Its clock went on
// with the log.
func (a *Audit) abandon(s *storeLog) {
	if a.horizon(s) == endOfTime && a.clock.Now-s.Heard > keptFor {
		s.Floor = max(s.Floor, min(s.Newest.Add(a.clock.Now-s.Heard-delay), a.unnamed(s)))
		a.judge(s, s.Floor)
	}
}

// judge judges the locks of a store, up to a time of it.
func (a *Audit) judge(s *storeLog, until lockagent.StoreTime) {
	a.judgeLocks(s, until)
	s.Judged = max(s.Judged, until)
	a.sweep(s, until)
	a.forgetResets(s, until)
}

// sweep forgets the holes that were over before a time. First it notes which holds that go on were
// beside them. That takes a look at all locks, so it is worth while only after as many records.
func (a *Audit) sweep(s *storeLog, until lockagent.StoreTime) {
	past := func(w hole) bool {
		_, high := a.extent(s, &w)
		return high < until
	}
	if a.found.Events-s.Swept < len(a.locks) || !slices.ContainsFunc(s.Holes, past) {
		return
	}
	s.Swept = a.found.Events
	for key, l := range a.locks {
		if key.Store != s.ID {
			continue
		}
		for _, x := range l.Spans {
			for i := range s.Holes {
				if w := &s.Holes[i]; past(*w) && a.touches(s, w, x) {
					x.doubtBy(w)
				}
			}
		}
	}
	for _, w := range s.Holes {
		if past(w) {
			_, high := a.extent(s, &w)
			s.clear(cleared{w.Agent, high})
		}
	}
	s.Holes = slices.DeleteFunc(s.Holes, past)
}

// judgeLocks judges what is over on the locks of a store.
func (a *Audit) judgeLocks(s *storeLog, until lockagent.StoreTime) {
	a.beginLate(s)
	for _, l := range a.due(s, until) {
		a.judgeLock(s, l, until)
		if len(l.Spans) > 0 || len(l.Breaks) > 0 || a.dueAt(l) >= until || a.numbered(l) {
			s.locks.set(&l.due, l, int64(a.dueAt(l)))
			continue
		}
		s.locks.remove(&l.due)
		delete(a.locks, l.LockKey)
		if a.latest == l {
			a.latest = nil
		}
	}
}

// due returns the locks of a store of which something is over before a time of it. The order is that of their
// names: what a report names of many findings must not depend on how the locks are kept.
func (a *Audit) due(s *storeLog, until lockagent.StoreTime) (all []*lockLog) {
	a.look(s)
	if until == endOfTime {
		for _, l := range s.locks.spots {
			all = append(all, l.of)
		}
	} else {
		s.locks.before(int64(until), func(l *lockLog) { all = append(all, l) })
	}
	slices.SortFunc(all, func(x, y *lockLog) int { return x.Compare(y.LockKey) })
	return all
}

// look finds out of the locks on which something has happened when there is something to judge.
func (a *Audit) look(s *storeLog) {
	for _, l := range s.touched {
		l.touched = false
		s.locks.set(&l.due, l, int64(a.dueAt(l)))
	}
	clear(s.touched)
	s.touched = s.touched[:0]
}

// dueAt is the time after which there is something to judge on a lock, or to forget of it.
func (a *Audit) dueAt(lock *lockLog) lockagent.StoreTime {
	at := lockagent.StoreTime(endOfTime)
	for _, s := range lock.Spans {
		if end, over := a.over(s); over {
			at = min(at, s.overlaps(end))
		}
	}
	for _, b := range lock.Breaks {
		at = min(at, b.At.Add(longest))
	}
	for i := range lock.Changes {
		at = min(at, lock.Changes[i].At)
	}
	switch {
	case len(lock.Spans)+len(lock.Breaks)+len(lock.Changes) > 0 || lock.kept:
		return at
	case lock.Last != nil:
		// A later tenure begins behind the horizon, and its token is not smaller than that.
		return lockagent.StoreTime(lock.Last.LastToken)
	}
	return math.MinInt64
}

// over reports whether the log tells when a span ends at the latest, or that nobody knows. Then it
// can be judged after that time.
func (a *Audit) over(s *span) (end lockagent.StoreTime, over bool) {
	end = a.atMost(s)
	return end, end != 0 || s.Open == 0
}

// overlaps returns a time. A tenure that begins then or later does not overlap with s, which ended at end, even if the
// owner of s believed for longer that it had the lock.
func (s *span) overlaps(end lockagent.StoreTime) lockagent.StoreTime {
	return max(s.Start, end, s.believed())
}

// touch notes that something happens on a lock.
func (a *Audit) touch(l *lockLog) {
	if l.kept {
		l.kept = false
		a.kept--
	}
	if !l.touched {
		l.touched = true
		s := a.store(l.Store)
		s.touched = append(s.touched, l)
	}
}

// atMost is the latest time at which the holds of a span can have ended; 0 if it is not known.
func (a *Audit) atMost(s *span) lockagent.StoreTime {
	switch {
	case s.Open == 0 && s.NoEnd:
		return 0
	case s.Open == 0:
		return s.Until
	}
	if s.Gone {
		return s.LeaseEnd
	}
	return 0
}

// atLeast is a time until which a hold of the span went on for certain.
func (a *Audit) atLeast(s *span) lockagent.StoreTime {
	if l := a.logs[s.Agent]; s.Open > 0 && !s.Gone && !s.EndMissing && !s.endMissing(l) {
		return max(s.Least, l.Settled)
	}
	return s.Least
}

// places is how many ends of forgotten holds a store remembers.
const places = 1024

func placeOf(key fold.LockKey) int { return int(keySum(key) % places) }

// ended notes when a hold ended that is forgotten.
func (s *storeLog) ended(place int, end lockagent.StoreTime) {
	if s.Ends == nil {
		s.Ends = make([]lockagent.StoreTime, places)
	}
	s.Ends[place] = max(s.Ends[place], end)
}

// cleared is when a hole ended that is forgotten.
type cleared struct {
	By lockagent.AgentID   `json:"by,omitempty"`
	At lockagent.StoreTime `json:"at,omitempty"`
}

func (s *storeLog) clear(c cleared) {
	last, other := &s.Cleared[0], &s.Cleared[1]
	switch {
	case c.By == last.By:
		last.At = max(last.At, c.At)
	case c.At > last.At:
		*other, *last = *last, c
	case c.At > other.At:
		*other = c
	}
}

// forgot reports whether something may be forgotten that a hold of a lock has to be compared with, if
// it began at a time that was judged.
func (s *storeLog) forgot(key fold.LockKey, agent lockagent.AgentID, start lockagent.StoreTime) bool {
	c := s.Cleared[0]
	if c.By == agent {
		c = s.Cleared[1] // its own records tell their order
	}
	return start < c.At || start < s.Stepped || s.Ends != nil && start < s.Ends[placeOf(key)]
}

// judgeLock judges what is over on a lock.
func (a *Audit) judgeLock(store *storeLog, lock *lockLog, until lockagent.StoreTime) {
	slices.SortStableFunc(lock.Spans, func(x, y *span) int {
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.FirstToken, y.FirstToken))
	})
	blind := store == a.nowhere && len(a.stores) > 2
	permits := lock.HasPermits()
	known := until
	if !blind {
		a.orderTokens(store, lock, until)
	}
	if permits && !blind {
		known = a.judgePermits(store, lock, until)
	}
	kept := 0
	for i, s := range lock.Spans {
		end, over := a.over(s)
		reach := s.overlaps(end)
		if !over && until != endOfTime || reach >= known {
			lock.Spans[kept] = s
			kept++
			continue
		}
		switch {
		case blind: // two holds may be of two stores
			s.doubt("the log does not say of which store it is, and there are several")
		case !permits:
			a.compareAll(store, lock, kept, i, end)
		}
		if !blind {
			a.remembersToken(store, lock, s)
		}
		a.conclude(store, lock, s, end, i == len(lock.Spans)-1)
		store.ended(placeOf(lock.LockKey), max(reach, cmp.Or(end, s.confirmedEnd())))
		lock.over(s)
		a.logs[s.Agent].spans--
		a.spare = append(a.spare, s)
	}
	clear(lock.Spans[kept:])
	lock.Spans = lock.Spans[:kept]
	if store != a.nowhere { // else they may be of the lock of any store
		lock.Breaks = slices.DeleteFunc(lock.Breaks, func(b lockBreak) bool { return b.At.Add(longest) < until })
	}
}

// compareAll compares the i-th span of a lock with the first spans, so many of them, and with the spans behind it. The
// span ended at end.
func (a *Audit) compareAll(store *storeLog, lock *lockLog, first, i int, end lockagent.StoreTime) {
	s := lock.Spans[i]
	reach := s.overlaps(end)
	for _, x := range lock.Spans[:first] {
		a.compare(store, lock, x, s)
	}
	for _, x := range lock.Spans[i+1:] {
		if end != 0 && x.Start >= reach {
			break
		}
		a.compare(store, lock, s, x)
	}
}

// longest is how long a break is remembered. A hold that is judged may go on after all.
const longest = time.Hour

// tally counts a tenure of an agent that is judged.
func (a *Audit) tally(store *storeLog, of lockagent.AgentID) {
	store.Holds++
	if store == a.nowhere {
		a.logs[of].Nameless++
	}
}

// conclude gives the verdict on one span that has been compared with all others.
func (a *Audit) conclude(store *storeLog, lock *lockLog, s *span, end lockagent.StoreTime, last bool) {
	if s.Start != 0 && (store.First == 0 || s.Start < store.First) {
		store.First = s.Start
	}
	for _, what := range s.Found {
		a.accuse(store, lock, s, what)
	}
	outside := a.outside(store, s, end)
	if s.Start < store.From && store != a.nowhere { // a hold of any store may overlap with one that is judged
		if !outside {
			a.found.NotJudged.add(NamedHold{a.hold(lock.LockKey, s, s.first())})
		}
		if !s.Late {
			return
		}
	}
	a.tally(store, s.Agent)
	if !outside {
		store.Within++
	}
	store.Last = max(store.Last, s.Start, end)
	if s.Open > 0 && last && !s.Guilty && !outside {
		a.found.OpenHolds.add(NamedHold{a.hold(lock.LockKey, s, &s.Last)})
	}
	if s.Late {
		s.doubt(fmt.Sprintf("the log told of it when all up to %s had been judged", show.Store(store.Floor)))
	}
	if s.Open > 0 && s.Gone && s.EndMissing {
		s.doubt("the log does not have its end, which may be among the missing records, as may a renewal")
	}
	if step := store.stepBeside(s, end); step != nil {
		s.doubt(step.text())
	}
	if s.Denied {
		if why := a.unexpected(store, lock, s); why != "" {
			s.doubt(why)
		}
	}
	if lock.Mixed {
		s.doubt("the name is used as another kind of lock, too, and holds of two kinds are not compared")
	}
	if s.Modes&strange != 0 {
		s.doubt("its mode is not known to this version")
	}
	for _, of := range [][]hole{store.Holes, a.anywhere} {
		for i := range of {
			if w := &of[i]; a.touches(store, w, s) {
				s.doubtBy(w)
			}
		}
	}
	if s.Doubt == "" || s.Guilty || outside {
		return
	}
	h := a.hold(lock.LockKey, s, &s.Last)
	if !s.Rough || !slices.ContainsFunc(a.found.Unproven.First, func(u Unproven) bool { return u.of(&h) }) {
		// The hold may have been named before its end was told.
		a.found.Unproven.add(Unproven{h, s.Doubt})
	}
	store.Unproven = max(store.Unproven, s.Start, cmp.Or(end, s.confirmedEnd()))
}
