package audit

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/fold"
)

// explain looks for the cause of an overlap in the log: a reset of the store, or a break. The first span has the
// earlier start.
//
// A cause explains only what its holder could not know yet. An agent trusts a lease only until its
// end, and the store confirms none of a tenure that it has forgotten. So the first must have been
// confirmed for the last time before the cause, and have ended when that lease was over.
//
// A reset explains nothing if a grace period covers it. graced says that only such resets lie between the two.
func (a *Audit) explain(store *storeLog, lock *lockLog, first, second *span) (e Explanation, explained, graced bool) {
	end, known := first.Until, first.Open == 0 && !first.NoEnd
	if !known {
		end = a.atLeast(first)
	}
	from, lease := first.Start, first.Lease
	if lease == 0 {
		return Explanation{}, false, false
	}
	if limit := first.confirmedEnd(); known && end > limit {
		return Explanation{}, false, false
	}
	inTime := func(cause lockagent.StoreTime) bool {
		return first.Confirmed <= cause.Add(slack) && end <= cause.Add(max(lease, a.lease(first))+slack)
	}
	covers := func(r *resetSpan) bool { return a.covers(store, r, first, second) }
	for _, x := range first.incarnations(a, second.Start) {
		for _, y := range second.incarnations(a, second.Start) {
			r, covered := store.between(x, y, from, second.Start, covers)
			if r != nil && inTime(a.noticed(first, r)) {
				return r.explains(), true, false
			}
			graced = graced || covered
		}
	}
	for _, b := range a.breaks(lock) {
		if !b.Perhaps && b.At >= from && b.At <= second.Start && inTime(b.At) {
			return Explanation{BrokenAt: b.At, Operator: b.Operator, Deleted: b.Deleted}, true, false
		}
	}
	if known && first.Last.Kind == lockagent.EventBroken && first.Confirmed <= second.Start.Add(slack) {
		return Explanation{Operator: first.Last.Operator, Broken: true}, true, false
	}
	return Explanation{}, false, graced
}

// breaks are those of a lock. An agent that had not named its store may have broken the lock of any.
func (a *Audit) breaks(lock *lockLog) []lockBreak {
	if of := a.locks[fold.LockKey{Store: "", Kind: lock.Kind, Lock: lock.Lock}]; of != nil && of != lock &&
		len(of.Breaks) > 0 {
		return slices.Concat(lock.Breaks, of.Breaks)
	}
	return lock.Breaks
}

// noticed is when the agent of a span noticed a reset at the latest. Others may have noticed it much
// earlier or later.
func (a *Audit) noticed(s *span, r *resetSpan) lockagent.StoreTime {
	for _, own := range a.logs[s.Agent].Resets {
		if own.From == r.From && own.To == r.To {
			return max(own.After, own.Before)
		}
	}
	return r.Last
}

// lease is the longest lease that the holder of a span may have.
func (a *Audit) lease(s *span) time.Duration {
	if s.Open > 0 {
		return max(s.Lease, a.logs[s.Agent].Lease)
	}
	return s.Lease
}

// incarnations returns the incarnations that may have confirmed the tenure before a time. The first
// is the one that its grant names. Then come those to which its agent switched. The agent may have
// noticed late that the next one served it. If the next one is known to have confirmed the
// tenure, those before do not count.
func (s *span) incarnations(a *Audit, until lockagent.StoreTime) []string {
	all := []string{s.first().Incarnate}
	for _, r := range a.logs[s.Agent].Resets {
		if r.From == r.To || r.From != all[len(all)-1] || r.After >= until || r.Before < s.Start {
			continue
		}
		if s.Confirmed > r.Before {
			all = nil
		}
		all = append(all, r.To)
	}
	return all
}

// apart reports whether no incarnation can have confirmed both tenures. It is false if the log does
// not name them.
func (a *Audit) apart(first, second *span) bool {
	later := max(first.Start, second.Start)
	x, y := first.incarnations(a, later), second.incarnations(a, later)
	return x[0] != "" && y[0] != "" && !slices.ContainsFunc(x, func(one string) bool { return slices.Contains(y, one) })
}

// unexpected is empty if the log says why the store said that a tenure was over. Otherwise it says what is odd.
func (a *Audit) unexpected(store *storeLog, lock *lockLog, s *span) (why string) {
	if end := s.confirmedEnd(); end != 0 && s.DeniedAt >= end {
		return "" // its lease had run out
	}
	if s.Last.Kind == lockagent.EventBroken || len(s.Back) > 0 {
		return ""
	}
	why = "the store said that the tenure was over, and the log does not say why: " +
		"no reset, no break, and its lease had not run out"
	until := s.DeniedAt.Add(slack)
	for i := range store.Resets {
		r := &store.Resets[i]
		if !(r.Last >= s.Start && r.First <= until || r.From != "" && r.From == s.first().Incarnate) {
			continue
		}
		if !a.lostDespiteGrace(store, r, s) {
			return ""
		}
		why = "the store was reset, and ended the hold although its agent could come back in a grace period"
	}
	for _, b := range a.breaks(lock) {
		if !b.Perhaps && b.At >= s.Start && b.At <= until {
			return ""
		}
	}
	return why
}
