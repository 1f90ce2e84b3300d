package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/internal/show"
)

// In these tests the zone is always the same.
func init() { show.Zone = time.UTC }

// One hold that overlaps with many others for one reason is told once.
func TestReportTellsOfOneHoldOnce(t *testing.T) {
	stopped := agent("A").leasing(2*time.Second).granted(1, 1000)
	stopped.lost(lockagent.LostDeadline, 1, 5000).edit(func(r *events.Record) { r.Until = clock(5000) }).stop()
	others := agent("B").leasing(2 * time.Second)
	for i := range 25 {
		others.held(uint64(i+1), 3100+50*i, 3120+50*i)
	}
	text := audited(recordsOf([]*story{stopped, others.stop()})).String()
	if n := strings.Count(text, "\nexplained: \"a\": two holds overlapped"); n != 1 {
		t.Errorf("it tells of %d overlaps, want 1", n)
	}
	for _, want := range []string{
		"explained: nothing overlapped that must not, apart from 25 overlaps of which the log names the cause\n",
		"\n    first:  \"owner-A\", token 1772373601000000, agent A, billing on host-A, pid 7\n" +
			"            from 2026-03-01T14:00:01.000Z to 14:00:05.000 (4s), lost (deadline) [A:1:2]\n",
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

// An empty report says nothing of records that are older than it looks.
func TestReportSaysWhatThereIsNot(t *testing.T) {
	since := wall(1000)
	for want, r := range map[string]Report{
		"there are no records": {},
		"there are no holds":   {Counts: Counts{Events: 1}},
		"there are no records since 2026-03-01T14:00:01.000Z": {Since: since},
		"no hold began since 2026-03-01T14:00:01.000Z":        {Since: since, Counts: Counts{Events: 1}},
	} {
		r.Verdict = Empty
		if got := r.Summary(); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

// What an incomplete report lacks is named, and nothing else.
func TestReportSaysWhatIsMissing(t *testing.T) {
	for want, r := range map[string]Report{
		"no violation was found, but no hold could be judged so far": {},
		"no violation was found, but 1 hold is not proven": {
			Unproven: UnprovenList{List: List[Unproven]{Count: 1}},
		},
		"no violation was found, but 2 holds are not proven, 1 stretch of records is missing, 3 messages cannot be read": {
			Unproven: UnprovenList{List: List[Unproven]{Count: 2}}, RecordHoles: List[RecordHole]{Count: 1},
			Unreadable: List[Note]{Count: 3},
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
		l.add(Unproven{Hold: fold.Hold{Start: clock(n)}, Why: why})
	}
	for n := range 100 {
		add(100-n, (&hole{Kind: ofTail, Agent: lockagent.AgentID(fmt.Sprint("A", n))}).text())
	}
	add(1000, (&hole{Kind: ofRecords, Agent: "B"}).text())
	add(999, (&hole{Kind: ofRecords, Agent: "C"}).text())
	if n := len(l.First); l.Count != 102 || n != most+2 || l.First[0].Hold.Start != clock(1) ||
		l.First[most-1].Hold.Start != clock(most) || l.First[most].Hold.Start != clock(999) {
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
	if r.Violations.Count != 41 || len(r.Violations.First) != 2 || r.Violations.First[0].More != 39 ||
		r.Violations.First[0].Last != clock(9900)+100 && r.Violations.First[0].Last != clock(9900)+50 {
		t.Errorf("%d: %+v", r.Violations.Count, r.Violations.First)
	}
	text := r.String()
	if !strings.Contains(text, "violation: \"z\": two holds overlapped") || strings.Contains(text, "and 1 more") ||
		!strings.Contains(text, "likewise with 39 later holds") {
		t.Error(text)
	}
}

func resumedReport(t *testing.T, log []events.Record) Report {
	a := newAudit()
	for _, r := range log {
		a.Add(r)
	}
	return resumed(t, a).Report()
}

// A crash makes many holds of others unproven, for one reason. It is told once, behind who it was.
func TestReportTellsOfOneReasonOnce(t *testing.T) {
	dead := agent("A").granted(1, 1000).released(1, 1100).alive(2000)
	others := agent("B").of("b")
	for i := range 25 {
		others.held(uint64(i+1), 3100+50*i, 3120+50*i)
	}
	r := audited(recordsOf([]*story{dead, others.stop()}))
	text := r.String()
	for _, want := range []string{
		"\nnot stopped: agent A, billing on host-A, pid 7; its last record is 4 of epoch 1;",
		"\nunproven: 25 holds: agent A, billing on host-A, pid 7 (epoch 1) did not stop, and may have " +
			"held the lock until 2026-03-01T14:00:17.000Z\n" +
			"    \"b\": \"owner-B\", token 1772373603100000, agent B, billing on host-B, pid 7, from 2026-03-01T14:00:03.100Z " +
			"to 14:00:03.120 (20ms), released\n",
		"\n    and 22 more\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if n := strings.Count(text, "unproven: "); n != 1 ||
		strings.Index(text, "not stopped: ") > strings.Index(text, "unproven: ") {
		t.Errorf("it tells %d times what is unproven", n)
	}
	if t.Failed() {
		t.Log(text)
	}
}

// The reasons are counted like the holds, whatever becomes of these.
func TestReasonsAreCounted(t *testing.T) {
	var l UnprovenList
	check := func(want ...Reason) {
		t.Helper()
		sum := 0
		for _, r := range l.Reasons {
			sum += r.Count
		}
		if !slices.Equal(l.Reasons, want) || sum != l.Count {
			t.Errorf("the reasons of %d holds are %v, want %v", l.Count, l.Reasons, want)
		}
	}
	of := func(token lockagent.Token, why string) Unproven { return Unproven{fold.Hold{Token: token}, why} }
	l.add(of(1, "x"))
	for i := range 30 {
		l.add(of(lockagent.Token(10+i), "a"))
		l.add(of(lockagent.Token(50+i), "b"))
	}
	check(Reason{"a", 30}, Reason{"b", 30}, Reason{"x", 1})
	kept := l
	kept.detach()
	l.add(of(2, "x"))
	check(Reason{"a", 30}, Reason{"b", 30}, Reason{"x", 2})
	l = kept
	check(Reason{"a", 30}, Reason{"b", 30}, Reason{"x", 1})
	for i := range 2 * mostReasons {
		l.add(of(lockagent.Token(1000+i), fmt.Sprint(i)))
	}
	l.add(of(5000, "a"))
	if len(l.Reasons) != mostReasons || !slices.Contains(l.Reasons, Reason{"a", 31}) {
		t.Errorf("the reasons are %v", l.Reasons)
	}
}

// A record that may still come does not change the verdict. After some seconds it is missing.
func TestReportWaitsForALateRecord(t *testing.T) {
	a, b := agent("A").alive(100), agent("B").alive(100).held(1, 200, 210).held(2, 300, 310).alive(1100)
	records := append(a.records, b.records[0], b.records[1], b.records[3], b.records[4]) // one comes late
	auditor := newAudit()
	for i, r := range records {
		r.Position, r.Stored = uint64(i+1), wall(1200)
		auditor.Add(r)
	}
	for ms, want := range map[int]int{1300: 0, 11_100: 0, 11_300: 1} {
		if r := auditor.ReportAt(wall(ms)); r.RecordHoles.Count != want {
			t.Errorf("at %d ms it says\n%v", ms, r)
		}
	}
	late := b.records[2]
	late.Position, late.Stored = uint64(len(records)+1), wall(1300)
	auditor.Add(late)
	if r := auditor.ReportAt(wall(20_000)); r.RecordHoles.Count != 0 || r.Grants != 2 {
		t.Errorf("when it has come it says\n%v", r)
	}
}

// A report says from when on all is proven only if that is so.
func TestReportSaysSinceWhenAllIsProven(t *testing.T) {
	unproven := agent("A").held(1, 1000, 1010).missing(2).held(2, 1100, 1110).alive(2000)
	later := agent("B").held(1, 1050, 1060).of("b").held(2, 60_000, 60_010).alive(61_000).stop()
	overlap := agent("C").of("b").granted(1, 60_005).released(1, 60_100).stop()
	const since = "; all after 2026-03-01T14:00:0"
	for name, test := range map[string]struct {
		logs []*story
		want bool
	}{
		"Later":    {[]*story{unproven.alive(61_000).stop(), later}, true},
		"Violated": {[]*story{unproven, later, overlap}, false},
		"Last":     {[]*story{unproven, agent("B").held(1, 1120, 1130).stop()}, false},
	} {
		r := audited(recordsOf(test.logs))
		if got := strings.Contains(r.String(), since); got != test.want || r.Stores[0].Unproven == 0 {
			t.Errorf("%s: it says since when: %v, want %v\n%v", name, got, test.want, r)
		}
	}
}

// The holder is named with the process that it had then.
func TestReportNamesTheProcessOfAnEarlierLife(t *testing.T) {
	first := agent("A").granted(1, 1000).released(1, 9000).stop().next()
	first.edit(func(r *events.Record) { r.Process.Host = "host-2" })
	r := audited(recordsOf([]*story{first.stop(), agent("B").held(1, 5000, 5010).stop()}))
	if len(r.Violations.First) != 1 || r.Violations.First[0].First.Process.Host != "host-A" {
		t.Errorf("%v", r)
	}
}

// The second time of a range says its zone if the clock was set in between.
func TestRangeText(t *testing.T) {
	place, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	show.Zone = place
	defer func() { show.Zone = time.UTC }()
	for want, from := range map[string]time.Time{
		"from 2026-10-25T02:59:00.000+02:00 to 2026-10-25T02:01:00.000+01:00": time.Date(2026, 10, 25, 0, 59, 0, 0, time.UTC),
		"from 2026-10-25T03:59:00.000+01:00 to 04:01:00.000":                  time.Date(2026, 10, 25, 2, 59, 0, 0, time.UTC),
		"from 2026-10-25T23:59:00.000+01:00 to 2026-10-26T00:01:00.000+01:00": time.
			Date(2026, 10, 25, 22, 59, 0, 0, time.UTC),
	} {
		if got := show.Range(from, from.Add(2*time.Minute)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// One wrong record may contradict many others: the report stays short.
func TestReportIsShort(t *testing.T) {
	b := agent("B")
	for n := range 1000 {
		b.held(uint64(n+1), 2000+10*n, 2005+10*n)
	}
	r := audited(recordsOf([]*story{agent("A").granted(1, 1000).released(1, 20000).returned(1, 20000).stop(), b.stop()}))
	if r.Verdict != Violated || r.Violations.Count != 1000 || len(r.Violations.First) != 1 ||
		r.Violations.First[0].More != 999 {
		t.Fatalf("%v", r)
	}
	if text := r.String(); len(text) > 3000 || strings.Contains(text, "violation: and") {
		t.Errorf("%d bytes:\n%s", len(text), text)
	}
}
