package audit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/internal/logtest"
)

// drawWorld is any history: of stores that are right, or wrong.
func drawWorld(r *rand.Rand, evils evil) *world {
	some := func(of int) bool { return r.IntN(of) == 0 }
	cfg := worldConfig{
		length: 1000 * (20 + r.IntN(60)), crashes: some(3), breaks: some(3), pauses: some(4), outages: some(3),
		stores:  1 + r.IntN(2),
		resumes: some(3), mixed: some(2),
	}
	switch r.IntN(6) {
	case 0, 1:
		cfg.resets, cfg.grace, cfg.hasty = true, some(2), some(3)
	case 2:
		cfg.steps = true
	case 3:
		cfg.late, cfg.stores = true, 1
	}
	if evils > 0 {
		cfg.evil = 1 + evil(r.IntN(int(evils)-1))
	}
	return newWorld(r, cfg)
}

// calmWorld is a history without anything that leaves a mark on a verdict.
func calmWorld(r *rand.Rand) *world {
	return newWorld(r, worldConfig{length: 1000 * (20 + r.IntN(40)), stores: 1 + r.IntN(2)})
}

// closed is audited for a log that nothing is added to. It is much faster.
func closed(log []events.Record) Report {
	a := newAudit()
	for _, r := range log {
		a.Add(r)
	}
	return a.closed()
}

// wrong is what is wrong with the verdict on a log whose records are all true, though some may be
// missing, or nothing.
func (w *world) wrong(log []events.Record, r Report) string {
	if why := w.unsound(log, r); why != "" {
		return why
	}
	proves := r.Verdict == Proven || r.Verdict == Explained
	if n := logtest.MissingNumbers(log); proves && n > 0 {
		return fmt.Sprintf("%s, though %d records are missing", r.Verdict, n)
	}
	if w.had["evil"] {
		return ""
	}
	bad := make(map[tenureKey]bool)
	for _, p := range badPairs(w.holds) {
		bad[tenureKey{p.first.agent, p.first.tenure}], bad[tenureKey{p.second.agent, p.second.tenure}] = true, true
	}
	stepped := w.unnoticed(log)
	for i := range r.Violations.First {
		v := &r.Violations.First[i]
		if stepped[v.First.Store] {
			continue
		}
		first, second := bad[tenureKey{v.First.Agent, v.First.Tenure}], bad[tenureKey{v.Second.Agent, v.Second.Tenure}]
		if v.Second == (fold.Hold{}) || !first || !second {
			return "violated, though nothing was wrong: " + v.String()
		}
	}
	return ""
}

// wrongOfAll is as wrong, for a log that has all that happened.
func (w *world) wrongOfAll(log []events.Record, r Report) string {
	if why := w.wrong(log, r); why != "" {
		return why
	}
	had := func(causes ...string) bool {
		return slices.ContainsFunc(causes, func(c string) bool { return w.had[c] })
	}
	switch {
	case r.Verdict == Violated && !had("crash", "late"):
		return "violated, though the stores were right, and the log has all that happened"
	case w.cfg.grace && !had("hasty") && excusedDespiteGrace(log, r):
		return "a reset explains an overlap, though the store waited for its agents"
	case r.Verdict == Explained && !had("reset", "break", "pause", "resume"):
		return "explained, though nothing happened"
	case r.Verdict == Incomplete && !had("crash", "left", "late", "reset", "step", "nameless", "late change",
		"granted before an end that is not known"):
		return "incomplete, though nothing is missing"
	// A life may leave nothing.
	case r.Duplicates > 0 || slices.ContainsFunc(r.RecordHoles.First, func(g RecordHole) bool { return g.Lives == 0 }):
		return "something is missing, or comes twice"
	}
	return ""
}

// fails reports a verdict that is wrong, with a log as small as possible.
func fails(t *testing.T, seed uint64, what string, w *world, log []events.Record,
	wrong func(*world, []events.Record, Report) string,
) {
	t.Helper()
	small, rest := shrunk(w, log, func(w *world, log []events.Record) bool { return wrong(w, log, closed(log)) != "" })
	r := closed(rest)
	t.Errorf("seed %d, %s: %s\n%s%v", seed, what, wrong(small, rest, r), logText(small, rest), r)
}

// A true history is proven, or exactly what happened lowers the verdict.
func TestTrueHistories(t *testing.T) { trueHistories(t, 150) }

