package audit

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lockagent/lockagent/events/internal/show"
)

// Acknowledgement says that somebody has looked at what an audit found, and goes on with it.
type Acknowledgement struct {
	By   string    `json:"by"`
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// Acknowledged is what an audit had found when somebody acknowledged it. The verdict is about the
// rest.
type Acknowledged struct {
	Acknowledgement
	Position uint64  `json:"position"` // up to which the log was read
	Verdict  Verdict `json:"verdict"`  // at that time

	Violations   List[Violation] `json:"violations,omitzero"`
	Explained    int             `json:"explained,omitempty"`
	Unproven     int             `json:"unproven,omitempty"`
	RecordHoles  int             `json:"record_holes,omitempty"`
	MessageHoles int             `json:"message_holes,omitempty"`
	JudgedEarly  int             `json:"judged_early,omitempty"`
	Tails        int             `json:"tails,omitempty"`
	Late         int             `json:"late,omitempty"`
	Unreadable   int             `json:"unreadable,omitempty"`
	Joined       int             `json:"joined,omitempty"`
	Unchecked    int             `json:"unchecked,omitempty"`
	Uncovered    int             `json:"uncovered,omitempty"`

	Unknown  int `json:"unknown,omitempty"`
	Unjudged int `json:"unjudged,omitempty"`
}

// Acknowledge sets aside what the audit has found up to now. It stays in every report, and the verdict
// is about the rest. now is as for [Audit.ReportAt]. If it is zero the log has come to its end, as for
// [Audit.Report]. Acknowledge reports whether there was anything.
func (a *Audit) Acknowledge(now time.Time, ack Acknowledgement) bool {
	living := a.depart(a.alive(now), noWait)
	for _, s := range sorted(a.stores) {
		if living[s.ID] {
			a.settle(s.ID)
			continue
		}
		a.judgeLocks(s, endOfTime-1) // holds that may go on stay
		s.Floor = max(s.Floor, s.Last)
	}
	a.nameless()
	f := &a.found
	found := Acknowledged{Acknowledgement: ack, Position: a.position, Verdict: f.verdict(), Violations: f.Violations}
	for i := range findingKinds {
		if k := &findingKinds[i]; k.accepted != nil {
			*k.accepted(&found) = k.of(&f.Report).count()
		}
	}
	if len(found.counts()) == 0 {
		return false
	}
	f.accept(found)
	if s := a.stores[""]; s != nil {
		s.Accepted = s.Holds
	}
	return true
}

// counts says how much of each kind there was.
func (k *Acknowledged) counts() (all []string) {
	for i := range findingKinds {
		n, what := k.Violations.Count, &findingKinds[i]
		if what.accepted != nil {
			n = *what.accepted(k)
		}
		if n > 0 {
			all = append(all, show.Plural(n, what.one, what.many))
		}
	}
	return all
}

// String tells who acknowledged what, and the violations themselves.
func (k Acknowledged) String() string {
	var b strings.Builder
	fmt.Fprintf(
		&b, "by %s at %s, up to position %d: %s (%s)", k.By, show.Wall(k.Time), k.Position, strings.Join(k.counts(), ", "),
		k.Text,
	)
	for _, v := range k.Violations.First {
		fmt.Fprintf(&b, "\n  violation: %v", v)
	}
	if more := k.Violations.Count - k.Violations.named(); more > 0 {
		fmt.Fprintf(&b, "\n  violation: and %d more", more)
	}
	return b.String()
}

func (k Acknowledged) compare(other Acknowledged) int { return cmp.Compare(k.Position, other.Position) }
