package audit

import (
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// Each of these logs could hide an overlap, or has one without a cause.
func TestAuditIsNotDeceived(t *testing.T) {
	aHolds := func(from, until int) *story {
		return agent("A").alive(100).held(1, from, until).alive(until + 1000).stop()
	}
	overlapped := func(before func(a *story)) []events.Record {
		a := agent("A")
		before(a)
		a.granted(1, 1000).released(1, 29000).returned(1, 29001).stop()
		return append(a.records, agent("B").held(1, 2000, 28000).stop().records...)
	}
	zombie := agent("B").alive(100)
	place := zombie.seq
	zombie.next().stop()
	zombie.epoch, zombie.seq = 1, place
	zombie.granted(1, 40000).released(1, 69000).returned(1, 69001).stop()

	early := agent("A").alive(100).granted(1, 1000).renewed(1, 595000).released(1, 601000)
	// No clock is corrected so fast.
	early.edit(func(r *events.Record) { r.Until, r.Confirmed = clock(480000), clock(475000) })
	early.stop()

	for name, test := range map[string]struct {
		log  []events.Record
		want Verdict
	}{
		"a process goes on publishing after the next one has stopped": {
			append(slices.Clone(zombie.records), aHolds(50000, 60000).records...), Incomplete,
		},
		"an agent died before it told of any time of the store": {
			append(agent("B").records, aHolds(3000, 4000).records...), Incomplete,
		},
		"a new name of the store is no step of its clock": {
			overlapped(func(a *story) {
				a.reset(lockagent.Reset{
					From: "i1", To: "i1", Reason: "other identity", After: clock(500), Before: clock(500), Store: "old",
				})
			}), Violated,
		},
		"a step of the clock beside an overlap is no excuse, and nothing is proven": {
			overlapped(func(a *story) { a.reset(lockagent.Reset{After: clock(500), Before: clock(600)}) }), Incomplete,
		},
		"a step of the clock explains no number of grants that jumps": {
			agent("A").reset(lockagent.Reset{After: clock(500), Before: clock(600)}).granted(1, 1000).reentered(1, 1100).
				edit(func(r *events.Record) { r.Count = 5 }).released(1, 1200).returned(1, 1201).stop().records, Violated,
		},
		"an end is told for earlier than it was": {
			append(early.records, agent("B").alive(100).held(1, 481000, 482000).stop().records...), Violated,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if r := audited(test.log); r.Verdict != test.want {
				t.Errorf("%s, want %s\n%v", r.Verdict, test.want, r)
			}
		})
	}
}

// Records are missing in two places. A hold may have gone on between them, and the log has nothing of it. The agent
// tells the sum of its holds. If that is the sum of those which the log has, or of all these but one, there was none.
func TestAuditOfAHoldBetweenTwoHoles(t *testing.T) {
	for name, test := range map[string]struct {
		early       func(a *story) // up to 6 s
		count       int
		other       uint64         // by how much the sum is that of other holds
		late        func(a *story) // after 95 s
		verdict     Verdict
		found, says string
	}{
		"ALongHoldGoesOn": {
			func(a *story) { a.granted(1, 1000).missing(2) }, 1, 0,
			func(a *story) { a.missing(2) },
			Incomplete, "missing: 2, open: 1, unproven: 1", "",
		},
		"AnotherOneHasItsPlace": {
			func(a *story) { a.granted(1, 1000).missing(2) }, 1, 1,
			func(a *story) { a.missing(2) },
			Incomplete, "missing: 2, open: 1, unproven: 2", "for its records 15 to 16 are missing",
		},
		"AnotherOneHasItsPlaceInACrash": {
			func(a *story) { a.granted(1, 1000).missing(2) }, 1, 1,
			nil,
			Incomplete, "missing: 1, not stopped: 1, open: 1, unproven: 2", "it had holds of which the log does not tell",
		},
		"ThereIsOneMore": {
			func(a *story) { a.granted(1, 1000).missing(1) }, 2, 1,
			func(a *story) { a.missing(2) },
			Incomplete, "missing: 2, open: 1, unproven: 2", "for its records 14 to 15 are missing",
		},
		"OfSeveralOnlyOneGoesOn": { // the end of the other is missing, in the first hole
			func(a *story) {
				a.of("m").granted(2, 1000).of("l").granted(1, 1100).missing(1)
				a.holds[a.latest[2]].grants = 0
				a.alive(3000).missing(2)
			}, 1, 0,
			func(a *story) { a.missing(1) },
			Incomplete, "missing: 3, open: 2, unproven: 2", "",
		},
		"OfSeveralNoneGoesOn": {
			func(a *story) {
				a.of("m").granted(2, 1000).of("l").granted(1, 1100).missing(2)
				clear(a.holds)
				a.alive(3000).missing(2)
			}, 0, 0,
			func(a *story) { a.missing(1) },
			Incomplete, "missing: 3, open: 2, unproven: 2", "",
		},
		"TheAgentCrashes": {
			func(a *story) { a.granted(1, 1000).missing(1) }, 1, 0,
			nil,
			Incomplete, "missing: 1, not stopped: 1, open: 1, unproven: 1", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := agent("A").of("l").leasing(time.Hour), agent("B").of("b")
			test.early(a)
			s := new(tape).add(1000, a, b)
			for ms := 6000; ms <= 96_000; ms += 10_000 {
				s.add(ms, a.alive(ms).edit(func(r *events.Record) { r.Count, r.Sum = test.count, r.Sum+test.other }), b.alive(ms))
				if ms == 36_000 {
					b.held(1, 40_000, 41_000)
				}
			}
			if test.late != nil {
				test.late(a)
				s.add(99_000, a.alive(97_000).stop())
			}
			s.live(106_000, 206_000, b).add(207_000, b.stop())
			s.want(t, test.verdict, test.found, test.says)
		})
	}
}

