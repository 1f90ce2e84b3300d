package audit

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// hasOne says that an agent has one hold, of lock l by its first tenure.
func hasOne(a *story) func(*events.Record) {
	sum := lockagent.HoldSum("l", 1, a.latest[1])
	return func(r *events.Record) { r.Count, r.Sum = 1, sum }
}

// tells has agents tell every 10 s that they live, and the first of them that it has one hold.
func (t *tape) tells(from, to int, has func(*events.Record), a *story, others ...*story) *tape {
	for ms := from; ms <= to; ms += 10_000 {
		t.add(ms, a.alive(ms).edit(has)).add(ms, others...)
		for _, s := range others {
			t.add(ms, s.alive(ms))
		}
	}
	return t
}

// Each of these logs tells that a hold overlapped with another one, or may hide that.
func TestAttacksOnHoldsThatGoOn(t *testing.T) {
	for name, report := range map[string]func(t *testing.T) Report{
		// The lease of the hold would be over. But the next process tells that it has the hold.
		"InTheNextProcess": func(t *testing.T) Report {
			a, b := agent("A").of("l").granted(1, 1000), agent("B").of("l")
			has := hasOne(a)
			s := new(tape).add(2000, a.alive(2000).stop(), b.alive(2000)).add(4000, a.next().edit(has))
			s.tells(5000, 55_000, has, a, b).add(57_500, b.held(1, 56_000, 57_000)).tells(65_000, 95_000, has, a, b)
			return s.live(106_000, 206_000, b).add(207_000, b.stop()).read(newAudit()).Report()
		},
		"InTheNextProcessWhileThatLives": func(t *testing.T) Report {
			a, b := agent("A").of("l").granted(1, 1000), agent("B").of("l")
			has := hasOne(a)
			s := new(tape).add(2000, a.alive(2000).stop(), b.alive(2000)).add(4000, a.next().edit(has))
			s.tells(5000, 55_000, has, a, b).add(57_500, b.held(1, 56_000, 57_000)).tells(65_000, 95_000, has, a, b)
			return s.read(newAudit()).ReportAt(wall(96_000))
		},
		// The grant is missing. The process stops, and the next one goes on with the hold and crashes.
		"HiddenAcrossAStop": func(t *testing.T) Report {
			a, b := agent("A").of("l").leasing(time.Hour).alive(1000), agent("B").of("l").alive(1000)
			hidden := func(r *events.Record) { r.Count, r.Sum = 1, 77 }
			s := new(tape).add(1000, a.missing(1), b).tells(6000, 46_000, hidden, a, b)
			x := s.read(newAudit())
			x.Acknowledge(wall(46_000), Acknowledgement{})
			s.records = nil
			s.tells(56_000, 56_000, hidden, a, b).add(61_500, b.held(1, 60_000, 61_000)).tells(66_000, 96_000, hidden, a, b)
			s.add(97_000, a.stop()).add(98_000, a.next().edit(hidden)).tells(106_000, 136_000, hidden, a, b)
			return s.live(146_000, 246_000, b).add(247_000, b.stop()).read(x).Report()
		},
		// The agent counts as dead, and is forgotten. Then it comes back with its hold, and crashes.
		"OfAForgottenAgent": func(t *testing.T) Report {
			a, b := agent("A").of("l").granted(1, 1000), agent("B").of("b")
			has := hasOne(a)
			s := new(tape).add(2000, a.alive(2000), b.alive(2000)).live(10_000, 800_000, b).tells(805_000, 805_000, has, a, b)
			x := s.read(newAudit())
			x.Acknowledge(wall(806_000), Acknowledgement{})
			s.records = nil
			s.tells(815_000, 845_000, has, a, b).add(847_500, b.of("l").held(1, 846_000, 847_000)).
				tells(855_000, 905_000, has, a, b)
			return s.live(906_000, 1_006_000, b).add(1_007_000, b.stop()).read(x).Report()
		},
		// The log begins when the agent is away. Its next process tells that it has a hold, and crashes.
		"OfAnAgentThatComesInALateLog": func(t *testing.T) Report {
			a, b := agent("A").of("l").leasing(time.Hour).granted(1, 500).alive(1000).stop(), agent("B").of("l").alive(100)
			has := hasOne(a)
			s := new(tape).lose(1000, a, b).live(10_000, 300_000, b).add(302_500, b.held(1, 301_000, 302_000)).
				live(310_000, 600_000, b)
			s.add(601_000, a.next().edit(has)).tells(610_000, 650_000, has, a, b)
			return s.live(660_000, 800_000, b).add(801_000, b.stop()).read(newAudit()).Report()
		},
	} {
		t.Run(name, func(t *testing.T) { wantNoProof(t, report(t)) })
	}
}

