package audit

import (
	"cmp"
	"slices"

	"github.com/lockagent/lockagent"
)

// semaphore is the lock of a world that is one. Its kind is that of its store.
const semaphore lockagent.Name = "s"

func (s *worldStore) kindOf(name lockagent.Name) lockagent.LockKind {
	if name == semaphore {
		return s.kind
	}
	return lockagent.PlainLock
}

// wantsPermits is how many permits an agent asks for, and whether too few are free. Before that it may change their
// number.
func (w *world) wantsPermits(a *worldAgent) (n int, busy bool) {
	s := a.store
	switch {
	case s.total == 0:
		w.changes(a, lockagent.TrySetPermits, 1+w.rand.IntN(4))
	case w.chance(15):
		w.changes(a, lockagent.AddPermits, max(1-s.total, w.rand.IntN(4)-2))
	case w.cfg.breaks && w.chance(60):
		w.had["break"] = true
		w.changes(a, lockagent.DeletePermits, 0)
		return 1, true
	}
	n = 1 + w.rand.IntN(3)
	taken := 0
	for _, t := range s.locks[semaphore] {
		taken += t.n
	}
	return n, taken+n > s.total
}

// changes is a change by an agent. What it tells of the others comes later.
func (w *world) changes(a *worldAgent, op lockagent.PermitsOp, n int) {
	s := a.store
	w.answered(a)
	at := s.begin(w.now)
	switch op {
	case lockagent.TrySetPermits:
		s.total = n
	case lockagent.AddPermits:
		s.total += n
	case lockagent.DeletePermits:
		s.total = 0
		w.empty(s, semaphore)
	}
	w.record(a, lockagent.Event{
		Kind: lockagent.EventPermits, Lock: semaphore, LockKind: s.kind, Op: op, Permits: n, Total: s.total, StoreTime: at,
	})
}

// crowds are the holds of a semaphore that were granted while too few permits were left.
func crowds(of []*trueHold) (bad []badPair) {
	slices.SortStableFunc(of, func(x, y *trueHold) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.token, y.token)) })
	for i, y := range of {
		crowd := badPair{y, y, "permits", nil}
		taken := y.n
		for _, x := range of[:i] {
			if x.until > y.from {
				crowd.first = x
				crowd.others = append(crowd.others, x)
				taken += x.n
			}
		}
		if taken > y.total && y.until > y.from {
			bad = append(bad, crowd)
		}
	}
	return bad
}
