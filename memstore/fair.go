package memstore

import "github.com/lockagent/lockagent"

// acquireFair is an Acquire of a fair lock. While others wait, a free lock is for the first of them: an
// Acquire that comes upon such a lock passes it to that one.
func (m *memory) acquireFair(v *visit, req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
	l := m.lock(req.Name, v.now)
	if !l.held() && len(l.queue) > 0 && l.queue[0].tenure != req.Tenure {
		m.pass(v, &lockagent.ReleaseRequest{Name: req.Name}, l)
	}
	return m.acquirePlain(v, req)
}
