package audit

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// agentLog is the log of one agent, as an audit follows it.
type agentLog struct {
	ID     lockagent.AgentID    `json:"agent"`
	Epoch  uint64               `json:"epoch"`
	Epochs map[uint64]*epochLog `json:"epochs"`
	Store  string               `json:"store,omitempty"`
	Began  time.Duration        `json:"began"`
	Heard  time.Duration        `json:"heard"`
	Stored time.Time            `json:"stored,omitzero"` // of its last record

	// Judged is up to when its store had been judged when the agent first named it. Later is when the
	// stream spoke again, if it fell silent when the agent may have lived.
	Judged lockagent.StoreTime `json:"judged,omitempty"`
	Later  time.Time           `json:"later,omitzero"`

	// Settled is a time of the store. The log has all that the agent recorded before. Told is
	// the latest time of the store that the agent has told of.
	Settled lockagent.StoreTime `json:"settled,omitempty"`
	Told    lockagent.StoreTime `json:"told,omitempty"`
	Timed   bool                `json:"timed,omitempty"` // this life has told of a time

	// Ended is a time of the store. When this life recorded its last end of a hold, or its last reset of the
	// store, the clock showed no more.
	Ended lockagent.StoreTime `json:"ended,omitempty"`

	// Unsigned says that it has dropped signs of life since the last one that the log has.
	Unsigned bool `json:"unsigned,omitempty"`

	// Young says that the agent has not told yet in this life what is settled. Early is the latest
	// time of the store that it has told of since it began. Born is what others had told by then.
	Young bool                `json:"young,omitempty"`
	Early lockagent.StoreTime `json:"early,omitempty"`
	Born  lockagent.StoreTime `json:"born,omitempty"`

	// Elsewhere is, while the agent has not named its store, what others had told of each store when this life began.
	Elsewhere map[string]lockagent.StoreTime `json:"elsewhere,omitempty"`
	Nameless  int                            `json:"nameless,omitempty"` // tenures that have been judged by then

	// Hidden is a time of the store, or 0: an agent may have holds since then of which the grants are
	// missing. They go on behind the missing records. If their ends are missing, too, nothing tells of them.
	Hidden lockagent.StoreTime `json:"hidden,omitempty"`

	// Hides is how many such holds it has by its signs of life. Unshown is since when they say so, or 0 if no time is
	// known. Shown is of how many holds without a grant the log has told since. Partial says that the audit does not ask
	// for some of its locks, so that it has more holds than those of the log.
	Unshown lockagent.StoreTime `json:"unshown,omitempty"`
	Hides   int                 `json:"hides,omitempty"`
	Shown   int                 `json:"shown,omitempty"`
	Partial bool                `json:"partial,omitempty"`

	// Whole says that the log has all that the agent recorded in this life, which began without holds. Kept is how many
	// of its tenures may go on, and Free is when those that do not were over at the latest.
	Whole bool                `json:"whole,omitempty"`
	Kept  int                 `json:"kept,omitempty"`
	Free  lockagent.StoreTime `json:"free,omitempty"`

	// Holes counts the places where a grant or an end may be missing.
	Holes   uint32        `json:"holes,omitempty"`
	Stopped bool          `json:"stopped,omitempty"`
	Dead    bool          `json:"dead,omitempty"`
	Open    []hole        `json:"open,omitempty"`   // of which the end is not known
	Lease   time.Duration `json:"lease,omitempty"`  // the longest that it kept
	Resets  []StoreReset  `json:"resets,omitempty"` // as it noticed them, the last few; all before it names its store

	Graces bool `json:"graces,omitempty"` // this life has told of a grace period: it keeps to those

	Since time.Duration `json:"since,omitempty"` // since when the first of pending waits

	pending []*events.Record // those behind a missing one, in their order
	current *epochLog
	spans   int // tenures that are not judged

	home  *storeLog       // that has it among its living, or nil
	least spot[*agentLog] // there
	watch spot[*agentLog] // see Audit
}

