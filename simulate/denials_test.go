package main

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/simulate/plan"
)

// A store may deny no hold, unless a fault explains it. That it forgot explains nothing.
func TestDenials(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		denied bool
		fault  plan.Fault
		beside time.Duration // when outsiders asked for the lock
		wrong  bool
	}{
		"released":               {fault: plan.Fault{At: 20 * s, Kind: plan.Split}},
		"before the fault":       {denied: true, fault: plan.Fault{At: 20 * s, Kind: plan.Split}, wrong: true},
		"after a flush":          {denied: true, fault: plan.Fault{At: 3 * s, Kind: plan.Flush}, wrong: true},
		"with outsiders":         {denied: true, beside: 3 * s, fault: plan.Fault{At: 3 * s, Kind: plan.Flush}},
		"before they came":       {denied: true, beside: 6 * s, fault: plan.Fault{At: 3 * s, Kind: plan.Flush}, wrong: true},
		"with them, earlier":     {denied: true, beside: 3 * s, fault: plan.Fault{At: 20 * s, Kind: plan.Flush}, wrong: true},
		"beside another master":  {denied: true, fault: plan.Fault{At: 3 * s, Kind: plan.Split}},
		"apart from the servers": {denied: true, fault: plan.Fault{At: 3 * s, Kind: plan.Apart}, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := &outcome{
				plan: plan.Plan{Agents: 1, Lease: s, Faults: []plan.Fault{test.fault}},
				holds: []plan.Hold{
					{Lock: "one", Granted: 2 * s, Ending: 4 * s, Ended: 4 * s, Lost: test.denied, Denied: test.denied},
				},
			}
			if test.beside > 0 {
				o.plan.Outsiders, o.plan.Locks = 1, []plan.Lock{{Name: "one", Kind: lockagent.PlainLock}}
				o.waits = []plan.Wait{{Lock: "one", Client: plan.ClientOf(o.plan.Agents, 0, 0), Asked: test.beside, Ended: 7 * s}}
			}
			var v verdict
			if v.judgeDenials(o); len(v.wrong) > 0 != test.wrong {
				t.Errorf("they find wrong: %q", v.wrong)
			}
		})
	}
}
