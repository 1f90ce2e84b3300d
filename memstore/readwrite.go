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

// writerWaits reports whether one of the first places is that of a writer whose agent listens. It looks at
// the places up to most, and at no more than mostLooked.
func (m *memory) writerWaits(l *lock, most int) bool {
	return slices.ContainsFunc(l.queue[:min(most, mostLooked, len(l.queue))], func(p place) bool {
		return p.mode != lockagent.Shared && m.listens(p.tenure.Agent)
	})
}

// share makes an exclusive tenure shared if a renewal asks for that. Then it wakes all waiters, because readers may join.
// It reports whether the tenure is shared and others keep later readers out.
func (m *memory) share(v *visit, req *lockagent.RenewRequest, l *lock, own *holder) (wanted bool) {
	if req.Mode == lockagent.Shared && own.mode != lockagent.Shared {
		own.mode = lockagent.Shared
		v.wake(m.subscribers(req.Name))
	}
	return l.shared() && (m.writerWaits(l, mostLooked) || m.outsiders(req.Name) > 0)
}

// admit passes a lock that is shared to the readers at the front of the queue. It looks at no more than
// most places, and reports whether there may be more such readers.
func (m *memory) admit(v *visit, by *lockagent.ReleaseRequest, l *lock, most int) (more bool) {
	outsiders := m.outsiders(by.Name)
	for ; len(l.queue) > 0; most-- {
		first := l.queue[0]
		listens := m.listens(first.tenure.Agent)
		switch {
		case listens && first.mode != lockagent.Shared:
			return false
		case most == 0:
			return true
		}
		l.queue = slices.Delete(l.queue, 0, 1)
		if listens {
			m.passTo(v, by, l, first, outsiders)
		}
	}
	return false
}
