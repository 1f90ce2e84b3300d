package events

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/lockagent/lockagent"
)

// Verdict says what a log proves.
type Verdict string

// The verdicts.
const (
	// Proven: every hold is shown to have ended before the next one began.
	Proven Verdict = "proven"
	// Explained: some holds overlapped, and for each the log names the cause: a reset of the
	// store, a break, a clock that was set, a process that did not run. All other holds are
	// proven.
	Explained Verdict = "explained"
	// Incomplete: nothing contradicts that no two holds overlapped, but something is missing
	// that the proof would need.
	Incomplete Verdict = "incomplete"
	// Violated: two holds overlapped, tokens did not grow, or the log contradicts itself.
	Violated Verdict = "violated"
	// Empty: there are no records.
	Empty Verdict = "empty"
)

// ReportVersion is the version of a report in JSON. Fields are only added to a version.
const ReportVersion = 1

// most is how many of each thing a report names for each cause.
const most = 20

// List is the first of what there is of one kind, in the order of time, and how many there are. So that one cause
// does not hide another, it has the first of each cause.
type List[T Listed[T]] struct {
	Count int `json:"count"`
	First []T `json:"first,omitempty"`
}

// Listed is something that reports list. Other packages have no such types.
type Listed[T any] interface {
	fmt.Stringer
	compare(other T) int
	cause() string // of which there are few
}

// joining is something that can stand for more of its kind.
type joining[T any] interface {
	join(other T) (both T, joined bool)
	likewise() int // for how many more it stands
}

func (l *List[T]) add(x T) {
	l.Count++
	if one, ok := any(x).(joining[T]); ok {
		for i := range l.First {
			if both, joined := one.join(l.First[i]); joined {
				l.First = slices.Delete(l.First, i, i+1)
				x = both
				break
			}
		}
	}
	l.insert(x)
}

// named is for how many the first stand.
func (l *List[T]) named() (n int) {
	for i := range l.First {
		n++
		if one, ok := any(l.First[i]).(joining[T]); ok {
			n += one.likewise()
		}
	}
	return n
}

// insert puts x among the first, if it is one of them.
func (l *List[T]) insert(x T) {
	if len(l.First) >= most {
		n, last, cause := 0, 0, x.cause()
		for i := range l.First {
			if l.First[i].cause() == cause {
				n, last = n+1, i
			}
		}
		if n >= most {
			if x.compare(l.First[last]) >= 0 {
				return
			}
			l.First = slices.Delete(l.First, last, last+1)
		}
	}
	i, _ := slices.BinarySearchFunc(l.First, x, T.compare)
	l.First = slices.Insert(l.First, i, x)
}

// remove takes back something that was added, and perhaps is not among the first.
func (l *List[T]) remove(it func(T) bool) {
	l.Count--
	l.forget(it)
}

// forget takes something out of the first that does not count any more.
func (l *List[T]) forget(it func(T) bool) {
	if l.First = slices.DeleteFunc(l.First, it); len(l.First) == 0 {
		l.First = nil // as in a new checkpoint
	}
}

// Note is a line for people.
type Note string

// String is the line.
func (n Note) String() string { return string(n) }

func (n Note) compare(other Note) int { return cmp.Compare(n, other) }

// Report is the outcome of an [Audit]. Its lists are in a fixed order.
type Report struct {
	Version int     `json:"version"` // ReportVersion
	Verdict Verdict `json:"verdict"`
	Counts

	// Stores are what was judged of each store, and from when to when.
	Stores []Judged `json:"stores,omitempty"`

	// Violations contradict mutual exclusion. Explained are overlaps of which the log names the
	// cause.
	Violations List[Violation]   `json:"violations,omitzero"`
	Explained  List[Explanation] `json:"explained,omitzero"`

	// Unproven are holds that cannot be shown not to have overlapped.
	Unproven UnprovenList `json:"unproven,omitzero"`

	// Gaps are records that are missing. Late came when their place had been judged.
	Gaps List[Gap]        `json:"gaps,omitzero"`
	Late List[LateRecord] `json:"late,omitzero"`

	// Holes are messages that the stream does not have any more, though it has earlier ones.
	Holes List[Hole] `json:"holes,omitzero"`

	// Tails are agents that died: their logs have no end. What they did last may be missing.
	Tails List[Tail] `json:"tails,omitzero"`

	// Belated are times that had been judged when the log told that something of them is missing.
	Belated List[Belated] `json:"belated,omitzero"`

	// OpenHolds are holds that have not ended as far as the log goes, and overlapped with nothing.
	OpenHolds List[Hold] `json:"open_holds,omitzero"`

	// NotJudged are holds that began before the beginning of the log. The verdict says nothing
	// of them.
	NotJudged List[Hold] `json:"not_judged,omitzero"`

	// Resets are what the log tells of resets of stores and of their clocks.
	Resets List[StoreReset] `json:"resets,omitzero"`

	// Unreadable is what was there but was no record. Joined are stores that turned out to be
	// one when it was too late to compare their holds.
	Unreadable List[Note] `json:"unreadable,omitzero"`
	Joined     List[Note] `json:"joined,omitzero"`

	// Acknowledged is what was found before, and is not in the verdict any more.
	Acknowledged []Acknowledged `json:"acknowledged,omitempty"`
}

