package memstore

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// place is that of a tenure in the queue, with the kind and the mode that the tenure is to have.
type place struct {
	tenure lockagent.Tenure
	kind   lockagent.LockKind // of a lock
	mode   lockagent.Mode
}

// place is the place of a tenure in the queue, from 0, or -1.
func (l *lock) place(tenure lockagent.Tenure) int {
	return slices.IndexFunc(l.queue, func(p place) bool { return p.tenure == tenure })
}

// dequeue takes a tenure out of the queue, and reports whether it was there.
func (l *lock) dequeue(tenure lockagent.Tenure) bool {
	i := l.place(tenure)
	if i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	return i >= 0
}

// mayRest reports whether a tenure that begins may rest: the lock is of a kind that rests, and nobody else waits.
func (m *memory) mayRest(l *lock, req *lockagent.AcquireRequest) bool {
	return (l.kind == lockagent.PlainLock || l.kind == lockagent.FencedLock) && m.outsiders(req.Name) == 0 &&
		!slices.ContainsFunc(l.queue, func(p place) bool { return p.tenure != req.Tenure })
}

// want tells the agents of holders that their lock is wanted: of one that may rest, or of all if the request asks for
// a place or contends. It does so for each attempt: an earlier message may be lost, or for another holder.
func (m *memory) want(v *visit, req *lockagent.AcquireRequest, l *lock) {
	for _, h := range l.holders {
		if (req.Queue || req.Contends || h.rests) && h.tenure.Agent != req.Tenure.Agent {
			m.tell(v, lockagent.Message{
				Kind: lockagent.MessageWanted, Name: req.Name, LockKind: l.kind, Tenure: h.tenure,
			})
		}
	}
}

// contested reports whether an agent that listens waits for what a tenure of a mode keeps from it.
func (m *memory) contested(l *lock, mode lockagent.Mode) bool {
	if mode == lockagent.Shared {
		return m.writerWaits(l, len(l.queue))
	}
	return slices.ContainsFunc(l.queue, func(p place) bool { return m.listens(p.tenure.Agent) })
}

// enqueue gives a tenure the last place in the queue, unless it has a place.
func (m *memory) enqueue(req *lockagent.AcquireRequest, l *lock) {
	if l.place(req.Tenure) >= 0 {
		return
	}
	m.bury(l)
	l.queue = append(l.queue, place{tenure: req.Tenure, kind: l.kind, mode: req.Mode})
}

// bury removes the places of agents that do not listen.
func (m *memory) bury(l *lock) {
	l.queue = slices.DeleteFunc(l.queue, func(p place) bool { return !m.listens(p.tenure.Agent) })
}

// standbys is how many tenures behind a pass get a [lockagent.MessageStandby]. There are two,
// because the agent of the first may be frozen as well.
const standbys = 2

// pass passes a released lock to the first tenure in the queue. It returns the time at which that
// tenure begins, or 0 if the lock stays free.
func (m *memory) pass(v *visit, by *lockagent.ReleaseRequest, l *lock) lockagent.StoreTime {
	outsiders := m.outsiders(by.Name)
	if outsiders > 0 && l.outsidersTurn(v.now) {
		return 0
	}
	m.bury(l)
	if len(l.queue) == 0 {
		return 0
	}
	to := l.queue[0]
	l.queue = slices.Delete(l.queue, 0, 1)
	at := m.passTo(v, by, l, to, outsiders)
	if to.mode == lockagent.Shared {
		m.admit(v, by, l)
		if outsiders > 0 {
			v.wake(m.subscribers(by.Name)) // they may share the lock
		}
	}
	for _, next := range l.queue[:min(standbys, len(l.queue))] {
		m.standBy(v, by.Name, l, next.tenure)
	}
	return at
}

// passTo passes a lock to a tenure that waited, and returns the time at which it begins.
func (m *memory) passTo(v *visit, by *lockagent.ReleaseRequest, l *lock, to place, outsiders int) lockagent.StoreTime {
	at := m.clock.begin(v.now)
	l.kind = to.kind
	l.begin(to, v.now, lockagent.PassLease)
	m.tell(v, lockagent.Message{
		Kind: lockagent.MessagePassed, Name: by.Name, LockKind: l.kind, Tenure: to.tenure,
		Token: l.firstToken(at, v.now), At: at, Clock: m.clock.name, Incarnation: m.clock.incarnation,
		Outsiders: outsiders, Contested: m.contested(l, to.mode) || len(l.places) > 0, Trace: by.Trace,
	})
	return at
}

// standBy tells the agent of a tenure that one ahead of it was passed the lock.
func (m *memory) standBy(v *visit, name lockagent.Name, l *lock, next lockagent.Tenure) {
	m.tell(v, lockagent.Message{
		Kind: lockagent.MessageStandby, Name: name, LockKind: l.kind, Tenure: next, AskAfter: lockagent.PassLease,
	})
}

// turnLasts is how long a free lock is kept for the outsiders. A slow program needs some milliseconds after its
// wake-up.
const turnLasts = 20 * time.Millisecond

// turn is the state of the outsiders' turns at a lock.
type turn struct {
	passes int       // since the last turn
	until  time.Time // when the last turn ended; zero if there was none
}

// outsidersTurn reports whether a release is for the outsiders, and not for the queue. It notes
// the answer for the next time.
func (l *lock) outsidersTurn(now time.Time) bool {
	if len(l.queue) == 0 {
		return false
	}
	if l.turn.passes < len(l.queue) && !l.turn.until.IsZero() {
		l.turn.passes++
		return false
	}
	l.turn = turn{until: now.Add(turnLasts)}
	return true
}

// outsiders counts the outsiders that wait for a lock.
func (m *memory) outsiders(name lockagent.Name) int {
	n := 0
	for _, sub := range m.subscriptions[name] {
		if sub.store.outsider {
			n++
		}
	}
	return n
}
