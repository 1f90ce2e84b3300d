package events

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/lockagent/lockagent"
)

// opinionOf is the second opinion on a log.
func opinionOf(log []Record) Opinion {
	var x Independent
	for i := range log {
		_ = x.Visit(&log[i], nil)
	}
	return x.Opinion()
}

// agree panics if the second opinion on a log contradicts a report. All tests that audit a list of records go
// through it. It returns the report.
func agree(log []Record, r Report) Report {
	o := opinionOf(log)
	if o.Disagrees(&r) || o.Verdict == Violated && r.Verdict == Proven {
		panic(fmt.Sprintf("the second opinion is %+v\nthe report is %v\nof %+v", o, r, log))
	}
	return r
}

// The second opinion judges a log that is whole, and names what keeps it from that.
func TestIndependent(t *testing.T) {
	a := func() *story { return agent("A").granted(1, 1000).released(1, 2000).returned(1, 2001) }
	early := agent("A").held(1, 1000, 5000).edit(func(r *Record) { r.Returned = clock(2000) }).stop()
	b := func(at int) *story { return agent("B").held(1, at, at+500).stop() }
	for name, test := range map[string]struct {
		stories []*story
		verdict Verdict
		why     string
		pairs   int
	}{
		"Whole":   {[]*story{a().stop(), b(3000)}, Proven, "", 0},
		"Overlap": {[]*story{a().stop(), b(1500)}, Violated, "", 1},
		"AnEndThatIsTooEarly": { // and hides an overlap
			[]*story{early, b(3000)}, Violated, "", 1,
		},
		"AnEndThatIsTooEarlyAndHidesNothing": {
			[]*story{early, b(6000)},
			NoVerdict,
			"record A:1:2 (held) is in doubt: its tenure was over before the time for which it was held", 0,
		},
		"TwoTenuresOfAnAgent": {[]*story{agent("A").held(1, 1000, 5000).held(2, 3000, 3500).stop()}, Violated, "", 1},
		"NoStop": {
			[]*story{a(), b(3000)},
			NoVerdict, "record A:1:4 is the last of its agent, which did not stop", 0,
		},
		"Hole": {
			[]*story{a().missing(1).stop(), b(1500)},
			NoVerdict, "before record A:1:6 something is missing, or it is there twice", 0,
		},
		"Reset": {
			[]*story{a().reset(lockagent.Reset{From: "x", To: "y"}).stop(), b(3000)},
			NoVerdict, "record A:1:5 tells that the store was reset, or that its clock was set", 0,
		},
		"Unknown": {
			[]*story{a().edit(func(r *Record) { r.Raw = "{}" }).stop(), b(3000)},
			NoVerdict, "record A:1:4 has something that this program does not know", 0,
		},
		"Nothing": {nil, NoVerdict, "there are no records", 0},
		"AHiddenHold": {
			[]*story{a().alive(3000).edit(func(r *Record) { r.Count = 1 }).stop()},
			NoVerdict, "record A:1:5 (alive) is in doubt: it counts 1 holds, and the log has 0", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if o := opinionOf(recordsOf(test.stories)); o.Verdict != test.verdict || o.Why != test.why || len(o.Pairs) != test.pairs {
				t.Errorf("%+v", o)
			}
		})
	}
}

// The second opinion has a verdict on true histories in which nothing happened, and finds what evil stores do.
func TestIndependentHasVerdicts(t *testing.T) {
	n := make(map[Verdict]int)
	seeds(t, 30, func(_ uint64, r *rand.Rand) { n[opinionOf(drawWorld(r, evils).stream).Verdict]++ })
	seeds(t, 30, func(_ uint64, r *rand.Rand) { n[opinionOf(calmWorld(r).stream).Verdict]++ })
	t.Log(n)
	if n[Proven] < 25 || n[Violated] == 0 || n[NoVerdict] == 0 {
		t.Errorf("there are too few verdicts of one kind: %v", n)
	}
}
