package memstore

import (
	"slices"

	"github.com/lockagent/lockagent"
)

// shared reports whether the lock is held by tenures that share it.
func (l *lock) shared() bool { return l.held() && l.holders[0].mode == lockagent.Shared }

// mayJoin reports whether a tenure may share the lock with its holders. A writer that waits ahead of the tenure
// keeps it out. So do outsiders, because they may be writers.
func (m *memory) mayJoin(l *lock, req *lockagent.AcquireRequest) bool {
	if req.Mode != lockagent.Shared || !l.shared() || m.outsiders(req.Name) > 0 {
		return false
	}
	ahead := l.place(req.Tenure)
	if ahead < 0 {
		ahead = len(l.queue)
	}
	return !m.writerWaits(l, ahead)
}

// writerWaits reports whether one of the first so many places is that of a writer whose agent listens.
func (m *memory) writerWaits(l *lock, most int) bool {
	return slices.ContainsFunc(l.queue[:most], func(p place) bool {
		return p.mode != lockagent.Shared && m.listens(p.tenure.Agent)
	})
}

// share makes an exclusive tenure shared if a renewal asks for that. Then it wakes all waiters, because readers may
// join.
func (m *memory) share(v *visit, req *lockagent.RenewRequest, own *holder) {
	if req.Mode == lockagent.Shared && own.mode != lockagent.Shared {
		own.mode = lockagent.Shared
		v.wake(m.subscribers(req.Name))
	}
}

// admit passes a lock that is shared to the readers at the front of the queue.
func (m *memory) admit(v *visit, by *lockagent.ReleaseRequest, l *lock) {
	m.bury(l)
	outsiders := m.outsiders(by.Name)
	for len(l.queue) > 0 && l.queue[0].mode == lockagent.Shared {
		first := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		m.passTo(v, by, l, first, outsiders)
	}
}
