package events

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/lockagent/lockagent"
)

// Verdict says what a log proves.
type Verdict string

// The verdicts.
const (
	// Proven: every hold is shown to have ended before the next one began, apart
	// from overlaps that a reset of the store explains.
	Proven Verdict = "proven"
	// Incomplete: nothing contradicts that, but something is missing that the
	// proof would need.
	Incomplete Verdict = "incomplete"
	// Violated: two holds overlapped, or the tokens did not grow.
	Violated Verdict = "violated"
)

// Report is the outcome of an [Audit]. Its lists are in a fixed order.
type Report struct {
	Verdict Verdict `json:"verdict"`
	Counts
	Resets []StoreReset `json:"resets,omitempty"`

	// Violations are overlaps that nothing explains, and tokens that did not grow.
	Violations []Violation `json:"violations,omitempty"`

	// Explained are what would be violations without a reset of the store, or an
	// operator who broke the lock.
	Explained []Explained `json:"explained,omitempty"`

	// Gaps are the events that are missing.
	Gaps []Gap `json:"gaps,omitempty"`

	// Unproven are holds that cannot be shown not to have overlapped.
	Unproven []Unproven `json:"unproven,omitempty"`

	// OpenHolds are holds without an end that are each the last of their lock:
	// they overlapped with nothing.
	OpenHolds []OpenHold `json:"open_holds,omitempty"`

	// OpenEnds are agents whose log does not end with EventAgentStopped: they go
	// on, or died. What a dead agent did last may be missing without a trace.
	OpenEnds []OpenEnd `json:"open_ends,omitempty"`

	// Unreadable counts what was there but was no event, and UnreadableNames says
	// what the first few of them were.
	Unreadable      int      `json:"unreadable"`
	UnreadableNames []string `json:"unreadable_names,omitempty"`
}

