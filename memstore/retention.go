package memstore

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// Retention is for how long the memory knows that a tenure was withdrawn. An Acquire that
// arrives later than that is taken for a new one.
const Retention = time.Minute

// claim is a tenure of a lock.
type claim struct {
	name   lockagent.Name
	tenure lockagent.Tenure
}

// withdraw has an Acquire of a tenure refused if it arrives yet.
func (m *memory) withdraw(c claim, now time.Time) {
	m.grow(now)
	m.withdrawn[c] = now.Add(Retention)
}

// grow makes room for something new. It tidies the memory whenever that has twice as
// much as was left the last time: each new thing pays for looking at two.
func (m *memory) grow(now time.Time) {
	if len(m.locks)+len(m.withdrawn) >= m.most {
		m.tidy(now)
	}
}

// fewest is what the memory may have without being tidied.
const fewest = 64

// tidy forgets what time has made irrelevant.
func (m *memory) tidy(now time.Time) {
	for c, until := range m.withdrawn {
		if !now.Before(until) {
			delete(m.withdrawn, c)
		}
	}
	for name, l := range m.locks {
		l.expire(now)
		l.queue = slices.DeleteFunc(l.queue, func(t lockagent.Tenure) bool { return !m.listens(t.Agent) })
		if !l.held() && !l.value && len(l.queue) == 0 && now.Sub(l.turn.last) >= turnEvery {
			delete(m.locks, name)
		}
	}
	m.most = max(2*(len(m.locks)+len(m.withdrawn)), fewest)
}
