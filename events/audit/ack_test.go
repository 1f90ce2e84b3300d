package audit

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// What was found and accepted is told in every report. The verdict is about the rest.
func TestAcknowledge(t *testing.T) {
	a, b, c := agent("A"), agent("B").of("b"), agent("C")
	s := new(tape).add(0, a, b, c).live(1000, 21_000, a, b, c) // C crashes
	s.add(30_000, a.held(1, 25_000, 26_000), b.of("a").held(1, 25_500, 27_000).of("b"))
	s.live(31_000, 151_000, a, b)
	auditor := s.read(newAudit())
	now := wall(152_000)
	before := auditor.ReportAt(now)
	wantReport(t, before, Violated, "not stopped: 1, overlap: 1, unproven: 1", "")
	if !auditor.Acknowledge(now,
		Acknowledgement{By: "olga@audit", Time: wall(160_000), Text: "the machine of C was lost"}) {
		t.Error("there was nothing")
	}
	after := resumed(t, auditor).ReportAt(now)
	wantReport(t, after, Proven, "", "acknowledged: by olga@audit at 2026-03-01T14:02:40.000Z, up to position 40: "+
		"1 violation, 1 agent did not stop, 1 hold is not proven (the machine of C was lost)\n"+
		"  violation: \"a\": two holds overlapped")
	if k := after.Acknowledged; len(k) != 1 || k[0].Verdict != Violated || k[0].Violations.Count != 1 || k[0].Tails != 1 ||
		k[0].Unproven != 1 || after.Violations.Count != 0 {
		t.Errorf("%+v", k)
	}
	if auditor.Acknowledge(now, Acknowledgement{}) {
		t.Error("it was acknowledged twice")
	}

	// What comes later counts.
	a.held(2, 155_000, 156_000)
	s.add(157_000, a, b.of("a").held(2, 155_500, 157_000)).live(161_000, 201_000, a, b).add(202_000, a.stop(), b.stop())
	rest := resumed(t, auditor)
	wantReport(t, s.read(rest).Report(), Violated, "overlap: 1", "acknowledged: by olga@audit")

	// C comes back: that it had crashed was acknowledged, and that it is late was not.
	s.records = nil
	wantReport(t, s.add(210_000, c.alive(210_000).stop()).read(rest).Report(), Violated, "late: 1, overlap: 1", "")
}

// Nobody lives any more. What somebody tells later of that time is not proven.
func TestAcknowledgeTheEndOfALog(t *testing.T) {
	s := new(tape)
	a, b, c := agent("A").alive(1000).held(1, 2000, 3000), agent("B").alive(500).granted(1, 5000),
		agent("C").of("c").alive(1000)
	auditor := s.add(6000, a, b, c).read(newAudit())
	wantReport(t, auditor.Report(), Incomplete, "not stopped: 3, open: 1, unproven: 2", "")
	auditor.Acknowledge(time.Time{}, Acknowledgement{})
	wantReport(t, auditor.Report(), Proven, "open: 1", "")
	s.records = nil
	s.add(30_000, c.of("a").held(1, 2500, 2600), b.renewed(1, 30_000).released(1, 31_000).stop(), a.stop(), c.stop())
	wantReport(t, s.read(auditor).Report(), Incomplete, "late: 3, unproven: 2", "the log told of it when all up to")
}

// The names of locks are counted up to a number.
func TestManyLocks(t *testing.T) {
	a := agent("A")
	for n := range mostNames + 1 {
		a.of(lockagent.Name("orders/"+strings.Repeat("x", n%7)+time.Duration(n).String())).held(uint64(n+1), 100*n, 100*n+50)
	}
	records := a.stop().records
	if r := audited(records); r.Locks != mostNames || !r.MoreLocks ||
		!strings.Contains(r.String(), "on 10000 or more locks") {
		t.Errorf("%.300v", r)
	}
	b := agent("B").at("t").of("another").held(1, 1, 2)
	if r := audited(append(slices.Clone(records), b.records...)); r.Locks != mostNames+1 || !r.MoreLocks {
		t.Errorf("two stores: %.300v", r)
	}
	if r := audited(append(records, b.reset(lockagent.Reset{Store: "s"}).records...)); r.Locks != mostNames ||
		!r.MoreLocks {
		t.Errorf("two stores that are one: %.300v", r)
	}
	if r := audited(agent("A").held(1, 1, 2).stop().records); r.Locks != 1 || r.MoreLocks {
		t.Errorf("%v", r)
	}
}

// Whatever an audit finds can be accepted, and then the verdict is about the rest.
func TestAcknowledgeEachKind(t *testing.T) {
	good := newAudit()
	for _, r := range agent("A").held(1, 1000, 2000).stop().records {
		good.Add(r)
	}
	for i, k := range findingKinds {
		a := resumed(t, good)
		a.log = nil // the log does not have what the audit is said to have found
		switch of := k.of(&a.found.Report).(type) {
		case *bare:
			*of = 7
		default:
			list := reflect.ValueOf(of).Elem()
			list.FieldByName("Count").SetInt(7)
			first := list.FieldByName("First")
			first.Set(reflect.MakeSlice(first.Type(), 1, 1))
		}
		before := a.Report()
		if want := cmp.Or(k.verdict, Proven); before.Verdict != want || a.clone().found.verdict() != want {
			t.Errorf("%s: %s, want %s", k.many, before.Verdict, want)
		}
		if text := before.String(); !strings.Contains(text, "7 "+k.many) &&
			(k.title == "" || !strings.Contains(text, k.title)) {
			t.Errorf("it does not tell of %s:\n%v", k.many, before)
		}
		if !a.Acknowledge(time.Time{}, Acknowledgement{By: "olga"}) {
			t.Errorf("kind %d: there was nothing", i)
			continue
		}
		after := resumed(t, a).Report()
		if after.Verdict != Proven || k.of(&after).count() > 0 || !strings.Contains(after.String(), "position 0: 7 "+k.many) {
			t.Errorf("%s: %v", k.many, after)
		}
	}
}

// Each field of a report that has findings is one of the kinds.
func TestFindingKindsAreComplete(t *testing.T) {
	others := []string{"OpenHolds", "NotJudged", "Resets", "Graces"}
	known := make(map[any]bool)
	var r Report
	for i := range findingKinds {
		known[findingKinds[i].of(&r)] = true
	}
	fields := reflect.ValueOf(&r).Elem()
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		if _, list := fields.Field(i).Addr().Interface().(tallied); list && !known[fields.Field(i).Addr().Interface()] &&
			!slices.Contains(others, name) {
			t.Errorf("%s is of no kind", name)
		}
	}
}