// Judged says what was judged of one store. All times are on the clock of the store.
type Judged struct {
	Store string `json:"store,omitempty"`
	Holds int    `json:"tenures"` // that were judged: those of one agent that follow each other without the store count as one

	// The verdict is about holds that began at From or later, and ended at To at the latest. To is
	// 0 if the log was judged to its end.
	From lockagent.StoreTime `json:"from_us,omitempty"`
	To   lockagent.StoreTime `json:"to_us,omitempty"`

	// Pending are tenures that ended later than To, or go on.
	Pending int `json:"pending"`

	// Unproven is when the last hold ended that is not proven, though nothing contradicts it. It is 0
	// if there is none. Later holds are proven, unless the report has violations or what concerns
	// all holds, such as a message that cannot be read.
	Unproven lockagent.StoreTime `json:"unproven_us,omitempty"`

	rest bool // some holds ended later, and are proven
}

// Counts sums a log up.
type Counts struct {
	Events     int `json:"events"`     // records, repetitions not counted
	Duplicates int `json:"duplicates"` // repetitions
	Unchecked  int `json:"unchecked"`  // repetitions that came too late to be compared
	Agents     int `json:"agents"`
	Locks      int `json:"locks"`
	Grants     int `json:"grants"`
	HandOffs   int `json:"hand_offs"` // of the grants
	Dropped    int `json:"dropped"`   // events that found no room
	Unknown    int `json:"unknown"`   // records of kinds that this version does not know
	// OtherVersions are those of the Unknown that are of another version of the format. They may tell of
	// holds, so nothing is proven.
	OtherVersions int `json:"other_versions,omitempty"`
	// UnknownOfLocks are those of the Unknown that are about locks. Unjudged are holds of kinds of locks that
	// this version does not judge. So nothing is proven of these locks.
	UnknownOfLocks int `json:"unknown_of_locks,omitempty"`
	Unjudged       int `json:"unjudged"`
	Assumed        int `json:"assumed"` // of the Tails: those that no later record bounds

	// MoreLocks says that Locks counts no further, and that there may be more.
	MoreLocks bool `json:"more_locks,omitempty"`

	// Losses counts the holds that were not released by their owner, by the text of their
	// LossReason, or of their EventKind if they have none.
	Losses map[string]int `json:"losses,omitempty"`
}

// StoreReset is a [lockagent.Reset] as reports write it.
type StoreReset struct {
	From   string              `json:"from,omitempty"`
	To     string              `json:"to,omitempty"`
	Reason string              `json:"reason,omitempty"`
	After  lockagent.StoreTime `json:"after_us"`
	Before lockagent.StoreTime `json:"before_us"`
	Step   Micros              `json:"step_us,omitempty"` // by how much the clock was set, if the log says it
	Store  string              `json:"store,omitempty"`   // its identity before, if that changed
}

// Micros is a duration that is written in microseconds.
type Micros time.Duration

// MarshalJSON implements [json.Marshaler].
func (m Micros) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(m).Microseconds(), 10), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (m *Micros) UnmarshalJSON(text []byte) error {
	us, err := strconv.ParseInt(string(text), 10, 64)
	*m = Micros(micros(us))
	return err
}

