package audit

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// An agent counts as dead, and its hold is judged until its lease was over. Then the rest of its log comes.
func TestAuditOfAHoldThatWasJudged(t *testing.T) {
	for name, test := range map[string]struct {
		before, back func(a *story) // what A tells in time, and what it tells late
		in20s        func(b, c *story)
		at126s       func(b *story)
		verdict      Verdict
		found, says  string
	}{
		"NothingShowsThatItWentOn": { // it was perhaps over when the next one began
			func(a *story) { a.granted(1, 1000) },
			func(a *story) { a.reentered(1, 5000) },
			func(b, _ *story) { b.granted(1, 20_000) },
			func(b *story) { b.renewed(1, 115_000).released(1, 120_000) },
			Incomplete, "judgedEarly: 1, late: 1, not stopped: 2, unproven: 2",
			"the log does not have its end, and token 1772373620000000 was granted",
		},
		"ItWentOn": {
			func(a *story) { a.granted(1, 1000) },
			func(a *story) { a.renewed(1, 40_000).released(1, 60_000).returned(1, 60_001).alive(131_000).stop() },
			func(b, _ *story) { b.granted(1, 20_000) },
			func(b *story) { b.renewed(1, 115_000).released(1, 120_000) },
			Incomplete, "late: 1, not stopped: 1, unproven: 1", "",
		},
		"ItWasBroken": {
			func(a *story) { a.granted(1, 1000) },
			func(a *story) { a.renewed(1, 18_500).lost(lockagent.LostDenied, 1, 40_000).alive(131_000).stop() },
			func(b, c *story) { c.broke(19_000); b.granted(1, 20_000) },
			func(b *story) { b.renewed(1, 115_000).released(1, 120_000) },
			Incomplete, "explained: 1, late: 1, not stopped: 1, unproven: 1",
			"cause:  an operator (olga) broke the lock at 2026-03-01T14:00:19.000Z",
		},
		"TwoOfOneTenure": {
			func(a *story) { a.in(lockagent.Shared).granted(1, 1000).handedOff(1, 1100) },
			func(a *story) {
				a.renewed(1, 120_000).endedOf(lockagent.EventReleased, 0, 1, lockagent.Token(clock(1000)), 122_000).
					released(1, 123_000).returned(1, 123_001).alive(131_000).stop()
			},
			func(_, _ *story) {},
			func(b *story) { b.granted(1, 125_000).released(1, 126_000).returned(1, 126_001) },
			Incomplete, "late: 1, not stopped: 1, unproven: 1", "",
		},
		"OneOfTwoWasOverByThen": {
			func(a *story) { a.in(lockagent.Shared).granted(1, 1000).handedOff(1, 1100) },
			func(a *story) {
				a.endedOf(lockagent.EventReleased, 0, 1, lockagent.Token(clock(1000)), 9000).renewed(1, 120_000).
					released(1, 123_000).returned(1, 123_001).alive(131_000).stop()
			},
			func(_, _ *story) {},
			func(b *story) { b.granted(1, 125_000).released(1, 126_000).returned(1, 126_001) },
			Incomplete, "late: 1, not stopped: 1, unproven: 1", "",
		},
		"TheOtherOfTwoWentOn": {
			func(a *story) { a.in(lockagent.Shared).granted(1, 1000).handedOff(1, 1100) },
			func(a *story) {
				a.endedOf(lockagent.EventReleased, 0, 1, lockagent.Token(clock(1000)), 9000).renewed(1, 125_300).
					released(1, 125_500).returned(1, 125_501).alive(131_000).stop()
			},
			func(_, _ *story) {},
			func(b *story) { b.granted(1, 125_000).released(1, 126_000).returned(1, 126_001) },
			Incomplete, "late: 1, not stopped: 1, unproven: 1", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, c := agent("A"), agent("B"), agent("C")
			test.before(a)
			s := new(tape).add(1000, a, b, c).live(2000, 12_000, b.of("b"), c.of("a"))
			test.in20s(b.of("a"), c)
			s.add(21_000, b, c).live(22_000, 112_000, b, c)
			if l := s.read(newAudit()).logs["A"]; !l.Dead || l.spans > 0 {
				t.Fatal("the hold is not judged yet")
			}
			test.at126s(b)
			test.back(a)
			s.add(126_000, b, c).add(131_000, a).add(131_000, b.stop(), c.stop())
			s.want(t, test.verdict, test.found, test.says)
		})
	}
}

