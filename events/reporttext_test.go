package events

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// In these tests the zone is always the same.
func init() { zone = time.UTC }

// One hold that overlaps with many others for one reason is told once.
func TestReportTellsOfOneHoldOnce(t *testing.T) {
	stopped := agent("A").leasing(2*time.Second).granted(1, 1000)
	stopped.lost(lockagent.LostDeadline, 1, 5000).edit(func(r *Record) { r.Until = clock(5000) }).stop()
	others := agent("B").leasing(2 * time.Second)
	for i := range 25 {
		others.held(uint64(i+1), 3100+50*i, 3120+50*i)
	}
	text := audited(recordsOf([]*story{stopped, others.stop()})).String()
	if n := strings.Count(text, "\nexplained: \"a\": two holds overlapped"); n != 1 {
		t.Errorf("it tells of %d overlaps, want 1", n)
	}
	for _, want := range []string{
		"explained: no two holds overlapped, apart from 25 overlaps of which the log names the cause\n",
		"\n    first:  \"owner-A\", token 1772373601000000, agent A, billing on host-A, pid 7\n            from 2026-03-01T14:00:01.000Z to 14:00:05.000 (4s), lost (deadline) [A:1:2]\n",
		"\n    both:   from 2026-03-01T14:00:03.100Z to 14:00:03.120 on the clock of the store\n",
		"\n    cause:  the first was over by its lease; its process did not run, and learned of it late\n",
		"\n    more:   the first overlapped likewise with 24 later holds, up to 2026-03-01T14:00:04.320Z\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// What an incomplete report lacks is named, and nothing else.
func TestReportSaysWhatIsMissing(t *testing.T) {
	for want, r := range map[string]Report{
		"no violation was found, but no hold could be judged so far": {},
		"no violation was found, but 1 hold is not proven":           {Unproven: List[Unproven]{Count: 1}},
		"no violation was found, but 2 holds are not proven, 1 stretch of records is missing, 3 messages cannot be read": {
			Unproven: List[Unproven]{Count: 2}, Gaps: List[Gap]{Count: 1}, Unreadable: List[Note]{Count: 3},
		},
	} {
		r.Verdict = Incomplete
		if got := r.Summary(); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

// Many findings of one cause hide none of another.
func TestListOfTwoCauses(t *testing.T) {
	var l List[Unproven]
	add := func(n int, why string) {
		l.add(Unproven{Hold: Hold{Start: clock(n)}, Why: why})
	}
	for n := range 100 {
		add(100-n, fmt.Sprintf("the log of agent A%d has no end, 5", n))
	}
	add(1000, "it ended between 1 and 2")
	add(999, "it ended between 3 and 4")
	if n := len(l.First); l.Count != 102 || n != most+2 || l.First[0].Hold.Start != clock(1) || l.First[most-1].Hold.Start != clock(most) || l.First[most].Hold.Start != clock(999) {
		t.Errorf("%+v", l)
	}
}

// One hold that nobody ends hides no other violation.
func TestReportTellsOfOthersBesideAStuckHold(t *testing.T) {
	stuck, others := agent("A").leasing(60*time.Second).granted(1, 1000), agent("B")
	for i := range 40 {
		others.held(uint64(i+1), 2000+200*i, 2100+200*i)
	}
	stuck.released(1, 50_000).returned(1, 50_000).of("z").granted(2, 51_000).released(2, 55_000).returned(2, 55_000).stop()
	others.of("z").held(100, 50_500, 52_000)
	r := resumedReport(t, recordsOf([]*story{stuck, others.stop()}))
	if r.Violations.Count != 41 || len(r.Violations.First) != 2 || r.Violations.First[0].More != 39 || r.Violations.First[0].Last != clock(9900)+100 && r.Violations.First[0].Last != clock(9900)+50 {
		t.Errorf("%d: %+v", r.Violations.Count, r.Violations.First)
	}
	text := r.String()
	if !strings.Contains(text, "violation: \"z\": two holds overlapped") || strings.Contains(text, "and 1 more") || !strings.Contains(text, "likewise with 39 later holds") {
		t.Error(text)
	}
}

func resumedReport(t *testing.T, log []Record) Report {
	a := NewAudit()
	for _, r := range log {
		a.Add(r)
	}
	return resumed(t, a).Report()
}
