package audit

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// The clock of the store is corrected while an agent has the lock, slowly enough that no reading looks like a step. So
// the store counts fewer seconds than the agent. Nothing is wrong with that, and nothing is proven of such a hold.
func TestAuditOfAStoreWhoseClockSlews(t *testing.T) {
	// A hold of 30 s by the agent, renewed twice. The store's clock is slow by a twelfth: it counts 27.5 s.
	const began, over = 1000, 28_500
	slewed := func(s *story) *story {
		return s.edit(func(r *events.Record) {
			r.Held = 30 * time.Second
			r.Confirmed, r.Until = clock(began+18_333), clock(began+18_333+10_000) // the agent adds what has passed since then
		})
	}
	hold := func() *story { return slewed(agent("A").granted(1, began).released(1, over)) }
	next := func(from int) *story { return agent("B").held(1, from, from+100).stop() }
	const says = "the two clocks ran at different rates"
	verdicts{
		"Returned": {[]*story{hold().returned(1, over).stop(), next(over)}, Incomplete, "unproven: 1", says},
		"NotYet":   {[]*story{hold().stop()}, Incomplete, "unproven: 1", says},
		"WholeHold": {
			[]*story{
				slewed(agent("A").held(1, began, over)).edit(func(r *events.Record) { r.Returned = clock(over) }).stop(),
				next(over),
			}, Incomplete, "unproven: 1", says,
		},
		"HandedOff": { // each hold alone is too short to show it
			[]*story{
				agent("A").granted(1, 1000).released(1, 6000).handedOff(1, 6000).released(1, 11_000).handedOff(1, 11_000).
					released(1, 16_000).returned(1, 15_000).stop(),
				next(15_000),
			},
			Incomplete, "unproven: 1", says,
		},
		"OthersAreProven": { // before it and after it
			[]*story{agent("C").held(1, 100, 900).stop(), hold().returned(1, over).stop(), next(over)},
			Incomplete, "unproven: 1", "3 holds",
		},
		"BothClocks": { // the agent's is fast by a twelfth as well: 25.4 s
			[]*story{
				agent("A").granted(1, 1000).released(1, 31_000).edit(func(r *events.Record) { r.Until = clock(26_500) }).
					returned(1, 26_500).stop(), next(26_500),
			},
			Incomplete, "unproven: 1", says,
		},
		"MoreThanClocksAreCorrected": {
			[]*story{
				agent("A").granted(1, 1000).released(1, 31_000).edit(func(r *events.Record) { r.Until = clock(26_300) }).
					returned(1, 26_300).stop(), next(26_300),
			},
			Violated, "contradiction: 2, overlap: 1", "This is a defect of the agent",
		},
		"BeforeTheLastRenewal": { // which is a reading of the store's clock
			[]*story{
				agent("A").granted(1, 1000).renewed(1, 29_000).released(1, 31_000).returned(1, 28_000).stop(), next(28_000),
			},
			Violated, "contradiction: 1, overlap: 1", "This is a defect of the agent",
		},
		"AnOverlapShows": { // whatever the rates of the clocks are
			[]*story{hold().returned(1, over).stop(), next(20_000)},
			Violated, "overlap: 1", "",
		},
		"AnOverlapMayBeHidden": { // the end may be that of a hold that was longer
			[]*story{
				agent("A").granted(1, 1000).released(1, 31_000).edit(func(r *events.Record) { r.Until = clock(28_000) }).stop(),
				next(28_500),
			},
			Incomplete, "unproven: 1", says,
		},
	}.check(t)
}

// A clock that is fast shows no contradiction. A lease that was lost is proven to be over by the margin that its agent
// keeps.
func TestAuditOfAStoreWhoseClockIsFast(t *testing.T) {
	verdicts{
		"Released": {
			[]*story{
				agent("A").granted(1, 1000).renewed(1, 20_000).released(1, 33_500).
					edit(func(r *events.Record) { r.Held = 30 * time.Second }).returned(1, 33_500).stop(),
				agent("B").held(1, 33_500, 33_600).stop(),
			},
			Proven, "", "",
		},
		"Lost": {
			[]*story{
				agent("A").granted(1, 1000).lost(lockagent.LostDeadline, 1, 29_000).stop(),
				agent("B").held(1, 31_000, 31_100).stop(),
			},
			Proven, "", "",
		},
	}.check(t)
}