// An agent stops, and leaves a hold to another process. The hold is judged until its lease was over. Then the same
// process goes on: that a process stops does not make all true that was judged.
func TestAuditOfAnAgentThatGoesOnAfterItsStop(t *testing.T) {
	a, b := agent("A"), agent("B").of("b")
	s := new(tape).add(1000, a.granted(1, 1000).stop(), b).live(2000, 112_000, b).
		add(116_000, b.of("a").held(1, 114_000, 115_000))
	s.live(122_000, 152_000, b)
	if l := s.read(newAudit()).logs["A"]; l.spans > 0 {
		t.Fatal("the hold is not judged yet")
	}
	s.add(160_000, a.renewed(1, 150_000).released(1, 155_000).stop(), b.stop())
	s.want(t, Incomplete, "late: 1, unproven: 1", "it was judged until its lease was over, and went on")
}

// The same, with a next process that goes on with the hold.
func TestAuditOfAHoldThatGoesOnInTheNextProcess(t *testing.T) {
	a, b := agent("A"), agent("B").of("b")
	s := new(tape).add(1000, a.granted(1, 1000).stop(), b).live(2000, 32_000, b).add(33_000, a.next()).
		live(42_000, 112_000, a.of("c"), b)
	if l := s.read(newAudit()).logs["A"]; l.spans > 0 {
		t.Fatal("the hold is not judged yet")
	}
	s.add(120_000, a.of("a").renewed(1, 110_000).released(1, 115_000).stop(), b.stop())
	s.want(t, Incomplete, "unproven: 1", "it was judged until its lease was over, and went on")
}

// A lease is long, and the hold was judged until it was over. It was renewed until an operator broke the lock.
func TestAuditOfABreakOfAHoldThatWasJudged(t *testing.T) {
	a, b, c := agent("A").leasing(2*time.Minute), agent("B"), agent("C")
	s := new(tape).add(1000, a.granted(1, 1000), b, c).live(2000, 112_000, b, c)
	s.add(116_000, c.broke(115_000)).live(122_000, 152_000, b, c)
	if l := s.read(newAudit()).logs["A"]; !l.Dead || l.spans > 0 {
		t.Fatal("the hold is not judged yet")
	}
	s.add(161_000, b.granted(1, 160_000))
	s.add(200_000, a.renewed(1, 110_000).lost(lockagent.LostDenied, 1, 180_000).alive(200_000).stop(),
		b.released(1, 189_000).stop(), c.stop())
	s.want(t, Incomplete, "late: 1, not stopped: 1, unproven: 1", "it was judged until its lease was over, and went on")
}

// What an agent that is gone may have held for longer than its log says.
func TestAuditOfALeaseThatMayBeLonger(t *testing.T) {
	for name, test := range map[string]struct {
		a, b    *story
		verdict Verdict
		found   string
	}{
		"ARenewalMayBeMissing": {
			agent("A").granted(1, 1000).missing(2).alive(20_000).stop(), agent("B").held(1, 40_000, 41_000).stop(),
			Incomplete, "missing: 1, unproven: 1",
		},
		"NoneIsMissing": {
			agent("A").granted(1, 1000).alive(20_000).stop(), agent("B").held(1, 40_000, 41_000).stop(),
			Proven, "",
		},
		"AnotherHoldEndedLater": { // so the agent would have told of the end of this one
			agent("A").granted(1, 1000).of("b").granted(2, 2000).renewed(2, 30_000).released(2, 45_000),
			agent("B").held(1, 44_500, 44_600).stop(),
			Incomplete, "not stopped: 1, unproven: 2",
		},
		"AnotherHoldEndedBefore": {
			agent("A").granted(1, 1000).of("b").granted(2, 2000).renewed(2, 29_000).released(2, 30_000),
			agent("B").held(1, 44_500, 44_600).stop(),
			Proven, "not stopped: 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantReport(t, audited(recordsOf([]*story{test.a, test.b})), test.verdict, test.found, "")
		})
	}
}

