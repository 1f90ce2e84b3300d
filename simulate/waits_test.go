package main

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent/simulate/plan"
)

// Nobody waits long for a lock that nobody has, unless a fault explains it.
func TestWaits(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		asked, ended time.Duration
		granted      bool
		holds        []plan.Hold
		faults       []plan.Fault
		wrong        bool
	}{
		"in vain":             {asked: 10 * s, ended: 14 * s, wrong: true},
		"too long":            {asked: 10 * s, ended: 14 * s, granted: true, wrong: true},
		"not long":            {asked: 10 * s, ended: 11 * s},
		"at first":            {asked: s / 10, ended: 4 * s},
		"for somebody":        {asked: 10 * s, ended: 16 * s, holds: []plan.Hold{{Asked: 9 * s, Granted: 9 * s, Ended: 15 * s}}},
		"for another lock":    {asked: 10 * s, ended: 16 * s, wrong: true, holds: []plan.Hold{{Lock: "two", Asked: 9 * s, Granted: 9 * s, Ended: 13 * s}}},
		"for somebody before": {asked: 10 * s, ended: 16 * s, holds: []plan.Hold{{Asked: 9 * s, Granted: 9 * s, Ended: 11 * s}}, wrong: true},
		"for two": {asked: 10 * s, ended: 16 * s, holds: []plan.Hold{
			{Asked: 9 * s, Granted: 9 * s, Ended: 12 * s},
			{Asked: 8 * s, Granted: 8 * s, Ended: 11 * s},
			{Asked: 13 * s, Granted: 13 * s, Ended: 15 * s},
		}},
		"after a fault":      {asked: 10 * s, ended: 13 * s, faults: []plan.Fault{{Kind: plan.Kill, At: 8 * s, For: s}}},
		"long after a fault": {asked: 10 * s, ended: 17 * s, faults: []plan.Fault{{Kind: plan.Kill, At: 8 * s, For: s}}, wrong: true},
		"before a fault":     {asked: 10 * s, ended: 17 * s, faults: []plan.Fault{{Kind: plan.Kill, At: 14 * s, For: s}}, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := &outcome{holds: test.holds, plan: plan.Plan{Lease: 2 * s, Faults: test.faults, Locks: []plan.Lock{{}}}}
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
