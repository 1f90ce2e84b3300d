package audit

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// auditedWithin is the report on a stretch of time, from and until so many milliseconds after the beginning, or open if
// negative.
func auditedWithin(records []events.Record, from, until int) Report {
	a, stretch := New(), TimeRange{}
	if from >= 0 {
		stretch.From = wall(from)
	}
	if until >= 0 {
		stretch.Until = wall(until)
	}
	a.Within(stretch)
	for _, r := range records {
		a.Add(r)
	}
	return a.Report()
}

// What is wrong counts in the stretches of which it is a part, and in no others.
func TestAuditWithinAStretch(t *testing.T) {
	const none = -1
	overlap := func() []events.Record { // from 3 to 5 s
		return recordsOf([]*story{
			agent("A").held(1, 1000, 5000).held(2, 8000, 9000).stop(), agent("B").held(1, 3000, 7000).stop(),
		})
	}
	stepped := func() []events.Record { // the clock of the store was set afterwards
		return append(overlap(), recordsOf([]*story{agent("C").reset(setBy(1000, 20_000, 21_100)).stop()})...)
	}
	contradicted := func() []events.Record {
		return recordsOf([]*story{
			agent("A").held(1, 1000, 5000).edit(func(r *events.Record) { r.Returned = clock(2000) }).held(2, 8000, 9000).stop(),
		})
	}
	hole := func() []events.Record { // which A may have had a lock in, up to about 20 s
		s := agent("A").held(1, 1000, 2000).held(2, 8000, 9000).alive(10_000).held(3, 12_000, 13_000).alive(20_000).
			held(4, 50_000, 51_000).stop()
		log := recordsOf([]*story{s, agent("B").held(1, 40_000, 41_000).stop()})
		return slices.DeleteFunc(log, func(r events.Record) bool { return r.Agent == "A" && r.StoreTime == clock(12_000) })
	}
	crash := func() []events.Record {
		return recordsOf([]*story{
			agent("A").held(1, 1000, 2000).alive(10_000), agent("B").held(1, 4000, 5000).held(2, 60_000, 61_000).stop(),
		})
	}
	cutOff := func() []events.Record { // while both agents live
		return recordsOf([]*story{
			agent("A").held(1, 1000, 5000).alive(10_000), agent("B").of("b").held(1, 4000, 5000).alive(11_000),
		})
	}
	cutOffHeld := func() []events.Record { // while A has the lock
		return recordsOf([]*story{agent("A").granted(1, 1000).alive(10_000)})
	}
	stopped := func() []events.Record { // and A died long before
		b := agent("B").held(1, 60_000, 61_000)
		for ms := 70_000; ms <= 400_000; ms += 10_000 {
			b.alive(ms)
		}
		return recordsOf([]*story{agent("A").held(1, 1000, 2000).alive(10_000), b.stop()})
	}
	for name, test := range map[string]struct {
		log         []events.Record
		from, until int
		verdict     Verdict
		found       string
	}{
		"All":                  {overlap(), none, none, Violated, "overlap: 1"},
		"AroundIt":             {overlap(), 2000, 6000, Violated, "overlap: 1"},
		"ItsFirstMoment":       {overlap(), none, 3000, Violated, "overlap: 1"},
		"ItsLastMoment":        {overlap(), 5000, none, Violated, "overlap: 1"},
		"ItsMiddle":            {overlap(), 4000, 4100, Violated, "overlap: 1"},
		"BeforeIt":             {overlap(), none, 2900, Proven, ""},
		"BehindIt":             {overlap(), 5200, none, Proven, ""},
		"BeforeItIfClockSet":   {stepped(), none, 2900, Violated, "overlap: 1"},
		"BehindItIfClockSet":   {stepped(), 5200, none, Violated, "overlap: 1"},
		"Nothing":              {overlap(), 7500, 7600, Empty, ""},
		"NothingSoEarly":       {overlap(), none, 500, Empty, ""},
		"AContradictionCounts": {contradicted(), 7500, none, Violated, "contradiction: 1"},
		"TheHole":              {hole(), 11_000, 30_000, Incomplete, "missing: 1"},
		"BeforeTheHole":        {hole(), none, 5000, Proven, ""},
		"BehindTheHole":        {hole(), 39_000, none, Proven, ""},
		"TheCrash":             {crash(), 9000, 20_000, Empty, "not stopped: 1"},
		"BeforeTheCrash":       {crash(), none, 8000, Proven, ""},
		"BehindTheCrash":       {crash(), 59_000, none, Proven, "not stopped: 1"},
		"BeforeTheEnd":         {cutOff(), 3000, 8000, Proven, ""},
		"UpToTheEnd":           {cutOff(), 3000, 11_000, Proven, "not stopped: 2"},
		"BeyondTheEnd":         {cutOff(), 3000, 60_000, Incomplete, "not stopped: 2, uncovered: 1"},
		"BehindTheEnd":         {cutOff(), 60_000, 70_000, Incomplete, "not stopped: 2, uncovered: 1"},
		"SinceTheEnd":          {cutOff(), 12_000, none, Incomplete, "not stopped: 2, uncovered: 1"},
		"SinceBeforeTheEnd":    {cutOff(), 10_500, none, Empty, "not stopped: 2"},
		"HeldAtTheEnd":         {cutOffHeld(), 3000, 10_000, Proven, "not stopped: 1, open: 1"},
		"HeldBehindTheEnd":     {cutOffHeld(), 60_000, 70_000, Incomplete, "not stopped: 1, open: 1, uncovered: 1"},
		"BehindAllStops":       {overlap(), 60_000, 70_000, Empty, ""},
		"BehindTheLastStop":    {stopped(), 500_000, 600_000, Empty, "not stopped: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := auditedWithin(test.log, test.from, test.until)
			if found := strings.Join(findingsOf(r), ", "); r.Verdict != test.verdict || found != test.found {
				t.Errorf("%s with %s, want %s with %s\n%v", r.Verdict, found, test.verdict, test.found, r)
			}
			if r.Assumed != r.Tails.Count ||
				r.Assumed > 0 && (r.Verdict == Proven || r.Verdict == Empty) &&
					!strings.Contains(r.String(), "that did not stop lived no longer") {
				t.Errorf("%d deaths are assumed:\n%v", r.Assumed, r)
			}
		})
	}
}

