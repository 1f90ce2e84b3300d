package memstore

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// place is that of a tenure in the queue of a lock.
type place struct {
	tenure lockagent.Tenure
	tokens int
	store  *Store // whose subscribers are told
}

// enqueue gives a tenure the last place in the queue, or lets it keep the one that
// it has.
func (l *lock) enqueue(p place) {
	if i := l.place(p.tenure); i >= 0 {
		l.queue[i] = p
		return
	}
	l.queue = append(l.queue, p)
}

// dequeue takes a tenure out of the queue if it is there.
func (l *lock) dequeue(tenure lockagent.Tenure) {
	if i := l.place(tenure); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
}

// place is the index of a tenure in the queue, or -1.
func (l *lock) place(tenure lockagent.Tenure) int {
	return slices.IndexFunc(l.queue, func(p place) bool { return p.tenure == tenure })
}

// otherStoresQueued counts the Stores that have places in the queue, without one.
func (l *lock) otherStoresQueued(without *Store) int {
	seen := make(map[*Store]bool)
	for _, p := range l.queue {
		if p.store != without {
			seen[p.store] = true
		}
	}
	return len(seen)
}

// passOn gives a lock that its holder, an agent of the Store by, has just released to
// the tenure that has waited longest. It returns the pass and the subscriptions that
// are to be given it, or nil if the lock stays free. It takes those out of the queue
// that nobody can be told of or that were withdrawn.
func (m *memory) passOn(name lockagent.Name, l *lock, subs []*subscription, by *Store, now time.Time) (*lockagent.Pass, []*subscription) {
	if otherStores(subs, by) > l.otherStoresQueued(by) {
		return nil, nil // somebody waits who has no place
	}
	for len(l.queue) > 0 {
		next := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		told := slices.DeleteFunc(slices.Clone(subs), func(sub *subscription) bool { return sub.store != next.store })
		if len(told) == 0 || m.finished(name, next.tenure.Agent) >= next.tenure.Number {
			continue
		}
		at := m.storeTime(now)
		first, err := l.reserve(next.tokens, 0, at)
		if err != nil {
			continue // its next Acquire is told why
		}
		l.holder = &holder{tenure: next.tenure, count: 1, expires: now}
		l.holder.extend(now, lockagent.PassLease)
		m.touch(name, next.tenure.Agent, l, now)
		return &lockagent.Pass{
			Tenure: next.tenure, Lease: lockagent.PassLease, Token: first, Tokens: next.tokens, At: at, Incarnation: m.incarnation,
		}, told
	}
	return nil, nil
}