// epochLog is one epoch of it.
type epochLog struct {
	Next    uint64 `json:"next"` // the number of the next record
	Stopped bool   `json:"stopped,omitempty"`

	Process fold.Process `json:"process,omitzero"`

	// Known is the number of the first record that the audit may know the content of.
	Known uint64 `json:"known,omitempty"`

	// Sums are those of the last records, by their number modulo the length; 0 for one that is
	// missing.
	Sums sums `json:"sums,omitempty"`

	summing summing
}

const (
	leastSums = 64
	maxResets = 16
	mostSums  = 2048 // of what a repetition can be compared with
	maxEpochs = 4    // of which repetitions are noticed
)

func (e *epochLog) note(r *events.Record) {
	for seq := max(e.Next, r.Seq-min(r.Seq, mostSums)); seq < r.Seq; seq++ {
		e.remember(seq, 0)
	}
	e.remember(r.Seq, e.summing.sum(r))
	e.Next = r.Seq + 1
}

func (e *epochLog) remember(seq uint64, sum uint32) {
	if n := uint64(len(e.Sums)); n < mostSums && seq >= n {
		e.Sums = append(e.Sums, make([]uint32, max(n, leastSums))...)
		if seq >= uint64(len(e.Sums)) {
			e.Sums = append(e.Sums, make([]uint32, mostSums-len(e.Sums))...)
		}
	}
	e.Sums[seq%uint64(len(e.Sums))] = sum
}

// recall returns the sum of a record that was applied, 0 if it is missing, and false if that is
// not known any more.
func (e *epochLog) recall(seq uint64) (uint32, bool) {
	n := uint64(len(e.Sums))
	if seq+n < e.Next || seq < e.Known {
		return 0, false
	}
	return e.Sums[seq%n], true
}

// wait keeps a record that may be behind a missing one. It reports whether it has it already.
func (l *agentLog) wait(r *events.Record, now time.Duration) (repeated bool) {
	i, found := slices.BinarySearchFunc(l.pending, r, events.ComparePlaces)
	if found {
		return true
	}
	if len(l.pending) == 0 {
		l.Since = now
	}
	kept := *r
	l.pending = slices.Insert(l.pending, i, &kept)
	return false
}

// repeated compares a record with the one of its identity that waits.
func (a *Audit) repeated(l *agentLog, r *events.Record) {
	i, _ := slices.BinarySearchFunc(l.pending, r, events.ComparePlaces)
	a.compareSums(l, r, sum(l.pending[i]))
}

// again looks at a record of a number that has passed.
func (a *Audit) again(l *agentLog, e *epochLog, r *events.Record) {
	was, known := e.recall(r.Seq)
	switch {
	case !known && r.Position != 0 && r.Position <= a.resumed:
	case !known:
		a.found.Unchecked++
	case was == 0:
		a.found.Late.add(lateRecord(r))
	default:
		a.compareSums(l, r, was)
	}
}

func lateRecord(r *events.Record) LateRecord {
	return LateRecord{Agent: r.Agent, Epoch: r.Epoch, Seq: r.Seq, Kind: r.Kind.String(), Lock: r.Lock}
}

func (a *Audit) compareSums(l *agentLog, r *events.Record, was uint32) {
	if sum(r) == was {
		if r.Position == 0 || r.Position > a.resumed {
			a.found.Duplicates++
		}
		return
	}
	h := a.heldBy(l, r)
	a.found.violation(Violation{
		Kind: Equivocation, First: h,
		Why:  fmt.Sprintf("two different records have the identity %s:%d:%d", r.Agent, r.Epoch, r.Seq),
		Look: "Look for two processes that publish as one agent, and for a log that somebody changed.",
	})
}

// heldBy is what a record says of a hold.
func (a *Audit) heldBy(l *agentLog, r *events.Record) fold.Hold {
	key := fold.KeyOf(a.fold.Store(cmp.Or(r.Store, l.Store)), r)
	return fold.Hold{
		LockKey: key, Agent: r.Agent, Epoch: r.Epoch, Seq: r.Seq, Owner: r.Owner, Who: fold.Who{Who: r.Who},
		Request: r.Request, Tenure: r.Tenure, Token: r.Token, Mode: r.Mode, From: r.Time, Process: a.processOf(l),
	}
}

