package main

import (
	"fmt"
	"slices"
	"time"

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
		text := fmt.Sprintf(
			"%v: client %d lost %s, which it had since %v: the store denied it", h.Ended, h.Client, h.Lock, h.Granted,
		)
		i := slices.IndexFunc(o.plan.Faults, func(f plan.Fault) bool {
			return (excuses(f) || forgets(f) && o.tookPart(h)) && f.At <= h.Ended && f.End() >= h.Granted-memory(o.plan)
		})
		if i < 0 {
			v.wrong = append(v.wrong, text)
		} else {
			v.excused = append(v.excused, fmt.Sprintf("%s (%v)", text, o.plan.Faults[i]))
		}
	}
}

// tookPart reports whether an outsider had the lock of a hold, or asked for it, when that hold may have been lost.
func (o *outcome) tookPart(h plan.Hold) bool {
	meets := func(client int, lock string, from, to time.Duration) bool {
		return o.plan.IsOutsider(client) && lock == h.Lock && from <= h.Ended && to >= h.Granted-memory(o.plan)
	}
	return slices.ContainsFunc(o.holds, func(other plan.Hold) bool {
		return meets(other.Client, other.Lock, other.Asked, other.Ended)
	}) || slices.ContainsFunc(o.waits, func(w plan.Wait) bool { return meets(w.Client, w.Lock, w.Asked, w.Ended) })
}
