package memstore

import (
	"time"

	"github.com/lockagent/lockagent"
)

// PlantHolder makes a lock held by another program that uses the same locks and
// writes its holders in a way of its own, with a hold count and a lease, or one
// without end if lease is 0. It takes the place of whatever was there. It is for
// tests.
func (s *Store) PlantHolder(name lockagent.Name, by string, count int, lease time.Duration) {
	s.plant(name, func(l *lock, now time.Time) {
		l.holder, l.value = holder{foreign: by, count: count}, false
		if lease > 0 {
			l.holder.extend(now, lease)
		}
	})
}

// PlantValue puts something that is no lock under the name of a lock. It takes
// the place of whatever was there, and stays until [Store.Reset]. It is for tests.
func (s *Store) PlantValue(name lockagent.Name) {
	s.plant(name, func(l *lock, _ time.Time) { l.holder, l.value = holder{}, true })
}

func (s *Store) plant(name lockagent.Name, change func(*lock, time.Time)) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	change(m.keep(name, now), now)
}

// PlantOutsider has another program wait for a lock, one that knows nothing of the queue:
// wake is called as by [Store.Subscribe], until cancel is called. It is for tests.
func (s *Store) PlantOutsider(name lockagent.Name, wake func()) (cancel func()) {
	outsider := &Store{memory: s.memory, outsider: true}
	return outsider.Subscribe(name, wake)
}
