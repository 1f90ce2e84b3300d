package audit

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// What two clocks of a store told is not compared, of a number of permits and of a tenure that becomes shared neither.
func TestWhatIsNotComparedOverAStep(t *testing.T) {
	back := lockagent.Reset{From: "x", To: "x", Reason: "clock stepped", After: clock(195_000), Before: clock(46_000)}
	forth := lockagent.Reset{
		From: "x", To: "x", Reason: "clock stepped", After: clock(139_900), Before: clock(200_000), Step: time.Minute,
	}
	// The number of permits is set, the clock is set back, and the number is lowered. The store tells B no number.
	fewer := func(n int) []*story {
		a := agent("A").permits(lockagent.Permits, 1, 0).changes(100_000, lockagent.SetPermits, 3).reset(back)
		b := agent("B").permits(lockagent.Permits, 1, 0).reset(back)
		a.changes(50_000, lockagent.AddPermits, n)
		return []*story{a.stop(), b.granted(1, 300_000).granted(2, 300_500).released(2, 301_000).returned(2, 301_001).
			released(1, 301_500).returned(1, 301_501).stop()}
	}
	writer := agent("A").leasing(time.Minute).granted(1, 100_000).renewed(1, 130_000).
		endedOf(lockagent.EventReleased, 0, 1, lockagent.Token(clock(100_000)), 150_000)
	writer.in(lockagent.Shared).renewed(1, 250_000).handedOff(1, 250_000).released(1, 300_000).returned(1, 300_001).stop()
	verdicts{
		"PermitsThatWereLowered": {fewer(-2), Incomplete, "unproven: 2", "somebody set the clock of the store"},
		"AReaderBehindAStep": {
			[]*story{writer, agent("B").in(lockagent.Shared).reset(forth).held(1, 202_000, 204_000).stop()},
			Incomplete, "unproven: 2", "somebody set the clock of the store",
		},
	}.check(t)
}

// A session gives its write lock back by a clock that runs faster than the store's, and goes on reading. When the write
// lock was over is known by the store's clock only.
func TestDowngradeWhileAClockIsCorrected(t *testing.T) {
	a := agent("A").leasing(time.Minute).granted(1, 1000).in(lockagent.Shared).reentered(1, 2000).renewed(1, 118_000)
	a.in(lockagent.Exclusive).ended(lockagent.EventReleased, 0, 1, 121_000).edit(func(r *events.Record) {
		r.Held, r.Until = 130*time.Second, clock(121_400)
	})
	a.in(lockagent.Shared).renewed(1, 150_000).released(1, 151_000).returned(1, 151_001).stop()
	verdicts{
		"AReader": {
			[]*story{a, agent("B").in(lockagent.Shared).held(1, 121_200, 122_000).stop()},
			Incomplete, "unproven: 1", "ran at different rates",
		},
	}.check(t)
}