// All that an agent told is missing, and so is its start.
func TestAuditOfAnAgentWithoutABeginning(t *testing.T) {
	a, b := agent("A").held(1, 11_000, 12_000).missing(1).stop(), agent("B").of("b")
	a.records = a.records[2:]
	s := new(tape).add(0, b).live(1000, 11_000, b).add(12_000, b.held(1, 11_500, 11_600)).live(21_000, 51_000, b)
	s.add(55_000, a).live(61_000, 91_000, b).add(92_000, b.stop())
	s.want(t, Incomplete, "judgedEarly: 1, missing: 1", "records 1 to 3 of agent A")
}

// A checkpoint is made when a hold was judged, and before its end is told.
func TestCheckpointOfAHoldThatWasJudged(t *testing.T) {
	a, b := agent("A"), agent("B").of("b")
	s := new(tape).add(1000, a.granted(1, 1000), b).live(2000, 202_000, b)
	auditor := s.read(newAudit())
	if len(auditor.locks) > 0 {
		t.Fatal("the hold is not judged yet")
	}
	s.records = nil
	s.add(203_000, a.released(1, 5000).returned(1, 5001).alive(203_000).stop(), b.stop())
	for _, auditor := range []*testAudit{resumed(t, auditor), auditor} {
		wantReport(t, s.read(auditor).Report(), Incomplete, "late: 1, not stopped: 1, unproven: 1", "")
	}
}

// An agent tells of a step of the clock when the holds beside it have been judged.
func TestAuditOfAStepThatIsToldLate(t *testing.T) {
	a, b, c := agent("A"), agent("B").of("b"), agent("C")
	s := new(tape).add(0, a, b).live(1000, 11_000, a, b).add(12_500, a.held(1, 11_000, 12_500))
	s.add(13_000, c.held(1, 72_000, 72_500).stop()) // a new agent has noticed nothing: it holds the lock at 12 s
	s.live(21_000, 41_000, a, b)
	step := lockagent.Reset{From: "x", To: "x", Reason: "clock stepped", After: clock(11_500), Before: clock(105_000)}
	s.add(45_000, b.reset(step), a.reset(step)).live(111_000, 121_000, a, b).add(122_000, a.stop(), b.stop())
	s.want(t, Incomplete, "judgedEarly: 1, unproven: 1",
		"were judged before the log told that somebody set the clock of the store")
}

// An agent tells late of a reset, of no other time, and then no more.
func TestAuditOfATailUpToAReset(t *testing.T) {
	a, b := agent("A").on("x").granted(1, 1000), agent("B").of("b")
	s := new(tape).add(2000, a, b).live(2000, 52_000, b).add(53_000, b.held(1, 45_000, 46_000))
	s.add(56_000, a.reset(lockagent.Reset{
		From: "x", To: "y", Reason: "emptied", After: clock(2000), Before: clock(50_000),
	}))
	s.live(62_000, 152_000, b).add(153_000, b.held(2, 152_500, 152_600).stop())
	s.want(t, Incomplete, "not stopped: 1, open: 1, unproven: 1",
		"it is taken to have lived until 2026-03-01T14:00:50.000Z at the latest")
}

// A hold was judged, for its agent counted as dead. It goes on, and somebody accepts that. What another agent has of
// the lock meanwhile is not proven, before the end of the first hold is told and since.
func TestAuditOfAHoldBesideOneThatWasJudged(t *testing.T) {
	a, b, c := agent("A"), agent("B"), agent("C").of("c")
	s := new(tape).add(1000, a.granted(1, 1000), b, c).live(2000, 202_000, b, c)
	s.add(203_000, a.alive(203_000), b.alive(203_000), c.alive(203_000))
	auditor := s.read(newAudit())
	auditor.Acknowledge(wall(204_000), Acknowledgement{})
	s.records = nil
	s.live(204_000, 204_000, a, b, c).add(207_000, b.held(1, 205_000, 206_000)).live(212_000, 262_000, a, b, c)
	r := s.read(auditor).ReportAt(wall(262_000))
	wantReport(t, r, Incomplete, "open: 1, unproven: 1", "it began when the hold with token 1772373601000000 went on")
	if holder := r.Unproven.First[0].Hold.Agent; holder != "B" {
		t.Errorf("it is of %s", holder)
	}
	s.records = nil
	s.add(263_000, a.renewed(1, 262_000).released(1, 263_000).returned(1, 263_001).stop(), b.stop(), c.stop())
	wantReport(t, s.read(auditor).Report(), Incomplete, "unproven: 2",
		"it was judged until its lease was over, and went on")
}