func (r StoreReset) compare(other StoreReset) int {
	return cmp.Or(cmp.Compare(r.After, other.After), cmp.Compare(r.Before, other.Before),
		cmp.Compare(r.From, other.From), cmp.Compare(r.To, other.To), cmp.Compare(r.Reason, other.Reason), cmp.Compare(r.Step, other.Step))
}

// ViolationKind says what is wrong.
type ViolationKind string

// The kinds of violations.
const (
	// Overlap: the second hold began before the first had ended.
	Overlap ViolationKind = "overlap"
	// TokenRepeated: both have the same token.
	TokenRepeated ViolationKind = "token repeated"
	// TokenFell: the second began after the first and has a smaller token.
	TokenFell ViolationKind = "token fell"
	// Outlived: the agent says that the first went on when the lease was over that the store had
	// confirmed. There is no second.
	Outlived ViolationKind = "outlived its lease"
	// StrayReentry: the first is a re-entry into a hold that there was not. There is no second.
	StrayReentry ViolationKind = "stray re-entry"
	// Contradiction: what the agent says of the first cannot be. There is no second.
	Contradiction ViolationKind = "contradiction"
	// Equivocation: two different records have the same identity. There is no second.
	Equivocation ViolationKind = "equivocation"
)

// Violation is a contradiction to mutual exclusion.
type Violation struct {
	Kind   ViolationKind `json:"kind"`
	First  Hold          `json:"first"`
	Second Hold          `json:"second,omitzero"` // zero if the kind has no second

	// Overlapped and Until are from when to when it lasted, on the clock of the store; 0 if the
	// log does not say it.
	Overlapped lockagent.StoreTime `json:"from_us,omitempty"`
	Until      lockagent.StoreTime `json:"until_us,omitempty"`

	// Why says how it could come to it, and Look where to look.
	Why  string `json:"why"`
	Look string `json:"look"`

	// More is how many later ones there are of the first hold, for the same reason. Last is until when they were.
	More int                 `json:"more,omitempty"`
	Last lockagent.StoreTime `json:"last_us,omitempty"`
}

// join makes one of two that are of one hold.
func (v Violation) join(other Violation) (both Violation, joined bool) {
	if v.Kind != other.Kind || v.Why != other.Why || v.Second == (Hold{}) || other.Second == (Hold{}) || !v.First.is(&other.First) {
		return v, false
	}
	both, later := v, other
	if later.Second.compare(both.Second) < 0 {
		both, later = later, both
	}
	if both.First.Ended == 0 {
		both.First = later.First
	}
	both.More = v.More + other.More + 1
	both.Last = max(v.Last, other.Last, v.Until, other.Until, later.Overlapped)
	return both, true
}

func (v Violation) likewise() int { return v.More }

// Explanation is an overlap and its cause: one of the fields.
type Explanation struct {
	Violation

	// Reset is the first record that tells of the reset, or of the step of the clock.
	Reset *StoreReset `json:"reset,omitempty"`

	// BrokenAt is when an operator broke the lock, or 0. Broken says that the holder was told
	// so. Operator may have said who broke it.
	BrokenAt lockagent.StoreTime `json:"broken_at_us,omitempty"`
	Broken   bool                `json:"broken,omitempty"`
	Operator string              `json:"operator,omitempty"`

	// Late says that the first was over by its lease, but its process did not run, and learned of
	// that late.
	Late bool `json:"late,omitempty"`
}

// join is that of its violation, if the cause is the same.
func (e Explanation) join(other Explanation) (both Explanation, joined bool) {
	v, joined := e.Violation.join(other.Violation)
	if !joined || e.Cause() != other.Cause() {
		return e, false
	}
	both = e
	both.Violation = v
	return both, true
}

// Unproven is a hold that cannot be shown not to have overlapped.
type Unproven struct {
	Hold Hold   `json:"hold"`
	Why  string `json:"why"`

	// Beside is the agent whose lost end is the only reason, or empty. If that goes on after all, the
	// hold is proven.
	Beside lockagent.AgentID `json:"beside,omitempty"`
}

// UnprovenList is the first of them, and how many there are for each reason.
type UnprovenList struct {
	List[Unproven]
	Reasons []Reason `json:"reasons,omitempty"`
}

