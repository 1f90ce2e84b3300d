package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/simulate/plan"
)

// longWait is for how long nobody may have a lock that somebody waits for.
const longWait = time.Second

// period is a part of a run.
type period struct{ from, to time.Duration }

// judgeWaits looks for clients that waited although nobody had the lock, and although no fault explains that.
func (v *verdict) judgeWaits(o *outcome) {
	for _, l := range o.plan.Locks {
		explained := o.explained(l)
		waits := slices.Clone(o.waits)
		for _, h := range o.holds {
			waits = append(waits, plan.Wait{Lock: h.Lock, Client: h.Client, Asked: h.Asked, Ended: h.Granted})
		}
		for _, w := range waits {
			if w.Lock != l.Name {
				continue
			}
			if free := longest(period{w.Asked, w.Ended}, explained); free.to-free.from > longWait {
				v.wrong = append(v.wrong, fmt.Sprintf("client %d waited for %s from %v to %v: nobody had it from %v to %v",
					w.Client, w.Lock, w.Asked, w.Ended, free.from, free.to))
			}
		}
	}
}

// explained returns the periods in which a client may wait for a lock, in their order: somebody has the lock, or a
// fault has consequences. At first the store is in a grace period.
func (o *outcome) explained(l plan.Lock) []period {
	periods := []period{{0, redisstore.DefaultGraceFirst + time.Second}}
	for _, f := range o.plan.Faults {
		periods = append(periods, period{f.At, f.End() + memory(o.plan)})
	}
	for _, h := range o.holds {
		if h.Lock == l.Name {
			periods = append(periods, period{h.Granted, h.Ended})
		}
	}
	slices.SortFunc(periods, func(a, b period) int { return cmp.Compare(a.from, b.from) })
	return periods
}

// longest returns the longest part of a period in which there is none of the others, which are in their order.
func longest(whole period, others []period) (free period) {
	at := whole.from
	for _, other := range append(slices.Clone(others), period{whole.to, whole.to}) {
		if next := min(other.from, whole.to); next-at > free.to-free.from {
			free = period{at, next}
		}
		at = max(at, other.to)
	}
	return free
}
