package memstore

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

const (
	// mostLooked is how many places a release looks at, so that no release pays for all
	// waiters that died.
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

// enqueue gives a tenure the last place in the queue, unless it has one. Each time it tells
// the holder's agent: the message may be lost, and the holder may be another than before.
func (m *memory) enqueue(v *visit, name lockagent.Name, l *lock, tenure lockagent.Tenure) {
	if l.held() && l.holder.tenure.Agent != tenure.Agent {
		m.tell(v, lockagent.Message{Kind: lockagent.MessageWanted, Name: name, Tenure: l.holder.tenure})
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

// next is the first place in the queue whose agent listens. That one and those before it
// lose their places.
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

// standbys is how many of those who wait are told of a pass to the one in front of them.
// There are two, because one of them may be frozen as well.
const standbys = 2

// pass gives a lock that was released to the first place in the queue. It returns when
// that tenure begins, or 0 if the lock stays free.
func (m *memory) pass(v *visit, name lockagent.Name, l *lock) lockagent.StoreTime {
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
		Kind: lockagent.MessagePassed, Name: name, Tenure: to, Token: lockagent.Token(at), At: at,
		Clock: m.clock.name, Incarnation: m.clock.incarnation, Outsiders: outsiders,
	})
	for _, next := range l.queue[:min(standbys, len(l.queue))] {
		m.tell(v, lockagent.Message{
			Kind: lockagent.MessageStandby, Name: name, Tenure: next, Remaining: lockagent.PassLease,
		})
	}
	return at
}

const (
	// turnEvery is how long outsiders wait for a turn at most, while the lock is passed on.
	turnEvery = 250 * time.Millisecond
	// turnLasts is for how long a lock that is free is kept for the outsiders. A slow
	// program needs some milliseconds after its wake-up.
	turnLasts = 10 * time.Millisecond
)

// turn is what is known of the outsiders' turns at a lock.
type turn struct {
	passes int       // since the last one
	last   time.Time // when that was; zero if never
	until  time.Time // when it ended
}

// outsidersTurn reports whether a release is the turn of the outsiders, who wait, and not of
// the queue. It takes note of that.
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

// outsiders counts the programs that wait for a lock and know nothing of its queue.
func (m *memory) outsiders(name lockagent.Name) int {
	n := 0
	for _, sub := range m.subscriptions[name] {
		if sub.store.outsider {
			n++
		}
	}
	return n
}
