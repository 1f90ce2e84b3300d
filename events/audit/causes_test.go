package audit

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// resetAt is a reset of the store at a time.
func resetAt(from, to string, ms int) lockagent.Reset {
	return lockagent.Reset{From: from, To: to, Reason: "emptied", After: clock(ms), Before: clock(ms + 100)}
}

// denied is the log of an agent whose tenure was over when it asked, 4 s after the grant.
func denied() *story { return agent("A").granted(1, 1000).lost(lockagent.LostDenied, 1, 5000).stop() }

// A cause explains a denial if it came in the tenure.
func TestCausesOfADenial(t *testing.T) {
	const unexplained = "the store said that the tenure was over, and the log does not say why"
	verdicts{
		"Break":          {[]*story{denied(), agent("B").broke(3000).stop()}, Proven, "", ""},
		"BreakBefore":    {[]*story{denied(), agent("B").broke(500).stop()}, Incomplete, "unproven: 1", unexplained},
		"BreakLater":     {[]*story{denied(), agent("B").broke(20_000).stop()}, Incomplete, "unproven: 1", unexplained},
		"BreakOfAnother": {[]*story{denied(), agent("B").of("b").broke(3000).stop()}, Incomplete, "unproven: 1", unexplained},
		"Reset":          {[]*story{denied(), agent("B").reset(resetAt("x", "y", 3000)).stop()}, Proven, "", ""},
		"ResetBefore": {
			[]*story{denied(), agent("B").reset(resetAt("x", "y", 100)).stop()}, Incomplete, "unproven: 1", unexplained,
		},
		"ResetLater": {
			[]*story{denied(), agent("B").reset(resetAt("x", "y", 20_000)).stop()}, Incomplete, "unproven: 1", unexplained,
		},
		"ResetOfAnother": {
			[]*story{denied(), agent("B").at("t").reset(resetAt("x", "y", 3000)).stop()}, Incomplete, "unproven: 1", unexplained,
		},
		"StepForward": {
			[]*story{denied(), agent("B").reset(setBy(40_000, 2000, 42_000)).stop()},
			Incomplete, "unproven: 1",
			"somebody set the clock",
		},
		"StepLater": {
			[]*story{denied(), agent("B").reset(setBy(10_000, 20_000, 32_000)).stop()}, Incomplete, "unproven: 1", unexplained,
		},
		"ResetThatIsNoticedLate": { // but it is the end of the incarnation that the grant names
			[]*story{
				agent("A").on("x").granted(1, 1000).lost(lockagent.LostDenied, 1, 5000).stop(),
				agent("B").on("x").reset(resetAt("x", "y", 20_000)).stop(),
			},
			Proven, "", "",
		},
		"TheAnswerTookLong": { // the holder had the lock until the answer was there
			[]*story{
				agent("A").granted(1, 1000).lost(lockagent.LostDenied, 1, 5000).foundOver(1, 4900).stop(),
				agent("B").broke(3000).stop(),
			},
			Proven, "", "",
		},
		"BrokenAndThenReturned": {
			[]*story{
				agent("A").granted(1, 1000).ended(lockagent.EventBroken, lockagent.LostBroken, 1, 2000).foundOver(1, 2001).stop(),
			},
			Proven, "", "",
		},
		"ResetWithoutNamesLater": {
			[]*story{denied(), agent("B").reset(resetAt("", "y", 20_000)).stop()}, Incomplete, "unproven: 1", unexplained,
		},
		"NoLease": {
			[]*story{agent("A").leasing(0).granted(1, 1000).lost(lockagent.LostDenied, 1, 5000).stop()},
			Incomplete,
			"unproven: 1", unexplained,
		},
		"JustBeforeItsLeaseWasOver": {
			[]*story{agent("A").granted(1, 1000).lost(lockagent.LostDenied, 1, 30_500).stop()},
			Incomplete, "unproven: 1", unexplained,
		},
		"LeaseWasOver": {
			[]*story{agent("A").leasing(2*time.Second).granted(1, 1000).released(1, 2500).foundOver(1, 4000).stop()},
			Proven, "", "",
		},
	}.check(t)
}

