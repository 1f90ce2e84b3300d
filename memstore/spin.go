package memstore

import "github.com/lockagent/lockagent"

// acquireSpin is an Acquire of a spin lock, which has no queue.
func (m *memory) acquireSpin(v *visit, req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
	req.Queue = false
	return m.acquirePlain(v, req)
}

// releaseSpin is a Release of a spin lock. It wakes nobody.
func (m *memory) releaseSpin(v *visit, req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
	reply, err := m.releasePlain(v, req)
	v.woken, reply.Others = nil, 0
	return reply, err
}