// drain takes the records whose turn it is. If it is forced, it waits for no others.
func (a *Audit) drain(l *agentLog, force bool) {
	for len(l.pending) > 0 {
		r := l.pending[0]
		if !force && !l.ready(r) {
			return
		}
		l.pending = slices.Delete(l.pending, 0, 1)
		l.Since = a.clock.Now
		a.take(l, r)
	}
}

// ready reports whether all records before r have come.
func (l *agentLog) ready(r *events.Record) bool {
	if e := l.current; e != nil && r.Epoch == l.Epoch {
		covered := uint64(0)
		if r.Kind == lockagent.EventDropped {
			covered = r.Dropped.Sum()
		}
		return r.Seq-min(r.Seq, covered) <= e.Next
	}
	if r.Seq != 1 {
		return false
	}
	if before := l.Epochs[r.Follows.Epoch]; before != nil {
		return r.Follows.Epoch == l.Epoch && before.Next > r.Follows.Seq
	}
	switch {
	case r.Follows.Epoch != 0:
		return false
	case l.current == nil:
		return r.Epoch == 1
	}
	return l.current.Stopped
}

// harmless reports whether what was dropped neither began a hold nor ended one, nor tells of
// the store.
func harmless(d *events.Drops) bool {
	for kind, n := range d {
		switch lockagent.EventKind(kind) {
		case lockagent.EventRequested, lockagent.EventQueued, lockagent.EventRenewed, lockagent.EventUncertain,
			lockagent.EventTimedOut, lockagent.EventCancelled, lockagent.EventRefused,
			lockagent.EventAlive, lockagent.EventReturned, lockagent.EventReentered, lockagent.EventHolding,
			lockagent.EventGraceBegan, lockagent.EventGraceEnded: // these only take excuses from overlaps
		default:
			if n > 0 {
				return false
			}
		}
	}
	return true
}

// turn begins an epoch with its first record.
func (a *Audit) turn(l *agentLog, r *events.Record) *epochLog {
	if last := l.current; last != nil {
		if f := r.Follows; r.Kind == lockagent.EventAgentStarted && f.Epoch == l.Epoch && f.Seq >= last.Next {
			a.missing(l, events.Range{First: last.Next, Last: f.Seq})
		}
		last.Sums = slices.Clip(last.Sums)
		a.fold.Forget(l.ID, func(h *fold.Hold) bool { return h.Epoch < l.Epoch && judged(h.LockKey) && a.spanOf(h) == nil })
	} else if f := r.Follows; f.Epoch != 0 && a.past.Forgotten {
		l.Epoch = f.Epoch
		a.missing(l, events.Range{First: 1, Last: f.Seq}) // how much of it came is forgotten
	}
	a.named(l, r)
	hidden := l.hidden()
	if l.current == nil {
		hidden = math.MinInt64 // nobody knows what the process before had
	}
	a.lives(l, r)
	l.Timed, l.Hidden, l.Ended, l.Graces = false, 0, 0, false
	l.Unshown, l.Hides, l.Shown = 0, 0, 0
	if r.Kind == lockagent.EventAgentStarted && !r.HasNoHolds() {
		l.Hidden = hidden // the process may go on with holds that the log does not have
	}
	e := l.Epochs[r.Epoch]
	if e == nil {
		e = &epochLog{Next: 1}
		l.Epochs[r.Epoch] = e
		if len(l.Epochs) > maxEpochs {
			delete(l.Epochs, slices.Min(slices.Collect(maps.Keys(l.Epochs))))
		}
	}
	l.Epoch, l.current = r.Epoch, e
	l.Young, l.Early, l.Born = true, 0, a.home(l).Newest
	if l.Elsewhere = nil; l.Store == "" {
		l.Elsewhere = make(map[string]lockagent.StoreTime, len(a.stores))
		for id, s := range a.stores {
			l.Elsewhere[id] = s.Newest
		}
	}
	return e
}

