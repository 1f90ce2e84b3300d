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

// worldChange is what an agent has to tell of a change of permits at a time.
type worldChange struct {
	at    int
	event lockagent.Event
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
	case w.cfg.mixed && w.chance(15):
		w.changesMore(a)
	}
	n = 1 + w.rand.IntN(3)
	return n, s.taken()+n > s.total
}

// taken is how many permits are in use.
func (s *worldStore) taken() (n int) {
	for _, t := range s.locks[semaphore] {
		n += t.n - t.back
	}
	return n
}

// changesMore makes a change that few agents make.
func (w *world) changesMore(a *worldAgent) {
	s := a.store
	switch free := s.total - s.taken(); {
	case s.kind == lockagent.Semaphore && free > 0 && free < s.total:
		w.changes(a, lockagent.DrainPermits, free)
	case s.kind == lockagent.Permits && w.chance(2):
		w.changes(a, lockagent.SetPermits, 1+w.rand.IntN(4))
	case s.kind == lockagent.Permits && len(s.locks[semaphore]) > 0:
		t := s.locks[semaphore][w.rand.IntN(len(s.locks[semaphore]))]
		if t.hold == nil {
			return // nobody knows its ids yet
		}
		t.back++
		t.hold.back = append(t.hold.back, w.now)
		// Its other permits come back when the agent renews or releases the tenure.
		tenure := lockagent.Tenure{Agent: t.agent.id, Number: t.number}
		w.changed(a, lockagent.Event{Op: lockagent.ReleasePermit, Permits: 1, Permit: tenure.PermitID(t.back)}, true)
		if t.back == t.n {
			t.over = true
			w.free(a, t)
		}
	}
}

// changes is a change of the number of permits by an agent.
func (w *world) changes(a *worldAgent, op lockagent.PermitsOp, n int) {
	s := a.store
	unanswered := w.happened(w.cfg.mixed, 10, "late change")
	switch {
	case unanswered && w.chance(2): // it was not made
	case op == lockagent.TrySetPermits, op == lockagent.SetPermits:
		s.total = n
	case op == lockagent.AddPermits:
		s.total += n
	case op == lockagent.DrainPermits:
		s.total -= n
	case op == lockagent.DeletePermits:
		s.total = 0
		w.empty(s, semaphore)
	}
	w.changed(a, lockagent.Event{Op: op, Permits: n}, !unanswered)
}

// changed has an agent tell of a change that it has made. It asks again until it is answered, for half a minute at
// most.
func (w *world) changed(a *worldAgent, e lockagent.Event, answered bool) {
	s, at := a.store, w.now
	if e.Kind, e.Lock, e.LockKind = lockagent.EventPermits, semaphore, s.kind; answered {
		w.answered(a)
		e.StoreTime, e.Total = s.begin(w.now), s.total
	} else {
		e.Err = "nobody answers"
	}
	if w.cfg.mixed && (!answered || w.chance(4)) {
		at += w.rand.IntN(30_000)
		w.had["late change"] = true
	}
	a.tells = append(a.tells, worldChange{at, e})
	w.tellChanges(a, w.now)
}

// tellChanges records the changes that an agent has to tell of by a time.
func (w *world) tellChanges(a *worldAgent, by int) {
	a.tells = slices.DeleteFunc(a.tells, func(c worldChange) bool {
		if c.at > by {
			return false
		}
		w.record(a, c.event)
		return true
	})
}

// crowds are the holds of a semaphore that were granted while too few permits were left.
func crowds(of []*trueHold) (bad []badPair) {
	slices.SortStableFunc(of,
		func(x, y *trueHold) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.token, y.token)) })
	for i, y := range of {
		crowd := badPair{y, y, "permits", nil}
		taken := y.n
		for _, x := range of[:i] {
			if x.until > y.from {
				crowd.first = x
				crowd.others = append(crowd.others, x)
				taken += x.n - x.backAt(y.from)
			}
		}
		if taken > y.total && y.until > y.from {
			bad = append(bad, crowd)
		}
	}
	return bad
}

// backAt is how many permits of a hold had been given back by their ids at a time.
func (h *trueHold) backAt(ms int) (n int) {
	for _, at := range h.back {
		if at <= ms {
			n++
		}
	}
	return n
}
