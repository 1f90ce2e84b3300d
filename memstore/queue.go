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
	// mostCleared is how many dead places a new place removes from the front.
	mostCleared = 2
)

// place is that of a tenure in the queue of a lock.
type place struct {
	tenure lockagent.Tenure
	store  *Store // through which it was taken
}

// placeOf is the index of a tenure in the queue, or -1.
func (l *lock) placeOf(tenure lockagent.Tenure) int {
	return slices.IndexFunc(l.queue, func(p place) bool { return p.tenure == tenure })
}

// dequeue takes a tenure out of the queue if it is there.
func (l *lock) dequeue(tenure lockagent.Tenure) {
	if i := l.placeOf(tenure); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
}

// enqueue gives a tenure the last place in the queue, unless it has one. It tells the
// holder's agent of a new place.
func (m *memory) enqueue(v *visit, name lockagent.Name, l *lock, tenure lockagent.Tenure) {
	if l.placeOf(tenure) >= 0 {
		return
	}
	for range mostCleared {
		if len(l.queue) == 0 || m.listens(l.queue[0].tenure.Agent) {
			break
		}
		l.queue = slices.Delete(l.queue, 0, 1)
	}
	l.queue = append(l.queue, place{tenure, v.by})
	if l.holder.tenure.Agent != tenure.Agent {
		m.tell(v, lockagent.Message{Kind: lockagent.MessageWanted, Name: name, Tenure: l.holder.tenure})
	}
}

// next is the first place in the queue whose agent listens. That one and those before it
// lose their places.
func (m *memory) next(l *lock) (place, bool) {
	for looked := 0; looked < mostLooked && len(l.queue) > 0; looked++ {
		first := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		if m.listens(first.tenure.Agent) {
			return first, true
		}
	}
	return place{}, false
}

// pass gives a lock that was released to the first place in the queue. It returns when
// that tenure begins, or 0 if the lock stays free.
func (m *memory) pass(v *visit, name lockagent.Name, l *lock, outsiders int) lockagent.StoreTime {
	if l.outsidersTurn(outsiders, v.now) {
		return 0
	}
	to, ok := m.next(l)
	if !ok {
		return 0
	}
	at := m.clock.begin(v.now, 0)
	if at == 0 {
		return 0
	}
	l.holder = holder{tenure: to.tenure, count: 1, expires: v.now}
	l.holder.extend(v.now, lockagent.PassLease)
	m.tell(v, lockagent.Message{
		Kind: lockagent.MessagePassed, Name: name, Tenure: to.tenure,
		Token: lockagent.Token(at), At: at, Incarnation: m.incarnation, Outsiders: outsiders,
	})
	if len(l.queue) > 0 {
		m.tell(v, lockagent.Message{
			Kind: lockagent.MessageStandby, Name: name, Tenure: l.queue[0].tenure, Remaining: lockagent.PassLease,
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
	last   time.Time // when it was, or when outsiders were first seen; zero if never
	until  time.Time // the end of the last one
}

// outsidersTurn reports whether a release is the outsiders' turn. It takes note of it.
func (l *lock) outsidersTurn(outsiders int, now time.Time) bool {
	if outsiders == 0 || len(l.queue) == 0 {
		return false
	}
	if l.turn.last.IsZero() {
		l.turn.last = now
	}
	if l.turn.passes < len(l.queue) && now.Sub(l.turn.last) < turnEvery {
		l.turn.passes++
		return false
	}
	l.turn = turn{last: now, until: now.Add(turnLasts)}
	return true
}

// outsiders counts the Stores that wait for a lock without a place in its queue, other
// than the one that asks.
func (l *lock) outsiders(subs []*subscription, asks *Store) int {
	return len(slices.DeleteFunc(otherStores(subs, asks), func(s *Store) bool {
		return slices.ContainsFunc(l.queue, func(p place) bool { return p.store == s })
	}))
}
