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

// dequeue takes a tenure out of the queue if it is there.
func (l *lock) dequeue(tenure lockagent.Tenure) {
	if i := slices.Index(l.queue, tenure); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
}

// enqueue gives a tenure the last place in the queue, unless it has a place. It tells the holder's
// agent each time: an earlier message may be lost, or for another holder.
func (m *memory) enqueue(v *visit, name lockagent.Name, l *lock, tenure lockagent.Tenure) {
	if l.held() && l.holder.tenure.Agent != tenure.Agent {
		m.tell(v, lockagent.Message{Kind: lockagent.MessageWanted, Name: name, LockKind: l.kind, Tenure: l.holder.tenure})
	}
	if slices.Index(l.queue, tenure) >= 0 {
		return
	}
	place, end := -1, len(l.queue)-mostCleared
	l.queue = slices.DeleteFunc(l.queue, func(other lockagent.Tenure) bool {
		place++
		return (place < mostCleared || place >= end) && !m.listens(other.Agent)
	})
	l.queue = append(l.queue, tenure)
}

// next takes tenures out of the queue until it meets one whose agent listens. It looks at no more
// than mostLooked.
func (m *memory) next(l *lock) (lockagent.Tenure, bool) {
	for looked := 0; looked < mostLooked && len(l.queue) > 0; looked++ {
		first := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		if m.listens(first.Agent) {
			return first, true
		}
	}
	return lockagent.Tenure{}, false
}

// standbys is how many tenures behind a pass get a [lockagent.MessageStandby]. There are two,
// because the agent of the first may be frozen as well.
const standbys = 2

// pass passes a released lock to the first tenure in the queue. It returns the time at which that
// tenure begins, or 0 if the lock stays free.
func (m *memory) pass(v *visit, by *lockagent.ReleaseRequest, l *lock) lockagent.StoreTime {
	name := by.Name
	outsiders := m.outsiders(name)
	if outsiders > 0 && l.outsidersTurn(v.now) {
		return 0
	}
	to, ok := m.next(l)
	if !ok {
		return 0
	}
	at := m.clock.begin(v.now)
	l.holder = holder{tenure: to, count: 1, expires: v.now}
	l.holder.extend(v.now, lockagent.PassLease)
	m.tell(v, lockagent.Message{
		Kind: lockagent.MessagePassed, Name: name, LockKind: l.kind, Tenure: to, Token: l.firstToken(at, v.now), At: at,
		Clock: m.clock.name, Incarnation: m.clock.incarnation, Outsiders: outsiders, Trace: by.Trace,
	})
	for _, next := range l.queue[:min(standbys, len(l.queue))] {
		m.tell(v, lockagent.Message{
			Kind: lockagent.MessageStandby, Name: name, Tenure: next, Remaining: lockagent.PassLease,
		})
	}
	return at
}

const (
	// turnEvery is the longest wait of the outsiders for a turn, while the lock is passed on.
	turnEvery = 250 * time.Millisecond
	// turnLasts is for how long a free lock is kept for the outsiders. A slow program needs some
	// milliseconds after its wake-up.
	turnLasts = 10 * time.Millisecond
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
	l.turn = turn{last: now, until: now.Add(turnLasts)}
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