// Reason is why holds are not proven, and of how many it is the first reason. Beside is as in
// [Unproven].
type Reason struct {
	Why    string            `json:"why"`
	Count  int               `json:"count"`
	Beside lockagent.AgentID `json:"beside,omitempty"`
}

// mostReasons bounds how many reasons are counted. Those of the fewest holds are forgotten: some reasons
// name their hold.
const mostReasons = 64

func (l *UnprovenList) add(u Unproven) {
	l.List.add(u)
	l.because(Reason{u.Why, 1, u.Beside})
}

func (l *UnprovenList) because(r Reason) {
	i, found := slices.BinarySearchFunc(l.Reasons, r, Reason.compare)
	if found {
		l.Reasons[i].Count += r.Count
		return
	}
	l.Reasons = slices.Insert(l.Reasons, i, r)
	if len(l.Reasons) > mostReasons {
		least := slices.MinFunc(l.Reasons, func(x, y Reason) int { return cmp.Compare(x.Count, y.Count) })
		l.forgetReasons(func(x Reason) bool { return x == least })
	}
}

func (r Reason) compare(other Reason) int {
	return cmp.Or(cmp.Compare(r.Why, other.Why), cmp.Compare(r.Beside, other.Beside))
}

// remove takes back something that is among the first.
func (l *UnprovenList) remove(it func(Unproven) bool) {
	for _, u := range l.First {
		if it(u) {
			l.because(Reason{u.Why, -1, u.Beside})
		}
	}
	l.forgetReasons(func(r Reason) bool { return r.Count <= 0 })
	l.List.remove(it)
}

func (l *UnprovenList) forgetReasons(it func(Reason) bool) {
	if l.Reasons = slices.DeleteFunc(l.Reasons, it); len(l.Reasons) == 0 {
		l.Reasons = nil // as in a new checkpoint
	}
}

// clear takes back the holds, as many as n, that only the assumed tail of an agent made unproven.
func (l *UnprovenList) clear(agent lockagent.AgentID, n int) {
	l.Count -= n
	l.forget(func(u Unproven) bool { return u.Beside == agent })
	l.forgetReasons(func(r Reason) bool { return r.Beside == agent })
}

// convict says that they stay unproven.
func (l *UnprovenList) convict(agent lockagent.AgentID) {
	for i := range l.First {
		if u := &l.First[i]; u.Beside == agent {
			u.Beside = ""
		}
	}
	kept := l.Reasons
	l.Reasons = nil
	for _, r := range kept {
		if r.Beside == agent {
			r.Beside = ""
		}
		l.because(r)
	}
}

func (l *UnprovenList) reset() { *l = UnprovenList{} }

func (l *UnprovenList) detach() {
	l.List.detach()
	l.Reasons = slices.Clone(l.Reasons)
}

func (l *UnprovenList) tell(all []string, title string) []string { return unproven(all, title, *l) }

// Gap is records of one agent that are missing.
type Gap struct {
	Agent lockagent.AgentID `json:"agent"`
	Epoch uint64            `json:"epoch"`
	Range

	// Lives is 0, or how many epochs from Epoch on have left no record at all.
	Lives uint64 `json:"lives,omitempty"`
}

// Hole is messages that are missing in the middle of a stream. Any agent may have published them.
type Hole struct {
	Range // positions

	// Stored is when the stream took the message behind the hole.
	Stored time.Time `json:"stored,omitzero"`

	// In has the times in which holds are not proven, for each store that was known.
	In []Stretch `json:"in,omitempty"`
}

// Stretch is a time on the clock of a store. From is 0 for its beginning.
type Stretch struct {
	Store string              `json:"store,omitempty"`
	From  lockagent.StoreTime `json:"from_us,omitempty"`
	To    lockagent.StoreTime `json:"to_us"`
}

// Belated is a time that was judged too early. Holds in it are not proven.
type Belated struct {
	Stretch
	Why string `json:"why"`

	// Beside is the agent whose lost end is the reason, if that is assumed, or empty. If it goes on after all,
	// the holds are proven.
	Beside lockagent.AgentID `json:"beside,omitempty"`
}

// LateRecord is a record that came when the audit had taken it for missing.
type LateRecord struct {
	Agent lockagent.AgentID `json:"agent"`
	Epoch uint64            `json:"epoch"`
	Seq   uint64            `json:"seq"`
	Kind  string            `json:"kind"`
	Lock  lockagent.Name    `json:"lock,omitempty"`
}

