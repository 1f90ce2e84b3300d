package events

import (
	"cmp"

	"github.com/lockagent/lockagent"
)

// resets are the resets of the store that a log tells of, each once.
type resets []resetSpan

// resetSpan is what all agents together tell of one reset. They notice it at
// different times: the old incarnation may still serve one agent when the new one
// has long served another.
type resetSpan struct {
	*StoreReset // the first event that tells of it

	first, last lockagent.StoreTime // the earliest and the latest time that any of them tells
}

// newResets expects the events in their order.
func newResets(events []StoreReset) resets {
	var all resets
	places := make(map[[2]string]int)
	for i := range events {
		r := &events[i]
		if r.From == r.To {
			continue // the clock was set: on that clock, leases ended in order
		}
		names := [2]string{r.From, r.To}
		place, met := places[names]
		if !met {
			place = len(all)
			places[names] = place
			all = append(all, resetSpan{r, min(r.After, r.Before), max(r.After, r.Before)})
		}
		span := &all[place]
		span.first = min(span.first, r.After, r.Before)
		span.last = max(span.last, r.After, r.Before)
	}
	return all
}

// between returns a reset that lies between two incarnations, or nil. The name of an
// incarnation may not be known. Then the reset must lie between two times.
func (all resets) between(a, b string, earlier, later lockagent.StoreTime) *StoreReset {
	if a != "" && b != "" {
		return cmp.Or(all.path(a, b), all.path(b, a))
	}
	for _, r := range all {
		if r.last >= earlier && r.first <= later && (a == "" || a == r.From) && (b == "" || b == r.To) {
			return r.StoreReset
		}
	}
	return nil
}

// path returns the first of the resets that lead from one incarnation to another, or nil.
func (all resets) path(from, to string) *StoreReset {
	first := map[string]*StoreReset{from: nil} // on the path to each incarnation
	for reached := []string{from}; len(reached) > 0; reached = reached[1:] {
		for _, r := range all {
			if _, again := first[r.To]; !again && r.From == reached[0] {
				first[r.To] = cmp.Or(first[r.From], r.StoreReset)
				reached = append(reached, r.To)
			}
		}
	}
	return first[to]
}
