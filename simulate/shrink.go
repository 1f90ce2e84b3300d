package main

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent/simulate/plan"
)

// shrink makes the script of faults of a plan shorter, as long as the run still fails.
func shrink(p plan.Plan, fails func(plan.Plan) (bool, error)) (plan.Plan, error) {
	for smaller := true; smaller; {
		smaller = false
		for _, next := range shorter(p) {
			failed, err := fails(next)
			if err != nil {
				return p, err
			}
			if failed {
				p, smaller = next, true
				break
			}
		}
	}
	return p, nil
}

// shortest is how short the times of a fault become at least.
const shortest = 50 * time.Millisecond

// shorter returns the plans that are a step shorter: without one of the faults, or with one that lasts half as long.
func shorter(p plan.Plan) (plans []plan.Plan) {
	for i := range p.Faults {
		next := p
		next.Faults = slices.Delete(slices.Clone(p.Faults), i, i+1)
		plans = append(plans, next)
	}
	for i, f := range p.Faults {
		if f.For < 2*shortest && f.Lag.Abs() < 2*shortest {
			continue
		}
		next := p
		next.Faults = slices.Clone(p.Faults)
		next.Faults[i] = f.Half()
		plans = append(plans, next)
	}
	return plans
}
