package events

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

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

// most is how many of each thing a report names.
const most = 20

// List is the first of what there is of one kind, in the order of time, and how many there are.
type List[T Listed[T]] struct {
	Count int `json:"count"`
	First []T `json:"first,omitempty"`
}

// Listed is something that reports list. Other packages have no such types.
type Listed[T any] interface {
	fmt.Stringer
	compare(other T) int
}

func (l *List[T]) add(x T) {
	l.Count++
	i, _ := slices.BinarySearchFunc(l.First, x, T.compare)
	if i == most {
		return
	}
	if len(l.First) == most {
		l.First = l.First[:most-1]
	}
	l.First = slices.Insert(l.First, i, x)
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
	Unproven List[Unproven] `json:"unproven,omitzero"`

	// Gaps are records that are missing. Late came when their place had been judged.
	Gaps List[Gap]        `json:"gaps,omitzero"`
	Late List[LateRecord] `json:"late,omitzero"`

	// Tails are agents that died: their logs have no end. What they did last may be missing.
	Tails List[Tail] `json:"tails,omitzero"`

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

	// Unproven is when the last hold ended that is not proven; all later ones are. It is 0 if
	// all are proven.
	Unproven lockagent.StoreTime `json:"unproven_us,omitempty"`
}

// Counts sums a log up.
type Counts struct {
	Events     int `json:"events"`     // records, repetitions not counted
	Duplicates int `json:"duplicates"` // repetitions
	Unchecked  int `json:"unchecked"`  // repetitions that came too late to be compared
	Agents     int `json:"agents"`
	Locks      int `json:"locks"` // that the audit had to remember at the end
	Grants     int `json:"grants"`
	HandOffs   int `json:"hand_offs"` // of the grants
	Dropped    int `json:"dropped"`   // events that found no room
	Unknown    int `json:"unknown"`   // records of kinds that this version does not know
	Unjudged   int `json:"unjudged"`  // holds of kinds of locks that this version does not judge

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
	Store  string              `json:"store,omitempty"` // its identity before, if that changed
}

func (r StoreReset) compare(other StoreReset) int {
	return cmp.Or(cmp.Compare(r.After, other.After), cmp.Compare(r.Before, other.Before),
		cmp.Compare(r.From, other.From), cmp.Compare(r.To, other.To), cmp.Compare(r.Reason, other.Reason))
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
}

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

// Unproven is a hold that cannot be shown not to have overlapped.
type Unproven struct {
	Hold Hold   `json:"hold"`
	Why  string `json:"why"`
}

// Gap is records of one agent that are missing.
type Gap struct {
	Agent lockagent.AgentID `json:"agent"`
	Epoch uint64            `json:"epoch"`
	Range
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
}

// findings are what an audit has found for good.
type findings struct {
	Counts
	Violations List[Violation]   `json:"violations"`
	Explained  List[Explanation] `json:"explained"`
	Unproven   List[Unproven]    `json:"unproven"`
	Gaps       List[Gap]         `json:"gaps"`
	Late       List[LateRecord]  `json:"late"`
	Tails      List[Tail]        `json:"tails"`
	OpenHolds  List[Hold]        `json:"open_holds"`
	NotJudged  List[Hold]        `json:"not_judged"`
	Unreadable List[Note]        `json:"unreadable"`
	Joined     List[Note]        `json:"joined"`
}

func (f *findings) violation(v Violation) {
	if v.Kind == Equivocation && slices.ContainsFunc(f.Violations.First, func(x Violation) bool {
		return x.Kind == v.Kind && x.First.Agent == v.First.Agent && x.First.Epoch == v.First.Epoch && x.First.Seq == v.First.Seq
	}) {
		return
	}
	f.Violations.add(v)
}

func (f *findings) fill(r *Report) {
	r.Counts = f.Counts
	r.Violations, r.Explained, r.Unproven = f.Violations, f.Explained, f.Unproven
	r.Gaps, r.Late, r.Tails = f.Gaps, f.Late, f.Tails
	r.OpenHolds, r.NotJudged = f.OpenHolds, f.NotJudged
	r.Unreadable, r.Joined = f.Unreadable, f.Joined
}

func (r *Report) verdict() Verdict {
	judged, pending := 0, 0
	for _, s := range r.Stores {
		judged += s.Holds
		pending += s.Pending
	}
	switch {
	case r.Violations.Count > 0:
		return Violated
	case r.Events == 0 && r.Unreadable.Count == 0:
		return Empty
	case r.Unproven.Count+r.Gaps.Count+r.Late.Count+r.Unreadable.Count+r.Joined.Count+r.Unchecked > 0:
		return Incomplete
	case judged == 0 && pending+r.NotJudged.Count > 0:
		return Incomplete
	case r.Explained.Count > 0:
		return Explained
	}
	return Proven
}

// OK reports whether there are no violations. It does not mean that the log is complete: see
// Verdict.
func (r Report) OK() bool { return r.Violations.Count == 0 }

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

func (t Tail) compare(other Tail) int {
	return cmp.Or(cmp.Compare(t.From, other.From), cmp.Compare(t.Agent, other.Agent), cmp.Compare(t.Epoch, other.Epoch))
}
