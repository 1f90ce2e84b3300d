package audit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

func TestAuditOfResets(t *testing.T) {
	emptied := lockagent.Reset{From: "x", To: "y", Reason: "emptied", After: clock(1100), Before: clock(1400)}
	verdicts{
		"Explained": {
			[]*story{
				agent("A").on("x").granted(1, 1000).reset(emptied).lost(lockagent.LostDenied, 1, 9000).stop(),
				agent("B").reset(emptied).on("y").held(1, 1500, 2200).stop(),
			},
			Explained, "explained: 1",
			"cause:  the store was reset (emptied) at some time from 2026-03-01T14:00:01.100Z to 14:00:01.400",
		},
		"AnHourLater": { // the holder cannot have been confirmed since, so it must have ended long ago
			[]*story{
				agent("A").on("x").granted(1, 1000).reset(emptied).lost(lockagent.LostDenied, 1, 3600_000).stop(),
				agent("B").reset(emptied).on("y").held(1, 1500, 2200).stop(),
			},
			Violated, "outlived its lease: 1, overlap: 1", "",
		},
		"ConfirmedSince": {
			[]*story{
				agent("A").on("x").granted(1, 1000).reset(emptied).renewed(1, 3590_000).
					lost(lockagent.LostDenied, 1, 3600_000).stop(),
				agent("B").reset(emptied).on("y").held(1, 1500, 2200).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"GrantedBeforeTheResetWasNoticed": {
			[]*story{
				agent("A").on("x").granted(1, 1000).lost(lockagent.LostDenied, 1, 1600).stop(),
				agent("B").on("x").
					reset(lockagent.Reset{From: "x", To: "y", Reason: "restarted", After: clock(1100), Before: clock(1550)}).
					held(1, 1500, 2200).stop(),
			},
			Explained, "explained: 1", "",
		},
		"SwitchedAtDifferentTimes": { // B when A was yet to be granted the lock, and A when B had it
			[]*story{
				agent("A").on("x").granted(1, 1000).
					reset(lockagent.Reset{From: "x", To: "y", Reason: "failed over", After: clock(1850), Before: clock(1950)}).
					lost(lockagent.LostDenied, 1, 2000).stop(),
				agent("B").reset(lockagent.Reset{From: "x", To: "y", Reason: "failed over", After: clock(800), Before: clock(950)}).
					on("y").held(1, 1500, 2200).stop(),
			},
			Explained, "explained: 1", "",
		},
		"TheOldMasterThaws": { // the newer hold is that of the older incarnation
			[]*story{
				agent("A").reset(lockagent.Reset{From: "x", To: "y", After: clock(800), Before: clock(950)}).on("y").
					held(1, 1000, 1600).stop(),
				agent("B").on("x").granted(1, 1500).lost(lockagent.LostDenied, 1, 2200).stop(),
			},
			Explained, "explained: 1", "",
		},
		"TwoResetsBetween": {
			[]*story{
				agent("A").on("x").granted(1, 1000).lost(lockagent.LostDenied, 1, 2000).stop(),
				agent("B").reset(emptied).on("z").held(1, 1500, 2200).stop(),
				agent("C").reset(lockagent.Reset{From: "y", To: "z", Reason: "restarted", After: clock(3000), Before: clock(3100)}).
					stop(),
			},
			Explained, "explained: 1", "",
		},
		"WithinOneIncarnation": {
			[]*story{
				agent("A").reset(lockagent.Reset{From: "y", To: "x", After: clock(100), Before: clock(200)}).on("y").
					granted(1, 1000).lost(lockagent.LostDenied, 1, 2000).stop(),
				agent("B").on("y").held(1, 1500, 2200).
					reset(lockagent.Reset{From: "y", To: "z", After: clock(2500), Before: clock(2600)}).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"AnotherIncarnationWithoutAReset": {
			[]*story{
				agent("A").on("x").granted(1, 1000).released(1, 1600).returned(1, 1600).stop(),
				agent("B").on("y").held(1, 1500, 2200).stop(),
			},
			Incomplete, "unproven: 1", "was granted by another incarnation of the store, and no record tells of a reset",
		},
		"ResetOfAnotherTime": {
			[]*story{
				agent("A").granted(1, 200_000).released(1, 260_000).edit(func(r *events.Record) { r.Confirmed = clock(250_000) }).
					returned(1, 260_000).reset(emptied).stop(),
				agent("B").held(1, 255_000, 256_000).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"Broken": {
			[]*story{
				agent("A").granted(1, 1000).lost(lockagent.LostDenied, 1, 9000).stop(),
				agent("B").broke(1400).held(1, 1500, 2200).stop(),
			},
			Explained, "explained: 1", "cause:  an operator (olga) broke the lock at 2026-03-01T14:00:01.400Z",
		},
		"BrokenAndHeldForAnHour": {
			[]*story{
				agent("A").granted(1, 1000).lost(lockagent.LostDenied, 1, 3600_000).stop(),
				agent("B").broke(1400).held(1, 1500, 2200).stop(),
			},
			Violated, "outlived its lease: 1, overlap: 1", "",
		},
		"BrokenAndHeldBeyondItsLease": {
			[]*story{
				agent("A").granted(1, 1000).lost(lockagent.LostDenied, 1, 40_000).stop(),
				agent("B").broke(25_000).held(1, 26_000, 27_000).stop(),
			},
			Violated, "outlived its lease: 1, overlap: 1", "",
		},
		"BrokenAndConfirmedSince": {
			[]*story{
				agent("A").granted(1, 1000).renewed(1, 9000).lost(lockagent.LostDenied, 1, 15_000).stop(),
				agent("B").broke(1400).held(1, 1500, 2200).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"BrokenAndTold": { // the agent through which it was broken has died before it said so
			[]*story{
				agent("A").granted(1, 1000).ended(lockagent.EventBroken, lockagent.LostBroken, 1, 1600).
					edit(func(r *events.Record) { r.Operator = "olga" }).stop(),
				agent("B").held(1, 1500, 2200).stop(),
			},
			Explained, "explained: 1", "cause:  an operator (olga) broke the lock\n",
		},
		"ABreakExplainsNoTokens": {
			[]*story{
				agent("A").held(1, 1000, 1100).stop(),
				agent("B").broke(1400).held(1, 1500, 2200).edit(func(r *events.Record) { r.Token = 5 }).stop(),
			},
			Violated, "token fell: 1", "",
		},
		"BreakOfAnotherLock": {
			[]*story{
				agent("A").granted(1, 1000).released(1, 9000).returned(1, 9000).stop(),
				agent("B").of("b").broke(1400).of("a").held(1, 1500, 2200).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"ClockSetBack": { // by a minute: tokens grow all the same
			[]*story{
				agent("A").granted(1, 100_000).released(1, 105_000).edit(func(r *events.Record) { r.Until = clock(105_000) }).
					stop(),
				agent("B").
					reset(lockagent.Reset{From: "x", To: "x", Reason: "clock stepped", After: clock(106_000), Before: clock(46_000)}).
					held(1, 106_000, 107_000).edit(func(r *events.Record) {
					r.StoreTime, r.Confirmed, r.Until, r.Returned = clock(46_500), clock(46_500), clock(47_500), clock(47_500)
				}).stop(),
			},
			Incomplete, "unproven: 2",
			"somebody set the clock of the store at some time from 2026-03-01T14:00:46.000Z to 2026-03-01T14:01:46.000Z",
		},
		"ClockSetForward": { // a lease ended early, and its holder learned of that late
			[]*story{
				agent("A").granted(1, 1000).lost(lockagent.LostDenied, 1, 9000).
					edit(func(r *events.Record) { r.Until = clock(69_000) }).stop(),
				agent("B").
					reset(lockagent.Reset{From: "x", To: "x", Reason: "clock stepped", After: clock(2000), Before: clock(62_000)}).
					held(1, 63_000, 64_000).stop(),
			},
			Incomplete, "unproven: 2", "somebody set the clock of the store at some time",
		},
		"ClockSetForwardAndTheHolderDoesNotKnow": { // by an hour, 20 s after the grant; the end is told by the clock before
			[]*story{
				agent("A").granted(1, 100_000).ended(lockagent.EventLost, lockagent.LostDeadline, 1, 130_000).stop(),
				agent("B").reset(setBy(3600_000, 119_500, 3_720_500)).held(1, 3_721_000, 3_722_000).stop(),
			},
			Incomplete, "unproven: 2", "somebody set the clock of the store at some time",
		},
		"HeldForLongAfterTheClockWasSet": {
			[]*story{
				agent("A").granted(1, 1000).renewed(1, 3590_000).released(1, 3600_000).returned(1, 3600_000).stop(),
				agent("B").
					reset(lockagent.Reset{From: "x", To: "x", Reason: "clock stepped", After: clock(2000), Before: clock(1500)}).
					held(1, 13_000, 14_000).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"WhatIsMissingMayTellThatTheClockWasSet": {
			[]*story{agent("A").granted(1, 1000).missing(1).lost(lockagent.LostDenied, 1, 90_000).returned(1, 90_001).stop()},
			Incomplete, "missing: 1, unproven: 1", "records are missing that may tell that the clock was set",
		},
		"ProcessStopped": { // for an hour; its lease ran out, and it learned of that when it ran again
			[]*story{
				agent("A").granted(1, 1000).lost(lockagent.LostDeadline, 1, 3600_000).stop(),
				agent("B").held(1, 40_000, 41_000).stop(),
			},
			Explained, "explained: 1", "its process did not run, and learned of it late",
		},
		"ProcessStoppedAndTheClockWasSet": { // nobody knows when it learned of that, by the clock of the second
			[]*story{
				agent("A").granted(1, 1000).lost(lockagent.LostDeadline, 1, 3600_000).stop(),
				agent("B").reset(setBy(60_000, 10_000, 71_000)).held(1, 200_000, 201_000).stop(),
			},
			Incomplete, "unproven: 2", "somebody set the clock of the store at some time",
		},
		"ProcessStoppedAndNobodyCame": {
			[]*story{agent("A").granted(1, 1000).lost(lockagent.LostDeadline, 1, 3600_000).stop()},
			Proven, "", "",
		},
	}.check(t)
}

func TestAuditOfEpochs(t *testing.T) {
	verdicts{
		"HoldGoesOn": {
			[]*story{
				agent("A").granted(1, 1000).reentered(1, 1100).stop().next().reentered(1, 1200).stop().next().released(1, 1300).
					released(1, 1400).released(1, 1500).
					handedOff(1, 1500).released(1, 1600).returned(1, 1601).stop(),
				agent("B").held(1, 1700, 1800).stop(),
			},
			Proven, "", "",
		},
		"OverlapAfterIt": {
			[]*story{
				agent("A").granted(1, 1000).stop().next().released(1, 2000).returned(1, 2001).stop(),
				agent("B").held(1, 1700, 1800).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"HandedOffTooEarly": {
			[]*story{
				agent("A").granted(1, 1000).stop().next().handedOff(1, 1500).
					endedOf(lockagent.EventReleased, 0, 1, lockagent.Token(clock(1000)), 1600).released(1, 1700).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"CrashAndAnotherTenure": {
			[]*story{agent("A").leasing(2*time.Second).granted(1, 1000).next().granted(2, 40_000).released(2, 41_000).stop()},
			Proven, "not stopped: 1", "",
		},
		"CrashAndAnotherTenureTooEarly": {
			[]*story{agent("A").granted(1, 1000).next().granted(2, 20_000).released(2, 21_000).stop()},
			Incomplete, "not stopped: 1, unproven: 1", "before its lease was over",
		},
		"OverlapAcrossEpochs": {
			[]*story{
				agent("A").granted(1, 1000).lost(lockagent.LostDeadline, 1, 1600).stop().next().granted(2, 1500).
					released(2, 2200).stop(),
			},
			Violated, "overlap: 1", "",
		},
	}.check(t)
}

// A stream whose beginning was retired is judged from where it begins.
func TestAuditOfALogThatBeginsLate(t *testing.T) {
	a := agent("A").granted(1, 1000).released(1, 12_000).returned(1, 12_001).alive(13_000).held(2, 40_000, 40_100).stop()
	b := agent("B").of("b").held(1, 1000, 1100).held(2, 20_000, 20_100).alive(21_000).held(3, 40_000, 40_100).stop()
	records := append(a.records[2:], b.records[2:]...)
	for i := range records {
		records[i].Position = 1000 + uint64(i)
	}
	r := audited(records)
	if found := findingsOf(r); r.Verdict != Proven || len(found) != 1 || found[0] != "not judged: 2" {
		t.Errorf("%v\n%v", found, r)
	}
	if len(r.Stores) != 1 || r.Stores[0].From != clock(12_000)+100+1e6 && r.Stores[0].From <= clock(13_000) ||
		r.Stores[0].Holds != 2 {
		t.Errorf("%+v", r.Stores)
	}
	// A log that is whole has no such excuse.
	for i := range records {
		records[i].Position = uint64(i) + 1
	}
	if r := audited(records); r.Verdict != Incomplete || r.RecordHoles.Count != 2 {
		t.Errorf("%v", r)
	}
}

// A hold from before the beginning may go on for long. What others held meanwhile has been judged
// without it.
func TestAuditOfALongHoldFromBefore(t *testing.T) {
	a := agent("A").granted(1, 1000).alive(12_000).alive(120_000).renewed(1, 115_000).released(1, 120_500).stop()
	b := agent("B").of("b").alive(12_500).of("a").held(1, 40_000, 40_100).alive(119_000).stop()
	records := []events.Record{
		a.records[2], b.records[0], b.records[1], b.records[2], b.records[3], a.records[3], a.records[4], a.records[5],
		b.records[4],
	}
	for i := range records {
		records[i].Position = 1000 + uint64(i)
	}
	if r := audited(records); r.Verdict != Incomplete || r.NotJudged.Count != 1 || r.Unproven.Count != 1 {
		t.Errorf("%v", r)
	}
}

// An agent that is silent while others go on is dead. The audit goes on without it, and says what
// came later.
func TestAuditOfASilentAgent(t *testing.T) {
	silent := agent("A").held(1, 1000, 1100).alive(2000)
	lively := agent("B")
	for n := range 30 {
		lively.held(uint64(n+1), 10_000*(n+1), 10_000*(n+1)+100).alive(10_000*(n+1) + 200)
	}
	a := newAudit()
	position := uint64(0)
	add := func(r events.Record, ms int) {
		position++
		r.Position, r.Stored = position, wall(ms)
		a.Add(r)
	}
	for _, r := range silent.records {
		add(r, 2000)
	}
	for i, r := range lively.records {
		add(r, 5000*(i+1))
	}
	report := a.ReportAt(wall(300_000))
	if found := findingsOf(report); report.Verdict != Incomplete || len(found) != 2 || found[0] != "not stopped: 1" ||
		found[1] != "unproven: 1" {
		t.Errorf("%v\n%v", found, report) // the hold of B 8 s after the last sign of life
	}
	if s := report.Stores[0]; s.To != clock(295_200) || s.Pending != 1 {
		t.Errorf("%+v", s)
	}
	// It comes back with a hold that began when all was judged.
	for _, r := range silent.held(2, 50_000, 50_100).stop().records[3:] {
		add(r, 310_000)
	}
	if report = a.ReportAt(wall(310_000)); report.Verdict != Incomplete || report.Unproven.Count != 2 ||
		report.Tails.Count != 1 || report.Late.Count != 1 {
		t.Errorf("%v", report)
	}
	// Nothing is proven of what was judged without it.
	if in := report.Late.First[0].In; len(in) != 1 || in[0] != (Stretch{"s", clock(2000), a.stores["s"].Floor}) ||
		in[0].To < clock(250_000) {
		t.Errorf("%v", report.Late)
	}
}

// What goes on is judged up to the horizon, and no further.
func TestHorizon(t *testing.T) {
	a := newAudit()
	for i, r := range recordsOf([]*story{
		agent("B").held(1, 2000, 2100), agent("A").held(1, 1000, 1100).alive(30_000),
		{records: agent("B").held(1, 2000, 2100).held(2, 25_000, 31_000).alive(32_000).records[2:]},
	}) {
		r.Position, r.Stored = uint64(i)+1, wall(32_000)
		a.Add(r)
	}
	r := a.ReportAt(wall(33_000))
	if s := r.Stores[0]; r.Verdict != Proven || s.To != clock(25_000) || s.Holds != 2 || s.Pending != 1 {
		t.Errorf("%+v\n%v", s, r)
	}
	// A minute later nobody lives.
	if r := a.ReportAt(wall(200_000)); r.Tails.Count != 2 || r.Verdict != Incomplete {
		t.Errorf("%v", r)
	}
}

// setBy is a step of the clock, noticed by readings at two times.
func setBy(ms, after, before int) lockagent.Reset {
	return lockagent.Reset{
		From: "x", To: "x", Reason: "clock stepped", After: clock(after), Before: clock(before),
		Step: time.Duration(ms) * time.Millisecond,
	}
}

// A quiet agent notices a step of the clock when it reads the clock again. How far apart its readings are
// says nothing of the step.
func TestAuditOfAStepThatIsNoticedLate(t *testing.T) {
	turns := func(a, b *story) []*story {
		for n := range 10 {
			a.held(uint64(n+1), 300_000+10_000*n, 302_000+10_000*n)
			b.held(uint64(n+1), 305_000+10_000*n, 307_000+10_000*n)
		}
		return []*story{a.stop(), b.stop()}
	}
	unsized := setBy(0, 100_000, 700_200)
	verdicts{
		"OfARealOverlap": {
			[]*story{
				agent("A").leasing(400*time.Second).granted(1, 300_000).released(1, 650_000).returned(1, 650_000).stop(),
				agent("B").leasing(400*time.Second).reset(setBy(2000, 100_000, 702_000)).granted(1, 310_000).released(1, 600_000).
					returned(1, 600_000).stop(),
			},
			Incomplete, "unproven: 2", "somebody set the clock of the store at some time",
		},
		"OfPermits": { // two are in use, and there is one
			[]*story{
				agent("A").permits(lockagent.Permits, 1, 1).changes(90_000, lockagent.TrySetPermits, 1).leasing(400*time.Second).
					granted(1, 300_000).released(1, 650_000).returned(1, 650_000).stop(),
				agent("B").permits(lockagent.Permits, 1, 1).leasing(400*time.Second).reset(setBy(2000, 100_000, 702_000)).
					granted(1, 310_000).released(1, 600_000).returned(1, 600_000).stop(),
			},
			Incomplete, "unproven: 2", "up to 2 of 1, for somebody set the clock of the store",
		},
		"OfAnOverlapSinceThen": { // the store has confirmed the first by its clock since
			[]*story{
				agent("A").leasing(400*time.Second).granted(1, 300_000).renewed(1, 720_000).released(1, 750_000).
					returned(1, 750_000).stop(),
				agent("B").leasing(400*time.Second).reset(setBy(2000, 100_000, 702_000)).granted(1, 710_000).released(1, 730_000).
					returned(1, 730_000).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"OfAnOverlapThatItMade": {
			[]*story{
				agent("A").granted(1, 300_000).released(1, 331_500).returned(1, 331_500).stop(),
				agent("B").reset(setBy(2000, 100_000, 702_000)).held(1, 330_000, 333_000).stop(),
			},
			Incomplete, "unproven: 2",
			"somebody set the clock of the store at some time from 2026-03-01T14:01:40.000Z to 2026-03-01T14:11:42.000Z",
		},
		"OfCleanHolds": {
			append(turns(agent("A"), agent("B")), agent("C").reset(setBy(200, 100_000, 700_200)).stop()),
			Incomplete, "unproven: 20",
			"somebody set the clock of the store at some time from 2026-03-01T14:01:40.000Z to 2026-03-01T14:11:40.200Z",
		},
		"OfCleanHoldsBefore": {
			append(turns(agent("A"), agent("B")), agent("C").reset(setBy(60_000, 410_000, 480_000)).stop()),
			Proven, "", "",
		},
		"OfCleanHoldsSince": {
			append(turns(agent("A"), agent("B")), agent("C").reset(setBy(-60_000, 280_000, 225_000)).stop()),
			Proven, "", "",
		},
		// The clock was set back to 220 s at the earliest, and had shown 285 s at the latest.
		"OfCleanHoldsThatTheStepMayHaveReached": {
			append(turns(agent("A"), agent("B")), agent("C").reset(setBy(-60_000, 290_000, 245_000)).stop()),
			Incomplete, "unproven: 2", "",
		},
		"OfAHoldThatWentOn": { // it was confirmed before and since
			[]*story{
				agent("A").leasing(time.Minute).granted(1, 90_000).reset(setBy(2000, 100_000, 103_000)).renewed(1, 120_000).
					released(1, 130_000).returned(1, 130_000).stop(),
				agent("B").held(1, 131_000, 132_000).stop(),
			},
			Proven, "", "",
		},
		"OfWhichTheSizeIsUnknown": {
			append(turns(agent("A"), agent("B")), agent("C").reset(unsized).stop()),
			Incomplete, "unproven: 20", "",
		},
		"OfATokenThatFell": {
			[]*story{
				agent("A").held(1, 300_000, 301_000).stop(),
				agent("B").reset(setBy(200, 100_000, 700_200)).held(1, 400_000, 401_000).
					edit(func(r *events.Record) { r.Token = lockagent.Token(clock(200_000)) }).stop(),
			},
			Incomplete, "unproven: 2", "but somebody set the clock of the store",
		},
		"OfADenial": {
			[]*story{
				agent("A").granted(1, 300_000).lost(lockagent.LostDenied, 1, 304_000).stop(),
				agent("B").reset(setBy(200, 100_000, 700_200)).stop(),
			},
			Incomplete, "unproven: 1", "somebody set the clock of the store at some time",
		},
	}.check(t)
}

// Agents notice one step at different times, and several steps as one. What touches is one time in which nothing is
// compared.
func TestStepsOfWhichSeveralTell(t *testing.T) {
	for name, test := range map[string]struct {
		told [][]lockagent.Reset // by each agent
		want [][2]int
	}{
		"Once": {
			[][]lockagent.Reset{{setBy(300, 1000, 1400)}, {setBy(290, 0, 600_000)}, {setBy(310, 500, 1900)}},
			[][2]int{{0, 600_000}},
		},
		"TwoApart": {
			[][]lockagent.Reset{{setBy(300, 1000, 1400), setBy(300, 91_400, 91_800)}}, [][2]int{{1000, 1400}, {91_400, 91_800}},
		},
		"TwoTogether": {[][]lockagent.Reset{{setBy(300, 1000, 1400), setBy(300, 1400, 1800)}}, [][2]int{{1000, 1800}}},
		"Back":        {[][]lockagent.Reset{{setBy(-60_000, 100_000, 640_000)}}, [][2]int{{40_000, 700_000}}},
		"BackAtOnce":  {[][]lockagent.Reset{{setBy(-60_000, 100_000, 41_000)}}, [][2]int{{40_000, 101_000}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAudit()
			for i, told := range test.told {
				s := agent(lockagent.AgentID(fmt.Sprint("A", i)))
				for _, r := range told {
					s.reset(r)
				}
				for _, r := range s.stop().records {
					a.Add(r)
				}
			}
			var want, got [][2]lockagent.StoreTime
			for _, w := range test.want {
				want = append(want, [2]lockagent.StoreTime{clock(w[0]), clock(w[1])})
			}
			for _, x := range a.stores["s"].Steps {
				got = append(got, [2]lockagent.StoreTime{x.First, x.Last})
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// The clock of the store was set back by ten hours. Hours later an agent has a lock again, with a token that is less
// than its token before. Nobody knows whether the store has lost tokens.
func TestATokenThatIsLessThanOneBeforeAStep(t *testing.T) {
	const hour = 3600_000
	a, b := agent("A").of("b"), agent("B")
	s := new(tape).add(20*hour, b.held(1, 20*hour, 20*hour+100))
	back := setBy(-10*hour, 20*hour+200, 10*hour+300)
	s.add(20*hour+1000, a.reset(back), b.reset(back))
	for n := range 30 {
		at := 10*hour + 10_000 + n*hour/4
		s.add(10*hour+at, a.held(uint64(n+1), at, at+100).alive(at+200), b.alive(at+200))
	}
	at := 18 * hour
	s.add(10*hour+at, b.held(2, at, at+100).alive(at+200), a.alive(at+200)).
		live(10*hour+at+10_000, 10*hour+at+200_000, a, b)
	if r := s.read(newAudit()).Report(); r.Verdict != Incomplete || r.Unproven.Count != 32 {
		t.Errorf("%v", r)
	}
}
