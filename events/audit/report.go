package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// Verdict says what a log proves.
type Verdict string

// The verdicts.
const (
	// Proven: every hold is shown to have ended before the next one began, and permits to have sufficed.
	Proven Verdict = "proven"
	// Explained: some holds overlapped, and for each the log names the cause: a reset of the
	// store, a break, a process that did not run. All other holds are
	// proven.
	Explained Verdict = "explained"
	// Incomplete: nothing contradicts that, but something is missing that the proof would need.
	Incomplete Verdict = "incomplete"
	// Violated: two holds overlapped, more permits were in use than there were, tokens did not grow, or the log
	// contradicts itself.
	Violated Verdict = "violated"
	// Empty: there are no records, or none of what was asked for.
	Empty Verdict = "empty"
)

// ReportVersion is the version of a report in JSON. Fields are only added to a version.
const ReportVersion = 1

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

	// Since is the time from which the log was read, or zero if it was read from its beginning. Whoever
	// reads the log sets it, because an [Audit] does not know it.
	Since time.Time `json:"since,omitzero"`

	// Within is the stretch of time that the verdict is about, see [Audit.Within]. The Counts are of all that was read.
	Within TimeRange `json:"within,omitzero"`

	// Kept are the numbers of records, by their kinds, of what has consequences and is older than all that was read:
	// see [events.Urgent]. Whoever reads the log sets it.
	Kept map[string]int `json:"kept,omitempty"`

	// Stores are what was judged of each store, and from when to when.
	Stores []Judged `json:"stores,omitempty"`

	// Violations contradict mutual exclusion. Explained are overlaps of which the log names the
	// cause.
	Violations List[Violation]   `json:"violations,omitzero"`
	Explained  List[Explanation] `json:"explained,omitzero"`

	// Unproven are holds that cannot be shown not to have overlapped.
	Unproven UnprovenList `json:"unproven,omitzero"`

	// RecordHoles are records that are missing. Late came when their place had been judged, or
	// when their agent counted as dead.
	RecordHoles List[RecordHole] `json:"record_holes,omitzero"`
	Late        List[LateRecord] `json:"late,omitzero"`

	// MessageHoles are messages that the stream does not have any more, though it has earlier ones, and messages that
	// were lost before they were forwarded to it.
	MessageHoles List[MessageHole] `json:"message_holes,omitzero"`

	// Tails are agents that died: their logs have no end. What they did last may be missing.
	Tails List[Tail] `json:"tails,omitzero"`

	// JudgedEarly are times that had been judged when the log told that something of them is missing.
	JudgedEarly List[JudgedEarly] `json:"judged_early,omitzero"`

	// OpenHolds are holds that have not ended as far as the log goes, and overlapped with nothing.
	OpenHolds List[NamedHold] `json:"open_holds,omitzero"`

	// NotJudged are holds that began before the beginning of the log. The verdict says nothing
	// of them.
	NotJudged List[NamedHold] `json:"not_judged,omitzero"`

	// Resets are what the log tells of resets of stores and of their clocks.
	Resets List[StoreReset] `json:"resets,omitzero"`

	// Graces are the grace periods that the log tells of.
	Graces List[Grace] `json:"graces,omitzero"`

	// Uncovered is what of the time that the verdict is to be about was not judged.
	Uncovered List[Note] `json:"uncovered,omitzero"`

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
	// Holds is how many were judged. Holds of one agent that follow each other without the store count as one.
	Holds int `json:"tenures"`

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

	laterProven bool // some holds ended later, and are proven
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
	Rests      int `json:"rests"`     // of the grants: the lock rested in the agent
	Dropped    int `json:"dropped"`   // events that found no room
	// Unknown are records of kinds that this version does not know, or of another version of the format. They may tell
	// of holds, so nothing is proven. Unjudged are holds of kinds of locks that this version does not judge.
	Unknown  int `json:"unknown"`
	Unjudged int `json:"unjudged"`
	Assumed  int `json:"assumed"` // of the Tails: those that no later record bounds

	// MoreLocks says that there may be more Locks: those of one store are counted up to a number.
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
	*m = Micros(time.Duration(us) * time.Microsecond)
	return err
}

func (r StoreReset) compare(other StoreReset) int {
	return cmp.Or(cmp.Compare(r.After, other.After), cmp.Compare(r.Before, other.Before),
		cmp.Compare(r.From, other.From), cmp.Compare(r.To, other.To), cmp.Compare(r.Reason, other.Reason),
		cmp.Compare(r.Step, other.Step))
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
	// TooManyPermits: when the store granted the second its permits, the first and others had so many that more were in
	// use than there were. There is no second if the first alone has more.
	TooManyPermits ViolationKind = "too many permits"
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
	First  fold.Hold     `json:"first"`
	Second fold.Hold     `json:"second,omitzero"` // zero if the kind has no second

	// Overlapped and Until are from when to when it lasted, on the clock of the store; 0 if the
	// log does not say it.
	Overlapped lockagent.StoreTime `json:"from_us,omitempty"`
	Until      lockagent.StoreTime `json:"until_us,omitempty"`

	// InUse is how many permits were in use, and Total how many there were. Both are only of TooManyPermits.
	InUse int `json:"in_use,omitempty"`
	Total int `json:"total,omitempty"`

	// Others are those that also had permits then: the first few. MoreOthers is how many more had some.
	Others     []fold.Hold `json:"others,omitempty"`
	MoreOthers int         `json:"more_others,omitempty"`

	// Why says how it could come to it, and Look where to look.
	Why  string `json:"why"`
	Look string `json:"look"`

	// More is how many later ones there are of the first hold, for the same reason. Last is until when they were.
	More int                 `json:"more,omitempty"`
	Last lockagent.StoreTime `json:"last_us,omitempty"`
}

