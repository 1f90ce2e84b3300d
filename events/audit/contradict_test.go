package audit

import (
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// An agent contradicts itself, and by that an overlap would be hidden.
func TestAuditOfAnAgentThatContradictsItself(t *testing.T) {
	other := func(from, to int) *story { return agent("B").held(1, from, to).stop() }
	whole := func(tenure uint64, from, to int) lockagent.Event {
		return agent("A").held(tenure, from, to).records[1].Event
	}
	verdicts{
		"ReturnedInTheEndBeforeItWasHeld": {
			[]*story{
				agent("A").held(1, 1000, 5000).edit(func(r *events.Record) { r.Returned = clock(2000) }).stop(), other(3000, 3500),
			},
			Violated, "contradiction: 1, overlap: 1",
			"it is said to have been returned at 2026-03-01T14:00:02.000Z, but was held until",
		},
		"ReturnedBeforeItWasHeld": {
			[]*story{agent("A").granted(1, 1000).released(1, 5000).returned(1, 2000).stop(), other(3000, 3500)},
			Violated, "contradiction: 1, overlap: 1",
			"it is said to have been returned at 2026-03-01T14:00:02.000Z, but was held until",
		},
		"FoundOverBeforeItsLastRenewal": {
			[]*story{
				agent("A").granted(1, 1000).renewed(1, 4000).lost(lockagent.LostDenied, 1, 5000).foundOver(1, 2000).stop(),
				other(3000, 3500),
			},
			Violated, "contradiction: 1, overlap: 1",
			"it is said to have been over at 2026-03-01T14:00:02.000Z, but was held until 2026-03-01T14:00:04.000Z at least",
		},
		"TheNextHoldOfATenureEndsBeforeTheLast": {
			[]*story{
				agent("A").granted(1, 1000).released(1, 5000).handedOff(1, 5000).released(1, 5100).
					edit(func(r *events.Record) { r.Until = clock(3000) }).returned(1, 5200).stop(),
				other(3500, 4000),
			},
			Violated, "contradiction: 1, overlap: 1",
			"it is said to have ended at 2026-03-01T14:00:03.000Z at the latest, but was held until",
		},
		"TwoTenuresAtOnce": {
			[]*story{agent("A").held(1, 1000, 5000).held(2, 3000, 3500).stop()},
			Violated, "overlap: 1", "the agent granted the lock to the second owner while the first still had it",
		},
		"TwoWholeHoldsOfATenure": {
			[]*story{agent("A").held(1, 1000, 5000).edit(func(r *events.Record) { r.Returned = 0 }).
				add(whole(1, 2000, 4000)).edit(func(r *events.Record) { r.How, r.Returned = lockagent.ByHandOff, 0 }).stop()},
			Violated, "contradiction: 1", "",
		},
		"AHoldThatBeganBeforeTheLastEnded": { // it ends later, but it was held for too long for that
			[]*story{agent("A").held(1, 1000, 5000).edit(func(r *events.Record) { r.Returned = 0 }).
				add(whole(1, 1000, 6000)).
				edit(func(r *events.Record) { r.How, r.Token, r.Returned = lockagent.ByHandOff, r.Token+1, 0 }).stop()},
			Violated, "contradiction: 1", "",
		},
		"OneOfThreePermitsOfTwo": {
			[]*story{
				agent("A").permits(lockagent.Permits, 1, 2).changes(500, lockagent.TrySetPermits, 2).held(1, 1000, 5000).
					edit(func(r *events.Record) { r.Returned = clock(2000) }).stop(),
				agent("B").permits(lockagent.Permits, 1, 2).held(1, 1100, 4000).stop(),
				agent("C").permits(lockagent.Permits, 1, 2).held(1, 3000, 3500).stop(),
			},
			Violated, "contradiction: 1, too many permits: 1", "",
		},
		"AHoldWithoutAGrant": { // that three signs of life count
			[]*story{
				agent("A").alive(1000).alive(10_000).edit(func(r *events.Record) { r.Count = 1 }).alive(20_000).
					edit(func(r *events.Record) { r.Count = 1 }).
					alive(30_000).edit(func(r *events.Record) { r.Count = 1 }).stop(),
				other(15_000, 16_000),
			},
			Violated, "contradiction: 1, unproven: 1", `violation: agent A, billing on host-A, pid 7: contradiction
    record: from 2026-03-01T14:00:10.000Z [A:1:3]
    why:    a sign of life of the agent contradicts its other records: it counts 1 hold, and ` +
				`the log has the grants of 0 that go on`,
		},
		"ARenewalAfterAllHolds": {
			[]*story{
				agent("A").held(1, 1000, 5000).alive(10_000).alive(20_100).
					edit(func(r *events.Record) { r.Confirmed = clock(20_000) }).stop(),
				other(15_000, 16_000),
			},
			Violated, "contradiction: 1", "a lease was renewed at 2026-03-01T14:00:20.000Z",
		},
	}.check(t)
}