// Records of a hold that goes on contradict others of the hold.
func TestAttacksByRecordsOfAHold(t *testing.T) {
	shares := func() *story { return agent("A").in(lockagent.Shared).granted(1, 1000) }
	reads := func() *story { return agent("B").in(lockagent.Shared).held(1, 6000, 7000).stop() }
	for name, stories := range map[string][]*story{
		"HoldingOfASharedHoldIsExclusive": {
			shares().dropped(lockagent.EventReentered).holding(1, 5000).
				edit(func(r *events.Record) { r.Mode = lockagent.Exclusive }).
				released(1, 9000).returned(1, 9001).stop(),
			reads(),
		},
		"ReentryOfASharedHoldIsExclusive": {
			shares().in(lockagent.Exclusive).reentered(1, 5000).in(lockagent.Shared).released(1, 8000).released(1, 9000).
				returned(1, 9001).stop(), reads(),
		},
		"ReleaseOfASharedHoldIsExclusive": {
			shares().reentered(1, 5000).in(lockagent.Exclusive).released(1, 8000).in(lockagent.Shared).released(1, 9000).
				returned(1, 9001).stop(), reads(),
		},
		"EndOfASharedHoldIsExclusive": {
			shares().in(lockagent.Exclusive).released(1, 9000).returned(1, 9001).stop(), reads(),
		},
		"HoldingAfterTheEnd":            {holdingAfterTheEnd(), agent("B").held(1, 597_000, 598_000).stop()},
		"OneGrantIsReleasedAfterTheEnd": {releasedAfterTheEnd(), agent("B").held(1, 12_000, 13_000).stop()},
		"AReentryIsConfirmedAfterTheEnd": {
			agent("A").granted(1, 1000).reentered(1, 1500).edit(func(r *events.Record) { r.StoreTime = clock(15_000) }).
				released(1, 1800).released(1, 2000).returned(1, 2001),
			agent("B").held(1, 12_000, 13_000).alive(200_000).stop(),
		},
		"AReentryTellsOfARenewal": { // and the lease goes on until 50 s
			agent("A").granted(1, 1000).renewed(1, 20_000).reentered(1, 21_000),
			agent("B").held(1, 40_000, 41_000).alive(200_000).stop(),
		},
		"ARenewalTellsOfItself": { // likewise
			agent("A").granted(1, 1000).add(lockagent.Event{
				Kind: lockagent.EventRenewed, Lock: "a", LockKind: lockagent.PlainLock, Mode: lockagent.Exclusive, Tenure: 1,
				StoreTime: clock(20_000), Lease: 30 * time.Second, Time: wall(20_000),
			}),
			agent("B").held(1, 40_000, 41_000).alive(200_000).stop(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantNoProof(t, audited(recordsOf(stories)))
			for _, s := range stories {
				s.stop()
			}
			if o := opinionOf(recordsOf(stories)); o.Verdict == Proven {
				t.Errorf("the second opinion is %+v", o)
			}
		})
	}
}

// holdingAfterTheEnd is the log of a hold that went on for 600 s and ended after 595 s. It is not stopped, so the
// second opinion has no verdict.
func holdingAfterTheEnd() *story {
	return agent("A").granted(1, 1000).renewed(1, 595_000).holding(1, 601_000).released(1, 596_000).
		returned(1, 596_001).alive(700_000)
}

// releasedAfterTheEnd is likewise of a hold of which one grant was released after 19 s, and the last one after 9 s.
func releasedAfterTheEnd() *story {
	return agent("A").granted(1, 1000).reentered(1, 1500).released(1, 20_000).released(1, 10_000).
		returned(1, 10_001).alive(700_000)
}

// One permit that is given back twice is one permit.
func TestAttackByAPermitThatIsGivenBackTwice(t *testing.T) {
	x := agent("X").permits(lockagent.Permits, 1, 2).changes(500, lockagent.TrySetPermits, 2).
		gaveBack(5000, "A", 1).gaveBack(6000, "A", 1)
	r := audited(recordsOf([]*story{
		x.stop(),
		agent("A").permits(lockagent.Permits, 2, 2).granted(1, 1000).renewed(1, 9000).released(1, 20_000).
			returned(1, 20_001).stop(),
		agent("B").permits(lockagent.Permits, 1, 2).granted(1, 7000).released(1, 15_000).returned(1, 15_001).stop(),
		agent("C").permits(lockagent.Permits, 1, 2).granted(1, 8000).released(1, 15_000).returned(1, 15_001).stop(),
	}))
	wantReport(t, r, Violated, "too many permits: 1", "")
}

