package audit

import (
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

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
	} {
		t.Run(name, func(t *testing.T) { wantNoProof(t, audited(recordsOf(stories))) })
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
