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
			s.tells(815_000, 845_000, has, a, b).add(847_500, b.of("l").held(1, 846_000, 847_000)).tells(855_000, 905_000, has, a, b)
			return s.live(906_000, 1_006_000, b).add(1_007_000, b.stop()).read(x).Report()
		},
		// The log begins when the agent is away. Its next process tells that it has a hold, and crashes.
		"OfAnAgentThatComesInALateLog": func(t *testing.T) Report {
			a, b := agent("A").of("l").leasing(time.Hour).granted(1, 500).alive(1000).stop(), agent("B").of("l").alive(100)
			has := hasOne(a)
			s := new(tape).lose(1000, a, b).live(10_000, 300_000, b).add(302_500, b.held(1, 301_000, 302_000)).live(310_000, 600_000, b)
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
			shares().dropped(lockagent.EventReentered).holding(1, 5000).edit(func(r *events.Record) { r.Mode = lockagent.Exclusive }).
				released(1, 9000).returned(1, 9001).stop(),
			reads(),
		},
		"ReentryOfASharedHoldIsExclusive": {
			shares().in(lockagent.Exclusive).reentered(1, 5000).in(lockagent.Shared).released(1, 8000).released(1, 9000).returned(1, 9001).stop(), reads(),
		},
		"ReleaseOfASharedHoldIsExclusive": {
			shares().reentered(1, 5000).in(lockagent.Exclusive).released(1, 8000).in(lockagent.Shared).released(1, 9000).returned(1, 9001).stop(), reads(),
		},
		"EndOfASharedHoldIsExclusive": {
			shares().in(lockagent.Exclusive).released(1, 9000).returned(1, 9001).stop(), reads(),
		},
		"HoldingAfterTheEnd":            {holdingAfterTheEnd(), agent("B").held(1, 597_000, 598_000).stop()},
		"OneGrantIsReleasedAfterTheEnd": {releasedAfterTheEnd(), agent("B").held(1, 12_000, 13_000).stop()},
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

// holdingAfterTheEnd is the log of a hold that went on for 600 s and ended after 595 s. It is not stopped, so the second
// opinion has no verdict.
func holdingAfterTheEnd() *story {
	return agent("A").granted(1, 1000).renewed(1, 595_000).holding(1, 601_000).released(1, 596_000).returned(1, 596_001).alive(700_000)
}

// releasedAfterTheEnd is likewise of a hold of which one grant was released after 19 s, and the last one after 9 s.
func releasedAfterTheEnd() *story {
	return agent("A").granted(1, 1000).reentered(1, 1500).released(1, 20_000).released(1, 10_000).returned(1, 10_001).alive(700_000)
}

// One permit that is given back twice is one permit.
func TestAttackByAPermitThatIsGivenBackTwice(t *testing.T) {
	x := agent("X").permits(lockagent.Permits, 1, 2).changes(500, lockagent.TrySetPermits, 2).gaveBack(5000, "A", 1).gaveBack(6000, "A", 1)
	r := audited(recordsOf([]*story{
		x.stop(),
		agent("A").permits(lockagent.Permits, 2, 2).granted(1, 1000).renewed(1, 9000).released(1, 20_000).returned(1, 20_001).stop(),
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

func wantNoProof(t *testing.T, r Report) {
	t.Helper()
	if r.Verdict == Proven || r.Verdict == Empty {
		t.Errorf("%v", r)
	}
}
