package main

import (
	"fmt"
	"slices"

	"github.com/lockagent/lockagent/simulate/plan"
)

// judgeDenials looks for holds that the store ended although their clients trusted them: a store that forgets gets them
// back from the agents, and says so of none. Outsiders do not come back, and may have taken what an agent comes back
// with.
func (v *verdict) judgeDenials(o *outcome) {
	for _, h := range o.holds {
		if !h.Denied {
			continue
		}
		text := fmt.Sprintf("%v: client %d lost %s, which it had since %v: the store denied it", h.Ended, h.Client, h.Lock, h.Granted)
		i := slices.IndexFunc(o.plan.Faults, func(f plan.Fault) bool {
			return (excuses(f) || o.plan.Shared(h.Lock) && forgets(f)) && f.At <= h.Ended && f.End() >= h.Granted-memory(o.plan)
		})
		if i < 0 {
			v.wrong = append(v.wrong, text)
		} else {
			v.excused = append(v.excused, fmt.Sprintf("%s (%v)", text, o.plan.Faults[i]))
		}
	}
}