// Tail is the end of the log of an agent that did not stop.
type Tail struct {
	Agent   lockagent.AgentID `json:"agent"`
	Epoch   uint64            `json:"epoch"`
	Process Process           `json:"process,omitzero"`
	Last    uint64            `json:"last"` // its last record

	// From is the last time of the store of which the log has all that the agent did. Holds of others
	// between From and To are not proven.
	From lockagent.StoreTime `json:"from_us"`
	To   lockagent.StoreTime `json:"to_us"`

	// Assumed says that the agent is taken to have lived until To at the latest, see
	// [Audit].Tail. Otherwise a successor shows that.
	Assumed bool `json:"assumed,omitempty"`
}

func (f *findings) violation(v Violation) {
	if v.Kind == Equivocation && slices.ContainsFunc(f.Violations.First, func(x Violation) bool {
		return x.Kind == v.Kind && x.First.Agent == v.First.Agent && x.First.Epoch == v.First.Epoch && x.First.Seq == v.First.Seq
	}) {
		return
	}
	f.Violations.add(v)
}

func (r *Report) verdict() Verdict {
	judged, pending := 0, 0
	for _, s := range r.Stores {
		judged += s.Holds
		pending += s.Pending
	}
	switch {
	case r.leadTo(Violated) > 0:
		return Violated
	case r.Events == 0 && r.Unreadable.Count == 0:
		return Empty
	case r.leadTo(Incomplete) > 0:
		return Incomplete
	case judged == 0 && pending+r.NotJudged.Count > 0:
		return Incomplete
	case r.leadTo(Explained) > 0:
		return Explained
	}
	return Proven
}

// OK reports whether there are no violations. It does not mean that the log is complete: see
// Verdict.
func (r Report) OK() bool { return r.Violations.Count == 0 }

// Report judges a log that has come to its end. An agent that has not stopped is dead. More may be
// added afterwards: then the log went on after all.
func (a *Audit) Report() Report { return a.clone().close(a.alive(time.Time{})) }

// ReportAt judges a log that goes on, as it is at the time now on the clock of the server, see
// [StreamState].Now. An agent lives unless it was silent for longer than the Patience. What such
// agents have not told yet is pending: the report says up to when the log is judged.
//
// What follows a missing record is pending, too, as long as that may still come.
func (a *Audit) ReportAt(now time.Time) Report {
	c, alive := a.clone(), a.alive(now)
	idle := max(0, now.Sub(a.clock.Stored))
	return c.closeWith(c.depart(alive, func(l *agentLog) bool { return alive(l) && c.clock.Now-l.Since+idle <= recordPatience }))
}

// alive tells which agents live at a time; if it is zero, none does.
func (a *Audit) alive(now time.Time) func(*agentLog) bool {
	clock, patience := a.clock, a.Patience
	idle := max(0, now.Sub(clock.Stored))
	return func(l *agentLog) bool { return !now.IsZero() && clock.Now-l.Heard+idle <= patience }
}

// depart notes which agents are gone. It returns the stores with agents that live. wait says of which
// agents a missing record may still come.
func (a *Audit) depart(alive, wait func(*agentLog) bool) map[string]bool {
	for _, l := range sorted(a.logs) {
		a.drain(l, !wait(l))
	}
	living := make(map[string]bool)
	for _, l := range sorted(a.logs) {
		switch {
		case len(l.pending) > 0:
			living[l.Store] = true
		case l.Stopped || l.Dead:
			a.bounded(l, a.livedUntil(l, l.Store, l.low()))
		case alive(l):
			living[l.Store] = true
		default:
			a.died(l)
		}
		a.place(l)
	}
	return living
}

// close judges all that can be judged. The audit is of no use afterwards.
func (a *Audit) close(alive func(*agentLog) bool) Report {
	return a.closeWith(a.depart(alive, noWait))
}

func noWait(*agentLog) bool { return false }