func trueHistories(t *testing.T, many int) {
	t.Helper()
	verdicts := make(map[Verdict]int)
	rests := 0
	seeds(t, many, func(seed uint64, r *rand.Rand) {
		w := drawWorld(r, sound)
		report := closed(w.stream)
		verdicts[report.Verdict]++
		rests += report.Rests
		if w.wrongOfAll(w.stream, report) != "" {
			fails(t, seed, "untouched", w, w.stream, (*world).wrongOfAll)
		}
	})
	t.Log(verdicts)
	if verdicts[Proven] == 0 || verdicts[Explained] == 0 || verdicts[Incomplete] == 0 || rests == 0 {
		t.Errorf("a verdict is missing, or a hold by rest; there are %d", rests)
	}
}

// If a store grants what is held, loses what it granted, or gives tokens that fall, no verdict hides it.
func TestHistoriesOfEvilStores(t *testing.T) { historiesOfEvilStores(t, 100) }

func historiesOfEvilStores(t *testing.T, many int) {
	t.Helper()
	verdicts, rests := make(map[Verdict]int), 0
	seeds(t, many, func(seed uint64, r *rand.Rand) {
		w := drawWorld(r, evils)
		report := closed(w.stream)
		rests += report.Rests
		if len(badPairs(w.holds)) > 0 {
			verdicts[report.Verdict]++
		}
		if w.wrong(w.stream, report) != "" {
			fails(t, seed, "untouched", w, w.stream, (*world).wrong)
		}
	})
	t.Log(verdicts)
	if verdicts[Violated] == 0 || rests == 0 {
		t.Errorf("none was violated, or no hold was granted by rest; there are %d", rests)
	}
}

// tally counts what became of the corruptions of one kind.
type tally struct{ caught, harmless int }

// Whatever is missing, and in whatever order the rest comes: what the audit proves is true.
func TestHistoriesInPieces(t *testing.T) { historiesInPieces(t, 20) }

func historiesInPieces(t *testing.T, many int) {
	t.Helper()
	all := slices.Concat(logtest.Removals, logtest.Repetitions, logtest.Disorders)
	tallies, rests := make([]tally, len(all)), 0
	seeds(t, many, func(seed uint64, r *rand.Rand) {
		w := drawWorld(r, []evil{sound, sound, evils}[r.IntN(3)])
		whole := closed(w.stream)
		rests += whole.Rests
		for i, c := range all {
			log := c.Do(r, slices.Clone(w.stream))
			if i >= len(logtest.Removals) || len(log) > 0 && log[0].Position > 1 && c.Name != logtest.Retirement {
				log = logtest.Renumbered(log)
			}
			report := closed(log)
			if w.wrong(log, report) != "" {
				fails(t, seed, c.Name, w, log, (*world).wrong)
			}
			// What comes twice is a sign of life of an agent that was silent for long.
			again := i >= len(logtest.Removals) && i < len(logtest.Removals)+len(logtest.Repetitions)
			if again && report.Verdict != whole.Verdict && !w.had["late"] {
				t.Errorf("seed %d, %s: %s instead of %s", seed, c.Name, report.Verdict, whole.Verdict)
			}
			if report.Verdict == Proven || report.Verdict == whole.Verdict && i >= len(logtest.Removals) {
				tallies[i].harmless++
			} else {
				tallies[i].caught++
			}
		}
	})
	if rests == 0 {
		t.Error("no hold was granted by rest")
	}
	for i, c := range all {
		t.Logf("%s: %d caught, %d harmless", c.Name, tallies[i].caught, tallies[i].harmless)
		if err := logtest.FewCaught(c.Name, tallies[i].caught, tallies[i].caught+tallies[i].harmless); err != nil {
			t.Error(err)
		}
	}
}

// alterable are the worlds whose records are altered. Each has kinds of records that others do not have, and nothing
// that keeps its log from being proven or explained.
var alterable = []struct {
	cfg   worldConfig
	kinds []lockagent.EventKind
}{
	{
		worldConfig{stores: 2},
		[]lockagent.EventKind{
			lockagent.EventReentered, lockagent.EventRenewed, lockagent.EventPermits, lockagent.EventHolding,
		},
	},
	{
		worldConfig{waits: true},
		append([]lockagent.EventKind{lockagent.EventUnclaimed, lockagent.EventDropped}, logtest.Waits...),
	},
	{worldConfig{breaks: true, resumes: true}, []lockagent.EventKind{lockagent.EventBroken}},
	{worldConfig{resets: true}, []lockagent.EventKind{lockagent.EventStoreReset}},
	{
		worldConfig{resets: true, grace: true, hasty: true},
		[]lockagent.EventKind{lockagent.EventGraceBegan, lockagent.EventGraceEnded},
	},
}