// An agent counts as dead, and may have had a hold since long ago. Then it goes on after all.
func TestAuditNamesForGoodWhatItJudgedTooEarly(t *testing.T) {
	a, b := agent("A").of("l").leasing(time.Hour), agent("B").of("b")
	s := new(tape).add(1000, a.granted(1, 1000).missing(2), b)
	// It has another hold, of which the log has nothing.
	tell := func(ms int) { a.alive(ms).edit(func(r *events.Record) { r.Sum++ }) }
	for ms := 6000; ms <= 196_000; ms += 10_000 {
		if tell(ms); ms < 100_000 {
			s.add(ms, a)
		}
		if ms == 36_000 {
			b.held(1, 40_000, 41_000)
		}
		s.add(ms, b.alive(ms))
	}
	dead := s.read(newAudit())
	wantReport(t, dead.ReportAt(wall(196_000)), Incomplete, "missing: 1, not stopped: 1, open: 1, unproven: 1",
		"it had holds of which the log does not tell")
	acknowledged := resumed(t, dead)
	acknowledged.Acknowledge(wall(196_000), Acknowledgement{})
	s.records = nil
	s.add(200_000, b.stop(), a.stop())
	wantReport(t, s.read(resumed(t, dead)).Report(), Incomplete,
		"late: 1, missing: 1, not stopped: 1, open: 1, unproven: 2", "")
	if r := s.read(acknowledged).Report(); r.JudgedEarly.Count != 0 {
		t.Errorf("%v", r)
	}

	// It goes on in another process: then the end of its log stays lost.
	s.records, s.position = s.records[:1], dead.Position()+1
	a.seq = 14
	s.add(200_000, a.next().alive(200_000).stop())
	wantReport(t, s.read(dead).Report(), Incomplete, "judgedEarly: 1, missing: 1, not stopped: 2, open: 1, unproven: 2",
		"")
}

// An agent has a hold from before the beginning of the log. It crashes, so nothing ever tells of the hold.
func TestAuditOfAHoldFromBeforeTheBeginning(t *testing.T) {
	for name, test := range map[string]struct {
		count   int
		told    bool // that it goes on
		verdict Verdict
		found   string
	}{
		"OneHold":           {1, false, Incomplete, "not stopped: 1, unproven: 1"},
		"OneHoldThatIsTold": {1, true, Proven, "not judged: 1, not stopped: 1"},
		"NoHold":            {0, false, Proven, "not stopped: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := agent("A").of("a").granted(1, 1000), agent("B").of("b")
			s := new(tape).lose(1000, a, b)
			for ms := 2000; ms <= 142_000; ms += 10_000 {
				if test.told && ms == 32_000 {
					s.add(ms, a.holding(1, ms))
				}
				if a.alive(ms); test.count == 0 {
					a.edit(func(r *events.Record) { r.Count, r.Sum = 0, 0 })
				}
				s.add(ms, a, b.alive(ms))
				if ms == 42_000 {
					b.held(1, 45_000, 46_000)
				}
			}
			s.live(152_000, 252_000, b).add(253_000, b.stop())
			s.want(t, test.verdict, test.found, "")
		})
	}
}