// Two holds are judged with those of the stretch. The first began long before the stretch, and goes on in the stretch.
// The end of the second is told long after the stretch.
func TestHoldsThatReachIntoAStretch(t *testing.T) {
	for name, log := range map[string][]events.Record{
		"FromLongBefore": recordsOf([]*story{
			agent("A").leasing(time.Hour).granted(1, 1000).alive(10_000).alive(600_000).released(1, 700_000).
				returned(1, 700_001).stop(),
			agent("B").held(1, 602_000, 603_000).stop(),
		}),
		"ToldLongAfter": recordsOf([]*story{
			agent("A").leasing(time.Hour).granted(1, 601_000).alive(610_000).alive(2_000_000).released(1, 2_001_000).
				returned(1, 2_001_001).stop(),
			agent("B").held(1, 602_000, 603_000).stop(),
		}),
	} {
		t.Run(name, func(t *testing.T) {
			if r := auditedWithin(log, 600_000, 605_000); r.Verdict != Violated {
				t.Errorf("%s\n%v", r.Verdict, r)
			}
			if r := auditedWithin(log, 3_000_000, -1); r.Verdict != Empty {
				t.Errorf("later it is %s\n%v", r.Verdict, r)
			}
		})
	}
}

// The process of an owner did not run when its lease ended, and the clock of its machine is slow. By the clock of the
// store the owner believed in the stretch that it had the lock.
func TestAStretchInWhichAnOwnerBelieves(t *testing.T) {
	a := agent("A").granted(1, 1000).lost(lockagent.LostDeadline, 1, 60_000).stop()
	for i := range a.records {
		a.records[i].Time = a.records[i].Time.Add(-time.Hour)
	}
	log := recordsOf([]*story{a, agent("B").held(1, 40_000, 50_000).stop()})
	if r := auditedWithin(log, 45_000, 48_000); r.Verdict != Explained || r.Explained.Count != 1 {
		t.Errorf("%v", r)
	}
	if r := auditedWithin(log, 65_000, -1); r.Verdict != Empty {
		t.Errorf("later it is %v", r)
	}
}

// withRightClocks is the log of a world in which the clocks of all agents are right.
func (w *world) withRightClocks() []events.Record {
	log := slices.Clone(w.stream)
	for i := range log {
		log[i].Time = wall(w.when[identityOf(&log[i])])
	}
	return log
}