// alterableWorld draws a world of a config whose log is proven or explained and has some kinds of records.
func alterableWorld(t *testing.T, r *rand.Rand, cfg worldConfig, kinds []lockagent.EventKind) (*world, Report) {
	t.Helper()
	for range 200 {
		cfg.length = 1000 * (20 + r.IntN(40))
		w := newWorld(r, cfg)
		missing := slices.ContainsFunc(kinds, func(k lockagent.EventKind) bool {
			return !slices.ContainsFunc(w.stream, func(x events.Record) bool { return x.Kind == k })
		})
		if missing {
			continue
		}
		if report := closed(w.stream); proves(report) {
			return w, report
		}
	}
	t.Fatalf("no world of %+v is proven or explained, and has %v", cfg, kinds)
	return nil, Report{}
}

func proves(r Report) bool { return r.Verdict == Proven || r.Verdict == Explained }

// alteredTable counts what became of the alterations of each field of each kind of record.
type alteredTable map[alteredField]*alteredTally

type alteredField struct {
	field int // of logtest.Alterations
	kind  lockagent.EventKind
}

// alteredTally counts those that are caught. Of the others some are seen: the report tells something else than before.
// If not, the report is the same, byte for byte.
type alteredTally struct{ caught, seen, same int }

func (t alteredTable) add(of alteredField, report Report, before string) {
	row := t[of]
	if row == nil {
		row = new(alteredTally)
		t[of] = row
	}
	switch {
	case !proves(report):
		row.caught++
	case report.String() != before:
		row.seen++
	default:
		row.same++
	}
}

// field are the rows of a field as text, and their sum without the records that no verdict rests on.
func (t alteredTable) field(i int) (text string, sum tally) {
	c := logtest.Alterations[i]
	for _, kind := range lockagent.EventKinds() {
		row, waits := t[alteredField{i, kind}], slices.Contains(logtest.Waits, kind)
		if row == nil {
			continue
		}
		text += fmt.Sprintf("\n%-22s %-13v %4d caught %4d seen %4d the same", c.Name, kind, row.caught, row.seen, row.same)
		switch {
		case row.seen+row.same == 0:
		case waits:
			text += ": no verdict rests on a record of that kind"
		default:
			text += ": " + c.Harmless
		}
		if !waits {
			sum.caught, sum.harmless = sum.caught+row.caught, sum.harmless+row.seen+row.same
		}
	}
	return text + fmt.Sprintf("\n%-22s %d of %d caught", c.Name, sum.caught, sum.caught+sum.harmless), sum
}

// One field of one record that is changed is found, or what the log then says is another history in which
// no two holds overlapped. That is so for each kind of record.
func TestAlteredHistories(t *testing.T) { alteredHistories(t, 1) }

func alteredHistories(t *testing.T, many int) {
	t.Helper()
	table := make(alteredTable)
	seeds(t, many, func(seed uint64, r *rand.Rand) {
		for _, of := range alterable {
			w, whole := alterableWorld(t, r, of.cfg, of.kinds)
			alter(t, seed, r, w, whole.String(), table)
		}
	})
	var text strings.Builder
	for i, c := range logtest.Alterations {
		rows, sum := table.field(i)
		text.WriteString(rows)
		if err := logtest.FewCaught(c.Name, sum.caught, sum.caught+sum.harmless); err != nil {
			t.Error(err)
		}
	}
	t.Log(text.String())
	tried := make(map[lockagent.EventKind]bool)
	for of := range table {
		tried[of.kind] = true
	}
	for _, kind := range lockagent.EventKinds() {
		if !tried[kind] {
			t.Errorf("no record of the kind %v was altered", kind)
		}
	}
}

