package main

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent/simulate/plan"
)

// Nobody waits long for a lock that nobody has, unless a fault explains it.
func TestWaits(t *testing.T) {
	const s = time.Second
	held := func(from, to time.Duration) plan.Hold { return plan.Hold{Asked: from, Granted: from, Ended: to} }
	for name, test := range map[string]struct {
		asked, ended time.Duration
		granted      bool
		holds        []plan.Hold
		fault        time.Duration // when an agent was killed for a second, or 0
		wrong        bool
	}{
		"in vain":      {asked: 10 * s, ended: 14 * s, wrong: true},
		"too long":     {asked: 10 * s, ended: 14 * s, granted: true, wrong: true},
		"not long":     {asked: 10 * s, ended: 11 * s},
		"at first":     {asked: s / 10, ended: 4 * s},
		"for somebody": {asked: 10 * s, ended: 16 * s, holds: []plan.Hold{held(9*s, 15*s)}},
		"for another lock": {
			asked: 10 * s, ended: 16 * s, wrong: true,
			holds: []plan.Hold{{Lock: "two", Asked: 9 * s, Granted: 9 * s, Ended: 13 * s}},
		},
		"for somebody before": {asked: 10 * s, ended: 16 * s, holds: []plan.Hold{held(9*s, 11*s)}, wrong: true},
		"for two": {
			asked: 10 * s, ended: 16 * s,
			holds: []plan.Hold{held(9*s, 12*s), held(8*s, 11*s), held(13*s, 15*s)},
		},
		"after a fault":      {asked: 10 * s, ended: 13 * s, fault: 8 * s},
		"long after a fault": {asked: 10 * s, ended: 17 * s, fault: 8 * s, wrong: true},
		"before a fault":     {asked: 10 * s, ended: 17 * s, fault: 14 * s, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := &outcome{holds: test.holds, plan: plan.Plan{Lease: 2 * s, Locks: []plan.Lock{{}}}}
			if test.fault > 0 {
				o.plan.Faults = []plan.Fault{{Kind: plan.Kill, At: test.fault, For: s}}
			}
			if test.granted {
				o.holds = append(o.holds, plan.Hold{Asked: test.asked, Granted: test.ended, Ended: test.ended + s})
			} else {
				o.waits = append(o.waits, plan.Wait{Asked: test.asked, Ended: test.ended})
			}
			var v verdict
			if v.judgeWaits(o); len(v.wrong) > 0 != test.wrong {
				t.Errorf("they find wrong: %q", v.wrong)
			}
		})
	}
}