// Whatever the store did wrong, no stretch in which it did so is proven.
func TestStretchesOfHistories(t *testing.T) {
	verdicts, bad := make(map[Verdict]int), 0
	seeds(t, 60, func(seed uint64, r *rand.Rand) {
		w := drawWorld(r, []evil{sound, evils, evils}[r.IntN(3)])
		for i := range 4 {
			log := w.stream
			if i > 0 { // else the clocks of some agents are an hour off, and so little is outside
				log = w.withRightClocks()
			}
			from := r.IntN(w.now / 2)
			until := from + r.IntN(20_000)
			within := slices.DeleteFunc(badPairs(w.history(log)), func(p badPair) bool {
				began, ended := max(p.first.from, p.second.from), min(p.first.until, p.second.until)
				return p.what != "overlap" || began > until || ended < from
			})
			report := auditedWithin(log, from, until)
			if verdicts[report.Verdict]++; len(within) > 0 {
				bad++
			}
			if why := w.hides(within, log, report); why != "" {
				t.Errorf("seed %d, from %d to %d: %s\n%v", seed, from, until, why, report)
			}
		}
	})
	t.Log(verdicts, bad)
	if bad == 0 || verdicts[Violated] == 0 || verdicts[Proven] == 0 {
		t.Errorf("nothing was wrong in any stretch, or a verdict is missing: %v", verdicts)
	}
}

// A stretch that has all of a log says what is said without it. If it is longer than a log that breaks off, it says
// that as well.
func TestAStretchOfAllTheTime(t *testing.T) {
	longer := 0
	seeds(t, 20, func(seed uint64, r *rand.Rand) {
		w := drawWorld(r, evils)
		whole := auditedWithin(w.stream, -1, -1)
		for name, stretch := range map[string]Report{
			"From":  auditedWithin(w.stream, 0, -1),
			"Until": auditedWithin(w.stream, -1, 1_000_000_000),
		} {
			want := whole
			if stretch.Uncovered.Count > 0 && name == "Until" {
				longer++
				want.Uncovered = stretch.Uncovered
				want.Verdict = want.verdict()
			}
			if want.Verdict != stretch.Verdict || !reflect.DeepEqual(findingsOf(want), findingsOf(stretch)) {
				t.Errorf("seed %d: %s with %v, and %s it is %s with %v", seed, want.Verdict, findingsOf(want), name,
					stretch.Verdict, findingsOf(stretch))
			}
		}
	})
	if longer == 0 {
		t.Error("no log breaks off")
	}
}

// What of a stretch was not judged is told, and then the stretch is not proven.
func TestAStretchThatIsNotCovered(t *testing.T) {
	stream := func(stories ...*story) []events.Record {
		log := recordsOf(stories)
		slices.SortStableFunc(log, func(a, b events.Record) int { return a.Time.Compare(b.Time) })
		for i := range log {
			log[i].Position, log[i].Stored = uint64(i+1), log[i].Time
		}
		return log
	}
	log := stream(agent("A").held(1, 1000, 2000).alive(10_000).alive(20_000).alive(30_000),
		agent("B").held(1, 4000, 5000).alive(10_000).alive(20_000).alive(30_000))
	at := func(log []events.Record, from, until, now int) Report {
		a, stretch := New(), TimeRange{From: wall(from)}
		if until >= 0 {
			stretch.Until = wall(until)
		}
		a.Within(stretch)
		for _, r := range log {
			a.Add(r)
		}
		return a.ReportAt(wall(now))
	}
	if r := at(log, 500, 6000, 31_000); r.Verdict != Proven || r.Uncovered.Count != 0 {
		t.Errorf("%v", r)
	}
	if r := at(log, 500, 40_000, 41_000); r.Verdict != Incomplete || r.Uncovered.Count != 1 ||
		!strings.Contains(r.String(), "ask again in a while") {
		t.Errorf("%v", r)
	}
	if r := at(log, 35_000, -1, 36_000); r.Verdict != Incomplete || r.Uncovered.Count != 1 ||
		!strings.Contains(r.String(), "ask again in a while") {
		t.Errorf("%v", r)
	}
	if r := at(log, 500, -1, 36_000); r.Verdict != Proven || r.Uncovered.Count != 0 {
		t.Errorf("%v", r)
	}
	// The stream goes on, and has nothing of these agents. So they are dead.
	if r := at(log, 150_000, 160_000, 170_000); r.Verdict != Empty || r.Uncovered.Count != 0 || r.Assumed != 2 {
		t.Errorf("%v", r)
	}
	late := slices.DeleteFunc(slices.Clone(log), func(r events.Record) bool { return r.Position < 3 })
	if r := at(late, 500, 6000, 31_000); r.Verdict == Proven ||
		!strings.Contains(r.String(), "begins later than the time that was asked for") {
		t.Errorf("%v", r)
	}
}