// judgeMissing judges the numbers that are missing before a record.
func (a *Audit) judgeMissing(l *agentLog, e *epochLog, r *events.Record) {
	lost := events.Range{First: e.Next, Last: r.Seq - 1}
	if r.Kind == lockagent.EventDropped && harmless(&r.Dropped) {
		d := &r.Dropped
		if d[lockagent.EventAlive]+d[lockagent.EventReturned]+d[lockagent.EventReentered] > 0 {
			l.Holes++ // what the log tells of the holds of this agent is not all
		}
		l.Unsigned = l.Unsigned || d[lockagent.EventAlive] > 0
		n := r.Dropped.Sum()
		if n >= lost.Last-lost.First+1 {
			return
		}
		lost.Last -= n
	}
	if lost.First == 1 && a.late && len(l.Epochs) == 1 && l.Began <= a.Patience {
		l.Hidden = math.MinInt64
		a.open(l, hole{Kind: ofBeginning, Low: math.MinInt64, Range: lost})
		return
	}
	if lost.First == 1 {
		l.Judged = 0 // perhaps it had told of its start
	}
	a.missing(l, lost)
}

// missing notes that records of an agent are missing.
func (a *Audit) missing(l *agentLog, lost events.Range) {
	if a.within.IsZero() { // else it counts when it is known until when
		a.found.RecordHoles.add(RecordHole{Agent: l.ID, Epoch: l.Epoch, Range: lost})
	}
	l.Hidden = l.hidden()
	l.Shown = math.MaxInt32 // what is missing may tell of hidden holds
	a.open(l, hole{Kind: ofRecords, Low: l.Hidden, Range: lost})
}

// hidden is for the case that the next records of the agent are missing. Then the log may have neither the
// grant nor the end of some holds. hidden is a time of the store, and no such hold began before it.
func (l *agentLog) hidden() lockagent.StoreTime {
	if l.Hidden != 0 {
		return min(l.Hidden, l.low())
	}
	return l.low()
}

// low is a time of the store before which the log has all that the agent did.
func (l *agentLog) low() lockagent.StoreTime {
	at := l.Settled
	if l.Told != 0 {
		// Records of two locks may have changed places.
		at = max(at, l.Told.Add(-time.Second))
	}
	switch {
	case at != 0:
		return at
	case l.Judged != 0:
		return l.Judged // what was judged had no holds of an agent that had not told of its start
	}
	return math.MinInt64
}

func (l *agentLog) last() uint64 {
	if l.current == nil {
		return 0
	}
	return l.current.Next - 1
}

// speaks reports whether the agent may still tell of something.
func (l *agentLog) speaks() bool {
	return !l.Dead && (!l.Stopped || len(l.Open) > 0 || len(l.pending) > 0)
}

// behind is a time of the store: what the agent still has to tell is later. An agent that has begun
// a moment ago may not have said so yet. Then it is what its first records tell, in their order. If
// these tell nothing, it is a while before the time that others had told of when it began. Without
// that, agents that begin and crash, one after the other, would hold up the audit for ever.
func (a *Audit) behind(l *agentLog) lockagent.StoreTime {
	at := l.Settled
	switch {
	case !l.Young:
	case l.Early != 0:
		at = max(at, l.Early.Add(-slack))
	default:
		at = max(at, l.Born.Add(-a.Patience))
	}
	for i := range l.Open {
		at = min(at, l.Open[i].Low)
	}
	return at
}

// next is when there is something to do about the agent if it says nothing.
func (a *Audit) next(l *agentLog) time.Duration {
	at := l.Heard + a.Patience
	if l.Stopped || l.Dead {
		at = l.Heard + keptFor*(1+(a.clock.Now-l.Heard)/keptFor)
	}
	if len(l.pending) > 0 {
		at = min(at, l.Since+recordPatience)
	}
	return at
}