// alter changes each field of one record of each kind, one after the other. told is the report before.
func alter(t *testing.T, seed uint64, r *rand.Rand, w *world, told string, table alteredTable) {
	t.Helper()
	wrong := func(_ *world, log []events.Record, r Report) string {
		if n := logtest.MissingNumbers(log); n > 0 && proves(r) {
			return fmt.Sprintf("%s, but %d records are missing", r.Verdict, n)
		}
		return ""
	}
	log, kinds := w.stream, make(map[lockagent.EventKind][]int)
	for i := range log {
		kinds[log[i].Kind] = append(kinds[log[i].Kind], i)
	}
	for i, c := range logtest.Alterations {
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			x := &log[kinds[kind][r.IntN(len(kinds[kind]))]]
			before := *x
			if !c.Do(r, x) || *x == before {
				*x = before
				continue
			}
			report := closed(log)
			if wrong(w, log, report) != "" {
				fails(t, seed, fmt.Sprintf("%s of %v", c.Name, kind), w, log, wrong)
			}
			*x = before
			table.add(alteredField{i, kind}, report, told)
			switch {
			case slices.Contains(logtest.Waits, kind) && c.Harmless != "" && report.String() != told:
				t.Errorf("seed %d: %s of %v is changed, and the report says\n%v", seed, c.Name, kind, report)
			case proves(report) && c.Harmless == "", !proves(report) && c.Harmless == logtest.NeverRead:
				t.Errorf("seed %d: %s of %v is changed: %s\n%+v", seed, c.Name, kind, report.Verdict, before)
			}
		}
	}
}

// What an audit says does not depend on when it has judged what, nor on a checkpoint in between.
func TestResumedAudit(t *testing.T) { resumedAudit(t, 6) }

func resumedAudit(t *testing.T, many int) {
	t.Helper()
	seeds(t, many, func(seed uint64, r *rand.Rand) {
		log := drawWorld(r, []evil{sound, evils}[r.IntN(2)]).stream
		if r.IntN(2) == 0 { // holes go through a checkpoint as well
			i := r.IntN(len(log))
			log = slices.Delete(log, i, i+1)
		}
		whole, parts := newAudit(), newAudit()
		for i, x := range log {
			whole.Add(x)
			if r.IntN(40) == 0 {
				parts = parts.resumed(t)
				if i > 0 {
					parts.Add(log[i-1]) // the message is read once more
				}
			}
			parts.Add(x)
			if r.IntN(200) == 0 {
				whole.Acknowledge(x.Stored, Acknowledgement{By: "olga"})
				parts.Acknowledge(x.Stored, Acknowledgement{By: "olga"})
			}
			if i%100 == 0 {
				if a, b := whole.ReportAt(x.Stored), parts.ReportAt(x.Stored); !reflect.DeepEqual(a, b) {
					t.Fatalf("seed %d, at %d\n%v\nwith checkpoints\n%v", seed, i, a, b)
				}
			}
		}
		a, b := whole.Report(), parts.Report()
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: %v\nwith checkpoints\n%v", seed, a, b)
		}
		if c := whole.Report(); !reflect.DeepEqual(a, c) {
			t.Fatalf("seed %d: %v\nagain\n%v", seed, a, c)
		}
	})
}

// An audit that judges while it reads says the same as one that reads everything first.
func TestJudgedWhileRead(t *testing.T) { judgedWhileRead(t, 50) }

func judgedWhileRead(t *testing.T, many int) {
	t.Helper()
	seeds(t, many, func(seed uint64, r *rand.Rand) {
		w := drawWorld(r, sound)
		a := closed(w.stream)
		for i := range w.stream {
			w.stream[i].Position = 0
		}
		b := closed(w.stream)
		// The order of a log tells when an agent began that died before it told of a time.
		same := a.Verdict == b.Verdict && a.Unproven.Count == b.Unproven.Count
		switch {
		case w.had["step"]:
			return // without an order, a time may be that of the clock before or since
		case w.had["late change"] && a.Verdict == Incomplete:
			return // so is the number of permits
		case w.had["late"] && (a.Verdict == Incomplete || a.Verdict == Violated):
			return // what is judged for good is judged without those that were silent for long
		case w.had["reset"] && slices.ContainsFunc(a.Unproven.First, func(u Unproven) bool {
			return strings.Contains(u.Why, "no record tells of a reset")
		}):
			return // the reset was told of when the hold had been judged
		}
		if !same && (a.Tails.Count == 0 || b.Verdict != Incomplete) || a.Explained.Count > 0 != (b.Explained.Count > 0) ||
			a.Tails.Count != b.Tails.Count {
			t.Fatalf("seed %d: %s %q\n%s %q\n%v\n%v", seed, a.Verdict, findingsOf(a), b.Verdict, findingsOf(b), a, b)
		}
	})
}
