package memstore

import (
	"time"

	"github.com/lockagent/lockagent"
)

// askEvery is within what time the first waiter asks again, if another program has the lock.
const askEvery = time.Second

// acquireOften is acquirePlain for a lock that another program may release without a wake-up, as Redisson's spin lock
// does. The first waiter asks again, for all.
func (m *memory) acquireOften(v *visit, req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
	reply, err := m.acquirePlain(v, req)
	l := m.lock(req.Name, v.now)
	if reply.Queued && l.held() && l.holders[0].foreign != "" && l.queue[0].tenure == req.Tenure {
		reply.AskWithin = askEvery
	}
	return reply, err
}

// PlantHolder makes another program the holder of a lock, with a hold count and a lease. by is the
// holder as that program writes it. If lease is 0, the lease has no end. It replaces what was
// there. It looks like a lock of any kind. It is for tests.
func (s *Store) PlantHolder(name lockagent.Name, by string, count int, lease time.Duration) {
	s.plant(name, func(l *lock, now time.Time) {
		h := holder{foreign: by, count: count}
		if lease > 0 {
			h.extend(now, lease)
		}
		l.holders, l.value = []holder{h}, false
	})
}

// PlantValue puts a value that is no lock under the name of a lock. It replaces what was there, and
// stays until [Store.Reset]. It is for tests.
func (s *Store) PlantValue(name lockagent.Name) {
	s.plant(name, func(l *lock, _ time.Time) { l.holders, l.value = nil, true })
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