// Counts sums a log up.
type Counts struct {
	Events     int `json:"events"`     // repetitions not counted
	Duplicates int `json:"duplicates"` // repetitions
	Agents     int `json:"agents"`
	Locks      int `json:"locks"`
	Grants     int `json:"grants"`
	HandOffs   int `json:"hand_offs"` // of the grants

	// Losses counts the holds that were not released by their owner, by the text
	// of their LossReason, or of their EventKind if they have none.
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

func (r StoreReset) String() string {
	if r.From == r.To {
		return fmt.Sprintf("the clock of the store %q was set between %d and %d us", r.From, r.After, r.Before)
	}
	return fmt.Sprintf("the store was reset (%s) from %q to %q between %d and %d us", r.Reason, r.From, r.To, r.After, r.Before)
}

// auditedHold is one hold in a report.
type auditedHold struct {
	Agent  lockagent.AgentID `json:"agent"`
	Epoch  uint64            `json:"epoch"`
	Seq    uint64            `json:"seq"` // of the event that granted it
	Tenure uint64            `json:"tenure"`
	Token  lockagent.Token   `json:"token"`

	// Start is when the store began the tenure, and End the latest that the hold
	// can have ended; 0 if the log does not say.
	Start lockagent.StoreTime `json:"start_us,omitempty"`
	End   lockagent.StoreTime `json:"end_us,omitempty"`

	// Ended is the kind and the reason of its end, or empty if the log has none.
	Ended       string `json:"ended,omitempty"`
	Incarnation string `json:"incarnation,omitempty"`
}

func (h auditedHold) String() string {
	text := fmt.Sprintf("token %d (agent %s, epoch %d, event %d, tenure %d", h.Token, h.Agent, h.Epoch, h.Seq, h.Tenure)
	if h.Start != 0 {
		text += fmt.Sprintf(", from %d us", h.Start)
	}
	if h.End != 0 {
		text += fmt.Sprintf(", until %d us", h.End)
	}
	if h.Ended != "" {
		text += ", " + h.Ended
	}
	return text + ")"
}

// ViolationKind says what is wrong with two holds.
type ViolationKind string

// The kinds of violations.
const (
	// Overlap: the second hold began before the first is known to have ended.
	Overlap ViolationKind = "overlap"
	// TokenRepeated: both have the same token.
	TokenRepeated ViolationKind = "token repeated"
	// TokenFell: the second began after the first and has a smaller token.
	TokenFell ViolationKind = "token fell"
	// StrayReentry: the second is a re-entry into a hold that there was not; there
	// is no first.
	StrayReentry ViolationKind = "stray re-entry"
)

// Violation is a contradiction to mutual exclusion.
type Violation struct {
	Kind   ViolationKind  `json:"kind"`
	Lock   lockagent.Name `json:"lock"`
	First  auditedHold    `json:"first"`
	Second auditedHold    `json:"second"`
}

func (v Violation) String() string {
	switch v.Kind {
	case Overlap:
		return fmt.Sprintf("%q: %v began before the end of %v", v.Lock, v.Second, v.First)
	case TokenRepeated:
		return fmt.Sprintf("%q: %v has the token of %v", v.Lock, v.Second, v.First)
	case TokenFell:
		return fmt.Sprintf("%q: %v came after %v", v.Lock, v.Second, v.First)
	}
	return fmt.Sprintf("%q: re-entry without a hold: %v", v.Lock, v.Second)
}

// Explained is a violation and what explains it: a reset of the store, or an
// operator who broke the lock.
type Explained struct {
	Violation

	// Reset is the first event that tells of the reset, or nil.
	Reset *StoreReset `json:"reset,omitempty"`

	// BrokenAt is when an operator freed the lock, or 0.
	BrokenAt lockagent.StoreTime `json:"broken_at_us,omitempty"`
}

func (e Explained) String() string {
	if e.Reset != nil {
		return fmt.Sprintf("%v: %v", e.Violation, *e.Reset)
	}
	return fmt.Sprintf("%v: an operator broke the lock at %d us", e.Violation, e.BrokenAt)
}

// Gap is events of one agent that are missing.
type Gap struct {
	Agent lockagent.AgentID `json:"agent"`
	Epoch uint64            `json:"epoch"`
	Range
}

func (g Gap) String() string {
	return fmt.Sprintf("agent %s, epoch %d: events %d to %d", g.Agent, g.Epoch, g.First, g.Last)
}

// Unproven is a hold that cannot be shown not to have overlapped.
type Unproven struct {
	Lock lockagent.Name `json:"lock"`
	Hold auditedHold    `json:"hold"`
	Why  string         `json:"why"`
}

func (u Unproven) String() string { return fmt.Sprintf("%q: %v: %s", u.Lock, u.Hold, u.Why) }

// OpenHold is a hold that has not ended, as far as the log goes.
type OpenHold struct {
	Lock lockagent.Name `json:"lock"`
	Hold auditedHold    `json:"hold"`
}

func (o OpenHold) String() string { return fmt.Sprintf("%q: %v", o.Lock, o.Hold) }

// OpenEnd is an agent whose log does not end with EventAgentStopped.
type OpenEnd struct {
	Agent lockagent.AgentID `json:"agent"`
	Epoch uint64            `json:"epoch"`
	Last  uint64            `json:"last"` // its last event
}

func (o OpenEnd) String() string {
	return fmt.Sprintf("agent %s, epoch %d: last event %d", o.Agent, o.Epoch, o.Last)
}

// OK reports whether there are no violations. It does not mean that the log is
// complete: see Verdict.
func (r Report) OK() bool { return len(r.Violations) == 0 }

func (r Report) withVerdict() Report {
	switch {
	case len(r.Violations) > 0:
		r.Verdict = Violated
	case len(r.Gaps) > 0 || len(r.Unproven) > 0 || r.Unreadable > 0 || r.Events == 0:
		r.Verdict = Incomplete
	default:
		r.Verdict = Proven
	}
	return r
}

// String is the report for people, in lines.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Verdict, r.summary())
	fmt.Fprintf(&b, "%d events (%d repeated) of %d agents on %d locks: %d grants, %d of them hand-offs\n",
		r.Events, r.Duplicates, r.Agents, r.Locks, r.Grants, r.HandOffs)
	for _, reason := range slices.Sorted(maps.Keys(r.Losses)) {
		fmt.Fprintf(&b, "lost (%s): %d\n", reason, r.Losses[reason])
	}
	list(&b, "violation", r.Violations)
	list(&b, "explained", r.Explained)
	list(&b, "missing", r.Gaps)
	list(&b, "unproven", r.Unproven)
	for _, name := range r.UnreadableNames {
		fmt.Fprintf(&b, "unreadable: %s\n", name)
	}
	if more := r.Unreadable - len(r.UnreadableNames); more > 0 {
		fmt.Fprintf(&b, "unreadable: %d more\n", more)
	}
	list(&b, "reset", r.Resets)
	list(&b, "still held", r.OpenHolds)
	list(&b, "not stopped", r.OpenEnds)
	return b.String()
}

func (r Report) summary() string {
	switch r.Verdict {
	case Violated:
		return fmt.Sprintf("%d violations of mutual exclusion", len(r.Violations))
	case Incomplete:
		if r.Events == 0 {
			return "there are no events"
		}
		return fmt.Sprintf("no violation, but %d gaps, %d holds unproven and %d messages unreadable", len(r.Gaps), len(r.Unproven), r.Unreadable)
	}
	if n := len(r.Explained); n > 0 {
		return fmt.Sprintf("no two holds overlapped, apart from what is explained below (%d)", n)
	}
	return "no two holds overlapped"
}

func list[T fmt.Stringer](w io.Writer, what string, all []T) {
	for _, x := range all {
		fmt.Fprintf(w, "%s: %v\n", what, x)
	}
}
