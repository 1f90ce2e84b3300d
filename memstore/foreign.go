package memstore

import (
	"time"

	"github.com/lockagent/lockagent"
)

// PlantHolder makes another program the holder of a lock, with a hold count and a lease. by is the
// holder as that program writes it. If lease is 0, the lease has no end. It replaces what was
// there. It looks like a lock of any kind. It is for tests.
func (s *Store) PlantHolder(name lockagent.Name, by string, count int, lease time.Duration) {
	s.plant(name, func(l *lock, now time.Time) {
		l.holder, l.value = holder{foreign: by, count: count}, false
		if lease > 0 {
			l.holder.extend(now, lease)
		}
	})
}

// PlantValue puts a value that is no lock under the name of a lock. It replaces what was there, and
// stays until [Store.Reset]. It is for tests.
func (s *Store) PlantValue(name lockagent.Name) {
	s.plant(name, func(l *lock, _ time.Time) { l.holder, l.value = holder{}, true })
}

func (s *Store) plant(name lockagent.Name, change func(*lock, time.Time)) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	change(m.keep(name, "", now), now)
}

// PlantOutsider is an outsider that begins to wait for a lock. The store calls wake as for
// [Store.Subscribe], until cancel is called. It is for tests.
func (s *Store) PlantOutsider(name lockagent.Name, wake func()) (cancel func()) {
	outsider := &Store{memory: s.memory, outsider: true}
	return outsider.Subscribe(name, lockagent.PlainLock, wake)
}