// A record waits for a missing one when a checkpoint is made. Then its message is read again: that is no contradiction.
func TestACheckpointKeepsWhoAskedForAHoldThatWaits(t *testing.T) {
	a := agent("A").missing(1).granted(1, 1000)
	a.edit(func(r *events.Record) { r.Who = lockagent.Process{Host: "h", Program: "p", PID: 3}.Who() })
	s := new(tape).add(1000, a)
	x := s.read(newAudit()).resumed(t)
	x.Add(s.records[len(s.records)-1])
	wantReport(t, x.Report(), Incomplete, "missing: 1, not stopped: 1, open: 1", "")
}

// The first hold of each of these logs is not judged, or somebody has acknowledged what was found of it. The second
// hold is judged, and may have overlapped with the first.
func TestAttacksByAHoldThatIsNotNamed(t *testing.T) {
	for name, report := range map[string]func(t *testing.T) Report{
		"ItEndedPerhapsBefore": func(t *testing.T) Report {
			a, b := agent("A").alive(100), agent("B").alive(100)
			s := new(tape).lose(1000, a, b).add(2000, a.granted(1, 1500), b.alive(2000)).live(10_000, 20_000, a, b)
			s.add(31_000, a.renewed(1, 20_000).released(1, 29_000).edit(func(r *events.Record) { r.Until = clock(31_000) }))
			s.add(32_000, a.alive(32_000), b.held(1, 30_500, 30_800).alive(32_000))
			return s.live(40_000, 100_000, a, b).add(101_000, a.stop(), b.stop()).read(newAudit()).Report()
		},
		"ItsLeaseWasNotOver": func(t *testing.T) Report {
			a, b := agent("A").alive(100).leasing(time.Hour), agent("B").alive(100)
			s := new(tape).lose(1000, a, b).add(2000, a.granted(1, 1500), b.alive(2000)).live(10_000, 10_000, a, b)
			s.live(20_000, 200_000, b).add(210_000, b.held(1, 205_000, 206_000))
			return s.live(210_000, 300_000, b).add(301_000, b.stop()).read(newAudit()).Report()
		},
		"TheLogHasItsEnd": func(t *testing.T) Report {
			a, b := agent("A").granted(1, 1000), agent("B").alive(100)
			s := new(tape).lose(1000, a, b).live(5000, 25_000, a, b).add(27_000, b.held(1, 25_500, 26_000))
			s.add(30_000, a.renewed(1, 20_000).released(1, 29_000).returned(1, 29_001))
			return s.live(35_000, 105_000, a, b).add(106_000, a.stop(), b.stop()).read(newAudit()).Report()
		},
		"ItDoesNotNameItsStore": func(t *testing.T) Report {
			a, b := agent("A").at("").alive(100), agent("B").alive(100)
			s := new(tape).lose(1000, a, b).add(5000, a.granted(1, 4000), b.alive(5000)).live(15_000, 25_000, a, b)
			s.add(31_500, b.held(1, 30_000, 31_000)).live(35_000, 55_000, a, b)
			s.add(61_000, a.renewed(1, 50_000).released(1, 60_000).returned(1, 60_001).stop())
			return s.live(65_000, 105_000, b).add(106_000, b.stop()).read(newAudit()).Report()
		},
		"ItsViolationIsAcknowledged": func(t *testing.T) Report {
			a, b := agent("A").leasing(time.Hour), agent("B")
			s := new(tape).add(1000, a.granted(1, 1000), b).live(10_000, 20_000, a, b).add(21_000, b.held(1, 20_500, 20_900))
			x := s.live(30_000, 60_000, a, b).read(newAudit())
			x.Acknowledge(wall(61_000), Acknowledgement{})
			s.records = nil
			s.live(70_000, 170_000, b).add(181_000, b.held(2, 180_500, 180_900))
			return s.live(190_000, 300_000, b).add(301_000, b.stop()).read(x).Report()
		},
	} {
		t.Run(name, func(t *testing.T) { wantNoProof(t, report(t)) })
	}
}

