package memstore

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

const (
	// mostLooked is how many places a release looks at. Without a bound, one release might have to
	// look at many waiters that died.
	mostLooked = 8
	// mostCleared is how many places at the front, and how many at the end, a new place
	// looks at. It removes the dead ones. At the end is the former life of a program that
	// crashes again and again.
	mostCleared = 2
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
// a place. It does so for each attempt: an earlier message may be lost, or for another holder.
func (m *memory) want(v *visit, req *lockagent.AcquireRequest, l *lock) {
	for i, h := range l.holders {
		if (req.Queue || h.rests) && (i > 0 || h.tenure.Agent != req.Tenure.Agent) { // the reply names the first one
			m.tell(v, lockagent.Message{Kind: lockagent.MessageWanted, Name: req.Name, LockKind: l.kind, Tenure: h.tenure})
		}
	}
}

// enqueue gives a tenure the last place in the queue, unless it has a place.
func (m *memory) enqueue(req *lockagent.AcquireRequest, l *lock) {
	if l.place(req.Tenure) >= 0 {
		return
	}
	at, end := -1, len(l.queue)-mostCleared
	l.queue = slices.DeleteFunc(l.queue, func(p place) bool {
		at++
		return (at < mostCleared || at >= end) && !m.listens(p.tenure.Agent)
	})
	l.queue = append(l.queue, place{tenure: req.Tenure, kind: l.kind, mode: req.Mode})
}

// next takes places out of the queue until it meets one whose agent listens. It looks at no more
// than so many, and returns how many are left of these. The place is the zero one if there is none.
func (m *memory) next(l *lock, most int) (to place, left int) {
	for ; most > 0 && len(l.queue) > 0; most-- {
		to = l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		if m.listens(to.tenure.Agent) {
			return to, most - 1
		}
	}
	return place{}, 0
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
	to, left := m.next(l, mostLooked)
	if to == (place{}) {
		return 0
	}
	at := m.passTo(v, by, l, to, outsiders)
	if to.mode == lockagent.Shared && (m.admit(v, by, l, left) || outsiders > 0) {
		v.wake(m.subscribers(by.Name)) // they may share the lock
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
		Kind: lockagent.MessagePassed, Name: by.Name, LockKind: l.kind, Tenure: to.tenure, Token: l.firstToken(at, v.now), At: at,
		Clock: m.clock.name, Incarnation: m.clock.incarnation, Outsiders: outsiders, Trace: by.Trace,
	})
	return at
}

// standBy tells the agent of a tenure that one ahead of it was passed the lock.
func (m *memory) standBy(v *visit, name lockagent.Name, l *lock, next lockagent.Tenure) {
	m.tell(v, lockagent.Message{
		Kind: lockagent.MessageStandby, Name: name, LockKind: l.kind, Tenure: next, AskAfter: lockagent.PassLease,
	})
}

const (
	// turnEvery is the longest wait of the outsiders for a turn, while the lock is passed on.
	turnEvery = 250 * time.Millisecond
	// A tenure lasts tenureLasts while there are outsiders. Their turn lasts as long as one tenure of
	// each agent and one more, at most longestTurn. Meanwhile a free lock is kept for them. A slow
	// program needs some milliseconds after its wake-up.
	tenureLasts = 5 * time.Millisecond
	longestTurn = 50 * time.Millisecond
)

// turn is the state of the outsiders' turns at a lock.
type turn struct {
	passes int       // since the last turn
	last   time.Time // when the last turn began; zero if never
	until  time.Time // when it ended
}

// outsidersTurn reports whether a release is for the outsiders, and not for the queue. It notes
// the answer for the next time.
func (l *lock) outsidersTurn(now time.Time) bool {
	if len(l.queue) == 0 {
		return false
	}
	if l.turn.passes < len(l.queue) && now.Sub(l.turn.last) < turnEvery {
		l.turn.passes++
		return false
	}
	agents := time.Duration(len(l.queue) + 1)
	l.turn = turn{last: now, until: now.Add(min(longestTurn, (agents+1)*tenureLasts))}
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
