package memstore

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// Retention is how long the memory remembers that a tenure was withdrawn. After that, a late
// Acquire of the tenure may be granted.
const Retention = time.Minute

// claim is a tenure of a lock.
type claim struct {
	name   lockagent.Name
	tenure lockagent.Tenure
}

// withdraw makes the memory refuse an Acquire of a tenure that arrives later.
func (m *memory) withdraw(c claim, now time.Time) {
	m.grow(now)
	m.withdrawn[c] = now.Add(Retention)
}

// grow is called before something new is added. It tidies the memory when that has become twice as
// large as it was after the last time. So the cost for each addition is constant on average.
func (m *memory) grow(now time.Time) {
	if m.size() >= m.most {
		m.tidy(now)
	}
}

// fewest is a size at which the memory need not be tidied.
const fewest = 64

// tidy forgets what does not matter any more.
func (m *memory) tidy(now time.Time) {
	for c, until := range m.withdrawn {
		if !now.Before(until) {
			delete(m.withdrawn, c)
		}
	}
	for id, c := range m.changes {
		if !now.Before(c.until) {
			delete(m.changes, id)
		}
	}
	for name, l := range m.locks {
		l.expire(now)
		m.bury(l)
		l.places = slices.DeleteFunc(l.places, func(p fairPlace) bool {
			return p.foreign == nil && !m.listens(p.tenure.Agent) || p.foreign != nil && !now.Before(p.foreign.until)
		})
		if !l.inUse() && !l.value && !l.latch.remembers(now) && !now.Before(l.turn.until) &&
			l.fence.at(now) <= lockagent.Token(m.clock.at(now)) {
			delete(m.locks, name)
		}
	}
	m.most = max(2*m.size(), fewest)
}

// size is how much the memory remembers.
func (m *memory) size() int { return len(m.locks) + len(m.withdrawn) + len(m.changes) }