// join makes one of two that are of one hold.
func (v Violation) join(other Violation) (both Violation, joined bool) {
	if v.Kind != other.Kind || v.Why != other.Why || v.Second == (fold.Hold{}) || other.Second == (fold.Hold{}) ||
		!sameHold(&v.First, &other.First) {
		return v, false
	}
	both, later := v, other
	if compareHolds(&later.Second, &both.Second) < 0 {
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

	// Deleted says that it was no break: an agent deleted the semaphore at BrokenAt.
	Deleted bool `json:"deleted,omitempty"`

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
	Hold fold.Hold `json:"hold"`
	Why  string    `json:"why"`
}

// RecordHole is records of one agent that are missing.
type RecordHole struct {
	Agent lockagent.AgentID `json:"agent"`
	Epoch uint64            `json:"epoch"`
	events.Range

	// Lives is 0, or how many epochs from Epoch on have left no record at all.
	Lives uint64 `json:"lives,omitempty"`
}

// MessageHole is messages that are missing in the middle of a stream. Any agent may have published them.
type MessageHole struct {
	events.Range // positions

	// Origin is the stream in which they stood if they were lost before they were forwarded, or empty. It is the name
	// from the header Lockagent-Origin. Agent is one of that stream: its message is the first behind them.
	Origin string            `json:"origin,omitempty"`
	Agent  lockagent.AgentID `json:"agent,omitempty"`

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

// JudgedEarly is a time that was judged too early. Holds in it are not proven.
type JudgedEarly struct {
	Stretch
	Why string `json:"why"`
}

// LateRecord is a record that came when the audit had taken it for missing, or its agent for dead.
type LateRecord struct {
	Agent lockagent.AgentID `json:"agent"`
	Epoch uint64            `json:"epoch"`
	Seq   uint64            `json:"seq"`
	Kind  string            `json:"kind"`
	Lock  lockagent.Name    `json:"lock,omitempty"`

	// Dead says that the agent counted as dead until this record came, or had stopped. Holds have been judged without
	// it: those In these times are not proven.
	Dead bool      `json:"dead,omitempty"`
	In   []Stretch `json:"in,omitempty"`
}

// Tail is the end of the log of an agent that did not stop.
type Tail struct {
	Agent   lockagent.AgentID `json:"agent"`
	Epoch   uint64            `json:"epoch"`
	Process fold.Process      `json:"process,omitzero"`
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
		return x.Kind == v.Kind && x.First.Agent == v.First.Agent && x.First.Epoch == v.First.Epoch &&
			x.First.Seq == v.First.Seq
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
	case judged == 0 && !r.Within.IsZero():
		return Empty
	}
	return Proven
}

func sorted[K cmp.Ordered, V any](m map[K]V) []V {
	all := make([]V, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[k])
	}
	return all
}

// NamedHold is a hold in a list of a report, which names its lock.
type NamedHold struct{ fold.Hold }

func (h NamedHold) String() string { return fmt.Sprintf("%q: %v", h.Lock, h.Hold) }

func (h NamedHold) compare(other NamedHold) int { return compareHolds(&h.Hold, &other.Hold) }

func compareHolds(h, other *fold.Hold) int {
	return cmp.Or(
		cmp.Compare(max(h.Start, h.End), max(other.Start, other.End)), h.LockKey.Compare(other.LockKey),
		cmp.Compare(h.Token, other.Token), cmp.Compare(h.Agent, other.Agent), cmp.Compare(h.Epoch, other.Epoch),
		cmp.Compare(h.Seq, other.Seq),
	)
}

func (v Violation) compare(other Violation) int {
	return cmp.Or(
		compareHolds(&v.First, &other.First), compareHolds(&v.Second, &other.Second), cmp.Compare(v.Kind, other.Kind),
	)
}

func (e Explanation) compare(other Explanation) int { return e.Violation.compare(other.Violation) }

func (u Unproven) compare(other Unproven) int {
	return cmp.Or(compareHolds(&u.Hold, &other.Hold), cmp.Compare(u.Why, other.Why))
}

func (g RecordHole) compare(other RecordHole) int {
	return cmp.Or(cmp.Compare(g.Agent, other.Agent), cmp.Compare(g.Epoch, other.Epoch), cmp.Compare(g.First, other.First))
}

func (r LateRecord) compare(other LateRecord) int {
	return cmp.Or(cmp.Compare(r.Agent, other.Agent), cmp.Compare(r.Epoch, other.Epoch), cmp.Compare(r.Seq, other.Seq))
}

func (h MessageHole) compare(other MessageHole) int {
	return cmp.Or(h.Stored.Compare(other.Stored), cmp.Compare(h.Origin, other.Origin), cmp.Compare(h.First, other.First))
}

func (b JudgedEarly) compare(other JudgedEarly) int {
	return cmp.Or(
		cmp.Compare(b.From, other.From), cmp.Compare(b.To, other.To), cmp.Compare(b.Store, other.Store),
		cmp.Compare(b.Why, other.Why),
	)
}

func (t Tail) compare(other Tail) int {
	return cmp.Or(cmp.Compare(t.From, other.From), cmp.Compare(t.Agent, other.Agent), cmp.Compare(t.Epoch, other.Epoch))
}