// An agent tells that it has a hold of which the log does not have the grant.
func TestAttacksByAHiddenHold(t *testing.T) {
	late := func() (a, b *story, s *tape) {
		a, b = agent("A").of("l").leasing(time.Hour).granted(1, 500), agent("B").of("l")
		s = new(tape).lose(1000, a, b).live(10_000, 100_000, a, b).add(105_000, b.held(1, 101_000, 102_000))
		return a, b, s.live(110_000, 200_000, a, b)
	}
	for name, report := range map[string]func(t *testing.T) Report{
		"WhileTheAgentLives": func(t *testing.T) Report {
			_, _, s := late()
			return s.read(newAudit()).ReportAt(wall(201_000))
		},
		"TheAgentStopsAndLeavesIt": func(t *testing.T) Report {
			a, b, s := late()
			return s.add(201_000, a.stop()).live(210_000, 300_000, b).add(301_000, b.stop()).read(newAudit()).Report()
		},
		"NothingIsMissingSinceItHadNone": func(t *testing.T) Report {
			a, b := agent("A").of("l").alive(500), agent("B").of("l")
			s := new(tape).lose(1000, a, b).live(10_000, 40_000, a, b) // it has none
			s.tells(50_000, 90_000, func(r *events.Record) { r.Count, r.Sum = 1, 77 }, a, b).
				add(95_000, b.held(1, 85_000, 86_000))
			return s.live(100_000, 200_000, a, b).add(201_000, a.stop(), b.stop()).read(newAudit()).Report()
		},
	} {
		t.Run(name, func(t *testing.T) { wantNoProof(t, report(t)) })
	}
}

// The only permit is in use. Then what the agent did is missing. It may have been granted the permit again.
func TestAttacksByAPermitOfTheSameAgent(t *testing.T) {
	begin := func() (x, a *story) {
		x = agent("X").permits(lockagent.Permits, 1, 1).changes(500, lockagent.TrySetPermits, 1)
		return x, agent("A").permits(lockagent.Permits, 1, 1).granted(1, 1000).alive(2000)
	}
	t.Run("ItCrashed", func(t *testing.T) {
		x, a := begin()
		wantNoProof(t, audited(recordsOf([]*story{x.stop(), a})))
	})
	t.Run("TheHoleIsAcknowledged", func(t *testing.T) {
		x, a := begin()
		s := new(tape).add(2000, x, a.missing(3)).live(10_000, 20_000, x, a)
		y := s.read(newAudit())
		y.Acknowledge(wall(20_000), Acknowledgement{})
		s.records = nil
		s.add(22_000, a.renewed(1, 11_000).released(1, 21_000).returned(1, 21_001)).live(30_000, 90_000, x, a)
		wantNoProof(t, s.add(91_000, x.stop(), a.stop()).read(y).Report())
	})
}

// What else can be proven wrongly.
func TestOtherAttacks(t *testing.T) {
	// A sign of life comes before the record of a grant that was decided earlier.
	t.Run("AReplyComesWithinTheDelay", func(t *testing.T) {
		a, b := agent("A"), agent("B")
		s := new(tape).add(1000, a.alive(500), b.alive(500)).live(10_000, 10_000, a, b)
		s.add(20_000, a.alive(20_000), b.held(1, 18_000, 18_700).alive(20_000))
		x := s.read(newAudit())
		r := x.ReportAt(wall(20_100))
		s.records = nil
		s.add(21_000, a.granted(1, 18_500).released(1, 21_500).returned(1, 21_600).stop(), b.alive(22_000).stop())
		if later := s.read(x).Report(); r.Verdict == Proven && later.Verdict == Violated {
			t.Errorf("%v\nand later\n%v", r, later)
		}
	})
	t.Run("OneNameOfTwoKinds", func(t *testing.T) { // such locks exclude each other, says docs/semantics.md
		b := agent("B")
		b.kind = lockagent.FairLock
		wantNoProof(t, audited(recordsOf([]*story{agent("A").held(1, 1000, 5000).stop(), b.held(1, 2000, 3000).stop()})))
	})
	t.Run("AnUnknownKindOfNoLock", func(t *testing.T) { // docs/audit.md says that nothing is proven
		a := agent("A").held(1, 1000, 2000).add(lockagent.Event{}).edit(func(r *events.Record) { r.Raw = "{}" }).stop()
		wantNoProof(t, audited(a.records))
	})
}

func wantNoProof(t *testing.T, r Report) {
	t.Helper()
	if r.Verdict == Proven || r.Verdict == Empty {
		t.Errorf("%v", r)
	}
}
