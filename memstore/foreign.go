package memstore

import (
	"time"

	"github.com/lockagent/lockagent"
)

// foreignAgent is under whose name the memo of a planted thing is kept. No
// tenure has it.
const foreignAgent lockagent.AgentID = ""

// PlantHolder makes a lock held by another program that uses the same locks and
// writes its holders in a way of its own, with a hold count and a lease, or one
// without end if lease is 0. It takes the place of whatever was there. It is for
// tests.
func (s *Store) PlantHolder(name lockagent.Name, by string, count int, lease time.Duration) {
	planted := &holder{foreign: by, count: count}
	s.plant(name, func(l *lock, now time.Time) {
		if lease > 0 {
			planted.extend(now, lease)
		}
		l.holder, l.value = planted, false
	})
}

// PlantValue puts something that is no lock under the name of a lock. It takes
// the place of whatever was there, and stays until [Store.Reset]. It is for tests.
func (s *Store) PlantValue(name lockagent.Name) {
	s.plant(name, func(l *lock, _ time.Time) { l.holder, l.value = nil, true })
}

func (s *Store) plant(name lockagent.Name, change func(*lock, time.Time)) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	l := m.lock(name, now)
	change(l, now)
	m.touch(name, foreignAgent, l, now)
}
