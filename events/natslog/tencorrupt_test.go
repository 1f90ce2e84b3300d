package natslog

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/internal/logtest"
)

// lies are alterations of a proven log that contradict it, one or more for each kind of violation. Each
// gets a record and the end of the hold of the same lock that came before, by the tokens.
var lies = []struct {
	name string
	kind audit.ViolationKind
	fits func(r, before *events.Record) bool
	do   func(r, before *events.Record)
}{
	{
		"a grant while another agent has the lock", audit.Overlap,
		func(r, before *events.Record) bool {
			return byStore(r) && before.Agent != r.Agent && before.Held > 2*time.Second
		},
		func(r, before *events.Record) { r.StoreTime = before.Until - 1_000_000 },
	},
	{
		"an end after the next grant", audit.Overlap,
		func(r, before *events.Record) bool {
			return byStore(r) && before.Kind == lockagent.EventHeld && before.Returned != 0 && before.Agent != r.Agent &&
				before.Lease > 20*time.Second
		},
		func(r, before *events.Record) {
			before.Until, before.Returned = r.StoreTime+1_000_000, 0
			before.Held = before.Until.Sub(before.StoreTime)
		},
	},
	{
		"a token of an earlier hold", audit.TokenRepeated,
		func(r, before *events.Record) bool {
			return byStore(r) && r.Kind == lockagent.EventHeld && before.Agent != r.Agent
		},
		func(r, before *events.Record) { r.Token = before.Token },
	},
	{
		"a token below that of an earlier hold", audit.TokenFell,
		func(r, before *events.Record) bool { return byStore(r) && r.Kind == lockagent.EventHeld },
		func(r, before *events.Record) { r.Token = before.Token - 1 },
	},
	{
		"an end long after the lease", audit.Outlived,
		func(r, _ *events.Record) bool { return r.Kind == lockagent.EventReleased && r.Count == 0 },
		func(r, _ *events.Record) { r.Until, r.Returned = r.Confirmed.Add(r.Lease+time.Second), 0 },
	},
	{
		"a re-entry into a hold that is over", audit.StrayReentry,
		func(r, before *events.Record) bool { return r.Kind == lockagent.EventReentered },
		func(r, before *events.Record) { r.Tenure, r.Token = r.Tenure+1_000_000, r.Token+1 },
	},
	{
		"a hold that was longer than the time from its start to its end", audit.Contradiction,
		func(r, _ *events.Record) bool { return r.Kind == lockagent.EventReleased && r.Count == 0 },
		func(r, _ *events.Record) { r.Held += time.Hour },
	},
	{
		"one grant too many", audit.Contradiction,
		func(r, _ *events.Record) bool { return r.Kind == lockagent.EventReentered },
		func(r, _ *events.Record) { r.Count++ },
	},
}

func byStore(r *events.Record) bool {
	return (r.Kind == lockagent.EventGranted || r.Kind == lockagent.EventHeld) && r.How == lockagent.ByStore
}

// Each kind of lie in a log that was proven is found.
func TestLiesInTenMinutes(t *testing.T) {
	t.Parallel()
	log := orderlyMinutes(t)
	ends := make(map[lockagent.Name][]int) // by their tokens
	for i := range log {
		if r := &log[i]; r.Kind.EndsHold() && r.Count == 0 {
			ends[r.Lock] = append(ends[r.Lock], i)
		}
	}
	byToken := func(i int, token lockagent.Token) int { return cmp.Compare(log[i].Token, token) }
	for _, of := range ends {
		slices.SortFunc(of, func(i, j int) int { return byToken(i, log[j].Token) })
	}
	for _, lie := range lies {
		tried := 0
		for i := range log {
			r := &log[i]
			n, _ := slices.BinarySearchFunc(ends[r.Lock], r.Token, byToken)
			if n == 0 || tried == 1 || !lie.fits(r, &log[ends[r.Lock][n-1]]) {
				continue
			}
			tried++
			changed := slices.Clone(log)
			lie.do(&changed[i], &changed[ends[r.Lock][n-1]])
			report := reportOf(t, changed)
			if report.Verdict != audit.Violated ||
				!slices.ContainsFunc(report.Violations.First, func(v audit.Violation) bool { return v.Kind == lie.kind }) {
				t.Errorf("%s, record %d of %s is %v: %q\n%v", lie.name, r.Seq, r.Agent, r.Kind, report.Findings(), report)
			}
		}
		if tried == 0 {
			t.Errorf("there is no place for %s", lie.name)
		}
	}
}

// A second record of the same number is found, of each kind. The same record once more changes nothing.
func TestRepetitionsInTenMinutes(t *testing.T) {
	t.Parallel()
	kinds := make(map[lockagent.EventKind]bool)
	var again, altered []events.Record
	for _, r := range orderlyMinutes(t) {
		again, altered = append(again, r), append(altered, r)
		if !kinds[r.Kind] {
			kinds[r.Kind] = true
			again = append(again, r)
			r.Waited++
			altered = append(altered, r)
		}
	}
	report := reportOf(t, again)
	if report.Verdict != audit.Proven || report.Duplicates != len(kinds) {
		t.Errorf("%d records come twice: %v", len(kinds), report)
	}
	report = reportOf(t, altered)
	if report.Verdict != audit.Violated || report.Violations.Count != len(kinds) {
		t.Errorf("%d records come again with another content: %v", len(kinds), report)
	}
	for _, v := range report.Violations.First {
		if v.Kind != audit.Equivocation {
			t.Errorf("it is no equivocation: %v", v)
		}
	}
}

// Each kind of corruption is caught, or what is left is the log of another history that is possible, in
// which no two holds overlapped.
func TestCorruptedMinutes(t *testing.T) {
	t.Parallel()
	corrupted(t, history(t, 3*time.Minute, orderly), 1)
}

// corrupted corrupts a log that is proven, in each way so many times.
func corrupted(t *testing.T, whole []events.Record, tries int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	harmless := func(name string, log []events.Record, report audit.Report) bool {
		if report.Verdict != audit.Proven {
			return false
		}
		if n := logtest.MissingNumbers(log); n > 0 {
			t.Errorf("%s: proven, though %d records are missing", name, n)
		}
		return true
	}
	for i, c := range slices.Concat(logtest.Removals, logtest.Disorders) {
		caught := 0
		for range tries {
			log := c.Do(r, slices.Clone(whole))
			if i >= len(logtest.Removals) {
				log = logtest.Renumbered(log)
			}
			report := reportOf(t, log)
			if report.Verdict == audit.Violated {
				t.Errorf("%s: %v", c.Name, report)
			}
			if !harmless(c.Name, log, report) || report.Tails.Count+report.NotJudged.Count > 0 {
				caught++
			}
		}
		t.Logf("%s: %d of %d caught", c.Name, caught, tries)
		if err := logtest.FewCaught(c.Name, caught, tries); err != nil {
			t.Error(err)
		}
	}
	for _, c := range logtest.Alterations {
		caught, tried := 0, 0
		for range 100 {
			x := &whole[r.IntN(len(whole))]
			before := *x
			if tried == tries || !c.Do(r, x) || *x == before {
				*x = before
				continue
			}
			tried++
			if !harmless(c.Name, whole, reportOf(t, whole)) {
				caught++
			} else if c.Harmless == "" {
				t.Errorf("%s of %+v is changed, and that is not found", c.Name, before)
			}
			*x = before
		}
		t.Logf("%s: %d of %d caught", c.Name, caught, tried)
		if err := logtest.FewCaught(c.Name, caught, tried); err != nil {
			t.Error(err)
		}
	}
}
