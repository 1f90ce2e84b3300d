package memstore

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

const (
	// keepAsking is within what time a place is to ask again. This memory takes no place away from an agent that
	// listens. Other stores do.
	keepAsking = 2 * time.Second
	// takesIt is how long a free lock is kept for another program that was told.
	takesIt = 6 * time.Second
)

// fairPlace is a place at a fair lock.
type fairPlace struct {
	tenure  lockagent.Tenure
	came    lockagent.StoreTime
	foreign *foreignWaiter // in place of a tenure
}

// foreignWaiter is another program that has a place at a fair lock.
type foreignWaiter struct {
	until time.Time
	told  func()
}

// PlantWaiter gives another program the last place at a fair lock, for some time. The store calls told when
// it keeps the lock for that program. It is for tests.
func (s *Store) PlantWaiter(name lockagent.Name, wait time.Duration, told func()) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	l := m.keep(name, lockagent.FairLock, now)
	l.places = append(l.places, fairPlace{foreign: &foreignWaiter{now.Add(wait), told}})
}

// placeOf is the index of the place of a tenure, or -1.
func (l *lock) placeOf(tenure lockagent.Tenure) int {
	return slices.IndexFunc(l.places, func(p fairPlace) bool { return p.foreign == nil && p.tenure == tenure })
}

// giveUp takes the place of a tenure away, and reports whether there was one.
func (l *lock) giveUp(tenure lockagent.Tenure) bool {
	i := l.placeOf(tenure)
	if i >= 0 {
		l.places = slices.Delete(l.places, i, i+1)
	}
	return i >= 0
}

// acquireFair is an Acquire of a fair lock. A free lock is for the first place: an Acquire of another tenure
// passes it to that one.
func (m *memory) acquireFair(v *visit, req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
	if v.now.Before(m.withdrawn[claim{req.Name, req.Tenure}]) {
		return lockagent.AcquireReply{}, lockagent.ErrWithdrawn
	}
	l := m.keep(req.Name, req.Kind, v.now)
	if l.value {
		return lockagent.AcquireReply{}, lockagent.ErrWrongType
	}
	if !m.clock.raise(v.now, lockagent.StoreTime(req.Floor), req.Exact) {
		return lockagent.AcquireReply{}, errFarFloor
	}
	reply := lockagent.AcquireReply{Clock: m.clock.name, Incarnation: m.clock.incarnation}
	var kept *foreignWaiter
	if !l.held() && l.placeOf(req.Tenure) != 0 {
		_, kept = m.handOn(v, req.Name, l, "", req.Tenure)
	}
	if own := l.heldBy(req.Tenure); own != nil || !l.held() && kept == nil {
		at := m.clock.begin(v.now)
		if own != nil {
			own.extend(v.now, req.Lease)
		} else {
			l.begin(place{tenure: req.Tenure, kind: lockagent.FairLock}, v.now, req.Lease)
		}
		l.giveUp(req.Tenure)
		reply.Contested = req.Queue && len(l.places) > 0
		reply.Granted, reply.At, reply.Token = true, at, lockagent.Token(at)
		return reply, nil
	}
	reply.At = m.clock.at(v.now)
	if l.held() {
		reply.Holder, reply.Remaining = l.holders[0].String(), l.remaining(v.now)
		m.want(v, &req, l)
	} else {
		reply.Remaining = kept.until.Sub(v.now)
	}
	if req.Queue {
		m.takePlace(&req, l, &reply)
	}
	return reply, nil
}

// takePlace gives a tenure the last place, unless it has a place. One that has lost its place comes just before the
// first that came later.
func (m *memory) takePlace(req *lockagent.AcquireRequest, l *lock, reply *lockagent.AcquireReply) {
	at := l.placeOf(req.Tenure)
	if at < 0 {
		came := req.Arrived
		if came == 0 {
			came = reply.At
			for slices.ContainsFunc(l.places, func(p fairPlace) bool { return p.came == came }) {
				came++ // each has a time of its own, as its agent will say
			}
		}
		at = slices.IndexFunc(l.places, func(p fairPlace) bool { return p.foreign == nil && p.came > came })
		if at < 0 {
			at = len(l.places)
		}
		l.places = slices.Insert(l.places, at, fairPlace{tenure: req.Tenure, came: came})
	}
	reply.Queued, reply.AskWithin = true, keepAsking
	for _, p := range l.places[:at] {
		if p.foreign != nil {
			reply.Outsiders++
		}
	}
}

// handOn gives a free lock to the first place. The dead ones before it are removed. If the first place is
// that of asker, or nobody waits, the lock stays free. If a tenure got the lock, at is when the tenure begins.
// If the lock is kept for another program, kept is that program.
func (m *memory) handOn(
	v *visit, name lockagent.Name, l *lock, trace string, asker lockagent.Tenure,
) (at lockagent.StoreTime, kept *foreignWaiter) {
	for ; len(l.places) > 0; l.places = slices.Delete(l.places, 0, 1) {
		first := l.places[0]
		switch f := first.foreign; {
		case f != nil && !v.now.Before(f.until):
		case f != nil:
			if latest := v.now.Add(takesIt); f.until.After(latest) {
				f.until = latest
			}
			v.told = append(v.told, f.told)
			return 0, f
		case first.tenure == asker:
			return 0, nil
		case m.listens(first.tenure.Agent):
			l.places = slices.Delete(l.places, 0, 1)
			at := m.passTo(v, &lockagent.ReleaseRequest{Name: name, Trace: trace}, l,
				place{tenure: first.tenure, kind: lockagent.FairLock}, 0)
			if len(l.places) > 0 && l.places[0].foreign == nil {
				m.standBy(v, name, l, l.places[0].tenure)
			}
			return at, nil
		}
	}
	return 0, nil
}

func (m *memory) releaseFair(v *visit, req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
	m.clock.raise(v.now, lockagent.StoreTime(req.Last), false)
	l := m.lock(req.Name, v.now)
	waited := l.giveUp(req.Tenure)
	reply := lockagent.ReleaseReply{Released: l.heldBy(req.Tenure) != nil, At: m.clock.at(v.now)}
	if req.Unanswered {
		m.withdraw(claim{req.Name, req.Tenure}, v.now)
	}
	switch {
	case reply.Released:
		l.holders = nil
		at, kept := m.handOn(v, req.Name, l, req.Trace, lockagent.Tenure{})
		if at > 0 {
			reply.Passed, reply.At = true, at
		} else if kept == nil {
			subs := m.subscribers(req.Name)
			reply.Others = otherStores(subs, v.by)
			v.wake(subs)
		}
	case waited && !l.held():
		m.handOn(v, req.Name, l, req.Trace, lockagent.Tenure{})
	}
	return reply, nil
}

func (m *memory) breakFair(v *visit, req lockagent.BreakRequest) (lockagent.BreakReply, error) {
	l := m.lock(req.Name, v.now)
	if l.value {
		return lockagent.BreakReply{}, lockagent.ErrWrongType
	}
	reply := lockagent.BreakReply{Broken: l.held(), At: m.clock.at(v.now)}
	if reply.Broken {
		m.tell(v, lockagent.Message{
			Kind: lockagent.MessageBroken, Name: req.Name, LockKind: req.Kind, Tenure: l.holders[0].tenure,
			At: reply.At, Operator: req.Operator,
		})
		l.holders = nil
		if at, kept := m.handOn(v, req.Name, l, "", lockagent.Tenure{}); at == 0 && kept == nil {
			v.wake(m.subscribers(req.Name))
		}
	}
	return reply, nil
}
