package events

import (
	"slices"
	"testing"

	"github.com/lockagent/lockagent"
)

// Each of these logs could hide an overlap, or has one without a cause.
func TestAuditIsNotDeceived(t *testing.T) {
	aHolds := func(from, until int) *story {
		return agent("A").alive(100).held(1, from, until).alive(until + 1000).stop()
	}
	overlapped := func(before func(a *story)) []Record {
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
	early.edit(func(r *Record) { r.Until, r.Confirmed = clock(570000), clock(565000) })
	early.stop()

	for name, test := range map[string]struct {
		log  []Record
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
				a.reset(lockagent.Reset{From: "i1", To: "i1", Reason: "other identity", After: clock(500), Before: clock(500), Store: "old"})
			}), Violated,
		},
		"a small step of the clock excuses no long overlap": {
			overlapped(func(a *story) { a.reset(lockagent.Reset{After: clock(500), Before: clock(600)}) }), Violated,
		},
		"an end is told for earlier than it was": {
			append(early.records, agent("B").alive(100).held(1, 571000, 572000).stop().records...), Violated,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if r := audited(test.log); r.Verdict != test.want {
				t.Errorf("%s, want %s\n%v", r.Verdict, test.want, r)
			}
		})
	}
}
