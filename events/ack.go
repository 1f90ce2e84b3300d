package events

import (
	"cmp"
	"fmt"
	"strings"
	"time"
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

	Violations List[Violation] `json:"violations,omitzero"`
	Explained  int             `json:"explained,omitempty"`
	Unproven   int             `json:"unproven,omitempty"`
	Gaps       int             `json:"gaps,omitempty"`
	Holes      int             `json:"holes,omitempty"`
	Belated    int             `json:"belated,omitempty"`
	Tails      int             `json:"tails,omitempty"`
	Late       int             `json:"late,omitempty"`
	Unreadable int             `json:"unreadable,omitempty"`
	Joined     int             `json:"joined,omitempty"`
	Unchecked  int             `json:"unchecked,omitempty"`
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
	f := &a.found
	r := Report{}
	f.fill(&r)
	found := Acknowledged{
		Acknowledgement: ack, Position: a.position, Verdict: r.verdict(), Violations: f.Violations,
		Explained: f.Explained.Count, Unproven: f.Unproven.Count, Gaps: f.Gaps.Count, Holes: f.Holes.Count, Belated: f.Belated.Count,
		Tails: f.Tails.Count, Late: f.Late.Count, Unreadable: f.Unreadable.Count, Joined: f.Joined.Count, Unchecked: f.Unchecked,
	}
	if len(found.counts()) == 0 {
		return false
	}
	*f = findings{Counts: f.Counts, OpenHolds: f.OpenHolds, NotJudged: f.NotJudged, Acknowledged: append(f.Acknowledged, found)}
	f.Unchecked, f.Assumed = 0, 0
	for _, l := range a.logs {
		l.Found, l.Beside, l.Belated = false, 0, 0
	}
	a.past.acknowledged()
	return true
}

// counts says how much of each kind there was.
func (k *Acknowledged) counts() (all []string) {
	for _, count := range []struct {
		n         int
		one, many string
	}{
		{k.Violations.Count, "violation", "violations"}, {k.Explained, "explained overlap", "explained overlaps"},
		{k.Unproven, "unproven hold", "unproven holds"},
		{k.Gaps + k.Holes, "stretch of records is missing", "stretches of records are missing"},
		{k.Belated, "time that was judged too early", "times that were judged too early"},
		{k.Tails, "agent that did not stop", "agents that did not stop"}, {k.Late, "late record", "late records"},
		{k.Unreadable, "unreadable message", "unreadable messages"}, {k.Joined, "store that was another", "stores that were one"},
		{k.Unchecked, "repetition that was not compared", "repetitions that were not compared"},
	} {
		if count.n > 0 {
			all = append(all, number(count.n, count.one, count.many))
		}
	}
	return all
}

// String tells who acknowledged what, and the violations themselves.
func (k Acknowledged) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "by %s at %s, up to position %d: %s (%s)", k.By, wallText(k.Time), k.Position, strings.Join(k.counts(), ", "), k.Text)
	for _, v := range k.Violations.First {
		fmt.Fprintf(&b, "\n  violation: %v", v)
	}
	if more := k.Violations.Count - len(k.Violations.First); more > 0 {
		fmt.Fprintf(&b, "\n  violation: and %d more", more)
	}
	return b.String()
}

func (k Acknowledged) compare(other Acknowledged) int { return cmp.Compare(k.Position, other.Position) }