// A cause explains an overlap if it came between the two grants, and the first holder could not know.
func TestCausesOfAnOverlap(t *testing.T) {
	const explained, overlap = "explained: 1", "overlap: 1"
	after := func(s *story) *story { return s.held(1, 1500, 2200).stop() }
	lost := func() *story { return agent("A").granted(1, 1000).lost(lockagent.LostDenied, 1, 9000).stop() }
	verdicts{
		"Break":       {[]*story{lost(), after(agent("B").broke(1400))}, Explained, explained, ""},
		"BreakBefore": {[]*story{lost(), after(agent("B").broke(900))}, Violated, overlap, ""},
		"BreakAfter":  {[]*story{lost(), agent("B").held(1, 1500, 2200).broke(2500).stop()}, Violated, overlap, ""},
		"BrokenMuchEarlier": {
			[]*story{agent("A").granted(1, 1000).renewed(1, 8000).ended(lockagent.EventBroken, lockagent.LostBroken, 1, 9000).
				stop(), after(agent("B"))}, Violated, overlap, "",
		},
		"BreakAndStillHeld": { // what B held may be beside what A did in its lost end
			[]*story{agent("A").granted(1, 1000).alive(2000), after(agent("B").broke(1400))},
			Incomplete,
			"explained: 1, not stopped: 1, unproven: 1", "an operator (olga) broke the lock",
		},
		"NoLease": { // nobody can say until when the holder could be sure
			[]*story{
				agent("A").leasing(0).granted(1, 1000).lost(lockagent.LostDenied, 1, 9000).stop(),
				after(agent("B").broke(1400)),
			},
			Violated, overlap, "",
		},
		"Reset":       {[]*story{lost(), after(agent("B").reset(resetAt("x", "y", 1100)))}, Explained, explained, ""},
		"ResetBefore": {[]*story{lost(), after(agent("B").reset(resetAt("x", "y", 500)))}, Violated, overlap, ""},
		"ResetAfter":  {[]*story{lost(), after(agent("B").reset(resetAt("x", "y", 1600)))}, Violated, overlap, ""},
		"ResetThatTheHolderHadNoticed": { // others noticed it later, and A noticed others later
			[]*story{
				agent("A").reset(resetAt("w", "y", 64_000)).reset(resetAt("x", "z", 64_000)).reset(resetAt("x", "y", 1050)).
					granted(1, 1000).renewed(1, 60_000).lost(lockagent.LostDenied, 1, 61_000).stop(),
				agent("B").reset(resetAt("x", "y", 65_000)).held(1, 30_000, 31_000).stop(),
			},
			Violated, overlap, "",
		},
		"BreakOfALockThatWasPassed": { // its lease is short in the log, but the agent renews it to the one that it needs
			[]*story{
				agent("A").of("b").held(1, 100, 200).of("a").leasing(2*time.Second).granted(2, 1000).alive(20_000).stop(),
				after(agent("B").broke(1400)),
			},
			Explained, explained, "",
		},
		"OnlyTheFirstIsNamed": {
			[]*story{agent("A").on("x").held(1, 1000, 2000).stop(), after(agent("B"))}, Violated, overlap, "",
		},
		"OnlyTheSecondIsNamed": {
			[]*story{agent("A").held(1, 1000, 2000).stop(), after(agent("B").on("y"))}, Violated, overlap, "",
		},
		"ResetOfAnotherIncarnation": { // of which A's is none
			[]*story{
				agent("A").on("w").granted(1, 1000).lost(lockagent.LostDenied, 1, 9000).stop(),
				agent("B").reset(resetAt("x", "y", 1100)).on("y").held(1, 1500, 2200).stop(),
			},
			Incomplete, "unproven: 1", "was granted by another incarnation of the store, and no record tells of a reset",
		},
	}.check(t)
}