// closeWith judges all that can be judged of stores of which agents live, or not.
func (a *Audit) closeWith(living map[string]bool) Report {
	var judged []Judged
	var resets List[StoreReset]
	for _, s := range sorted(a.stores) {
		j := Judged{Store: s.ID}
		until := lockagent.StoreTime(endOfTime)
		if living[s.ID] {
			if until = s.Floor; !a.clock.outage(a.Tail) {
				until = max(until, s.horizon())
			}
			j.To = until
		}
		a.judge(s, until)
		for _, l := range a.locks {
			if l.Store == s.ID {
				j.Pending += len(l.Spans)
				a.stillHeld(l)
			}
		}
		j.Holds, j.Unproven, j.From = s.Holds, s.Unproven, max(s.From, s.First)
		j.rest = s.Last > s.Unproven
		if j.Holds > 0 || j.Pending > 0 {
			judged = append(judged, j)
		}
		for _, x := range s.Bygone.First {
			resets.add(x)
		}
		resets.Count += s.Bygone.Count - len(s.Bygone.First)
		for _, x := range slices.Concat(s.Resets, s.Steps) {
			resets.add(x.StoreReset)
		}
	}
	a.nameless()
	r := a.found.Report
	r.Version, r.Stores, r.Resets = ReportVersion, judged, resets
	r.Locks = len(a.names)
	r.MoreLocks = r.Locks == mostNames
	r.Verdict = r.verdict()
	for i := range r.Stores {
		if r.Violations.Count+r.Unreadable.Count+r.Joined.Count+r.Unchecked+r.OtherVersions+r.Late.Count > 0 {
			r.Stores[i].rest = false
		}
	}
	return r
}

// nameless notes that holds may be of any of several stores.
func (a *Audit) nameless() {
	judged := 0
	for _, s := range a.stores {
		if s.Holds > 0 {
			judged++
		}
	}
	if s := a.stores[""]; s != nil && s.Holds > s.Accepted && judged > 1 {
		a.found.Joined.add(Note(fmt.Sprintf("%d tenures do not say of which store they are, and there are several", s.Holds-s.Accepted)))
	}
}

// endOfTime is later than any time of a store.
const endOfTime = math.MaxInt64

// stillHeld lists the holds of a lock that go on.
func (a *Audit) stillHeld(lock *lockLog) {
	for _, s := range lock.Spans {
		if s.Open > 0 {
			a.found.OpenHolds.add(a.hold(lock.LockKey, s, &s.Last))
		}
	}
}

// sorted returns the values of a map in the order of their keys.
func sorted[K cmp.Ordered, V any](m map[K]V) []V {
	all := make([]V, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[k])
	}
	return all
}

func (h Hold) compare(other Hold) int {
	return cmp.Or(cmp.Compare(max(h.Start, h.End), max(other.Start, other.End)), h.LockKey.compare(other.LockKey), cmp.Compare(h.Token, other.Token),
		cmp.Compare(h.Agent, other.Agent), cmp.Compare(h.Epoch, other.Epoch), cmp.Compare(h.Seq, other.Seq))
}

func (v Violation) compare(other Violation) int {
	return cmp.Or(v.First.compare(other.First), v.Second.compare(other.Second), cmp.Compare(v.Kind, other.Kind))
}

func (e Explanation) compare(other Explanation) int { return e.Violation.compare(other.Violation) }

func (u Unproven) compare(other Unproven) int {
	return cmp.Or(u.Hold.compare(other.Hold), cmp.Compare(u.Why, other.Why))
}

func (g Gap) compare(other Gap) int {
	return cmp.Or(cmp.Compare(g.Agent, other.Agent), cmp.Compare(g.Epoch, other.Epoch), cmp.Compare(g.First, other.First))
}

func (r LateRecord) compare(other LateRecord) int {
	return cmp.Or(cmp.Compare(r.Agent, other.Agent), cmp.Compare(r.Epoch, other.Epoch), cmp.Compare(r.Seq, other.Seq))
}

func (h Hole) compare(other Hole) int { return cmp.Compare(h.First, other.First) }

func (b Belated) compare(other Belated) int {
	return cmp.Or(cmp.Compare(b.From, other.From), cmp.Compare(b.To, other.To), cmp.Compare(b.Store, other.Store), cmp.Compare(b.Why, other.Why))
}

func (t Tail) compare(other Tail) int {
	return cmp.Or(cmp.Compare(t.From, other.From), cmp.Compare(t.Agent, other.Agent), cmp.Compare(t.Epoch, other.Epoch))
}
