package lockstate

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// makePermits makes the lock a semaphore. Half of the people want two permits.
func (w *world) makePermits(n int) {
	w.store.permits = n
	w.wants = map[lockagent.Owner]int{"ann": 1, "bob": 2, "cid": 1, "dan": 2}
	w.makeFair()
}

// freePermits are those that no tenure has.
func (m *storeModel) freePermits(now Instant) int {
	free := m.permits + m.excess
	for i := range m.holders {
		if h := &m.holders[i]; now < h.expiry {
			free -= h.permits
		}
	}
	return free
}

// acquirePermits does what an acquire asks for.
func (w *world) acquirePermits(c *storeCall, t tenureID) {
	m := &w.store
	first := func() bool { return len(m.queue) == 0 || m.queue[0].tenureID == t }
	if m.holder(t, w.now) == nil && !first() {
		w.spread() // whoever comes upon free permits
	}
	free := m.freePermits(w.now)
	switch {
	case slices.Contains(m.withdrawn, t):
		c.err = lockagent.ErrWithdrawn
	case m.holder(t, w.now) != nil || first() && c.permits <= free:
		token := w.begin(seat{tenureID: t, request: c.request, permits: c.permits}, c.lease-m.early, c.token)
		c.acquire = lockagent.AcquireReply{Granted: true, Token: token, At: w.storeTime()}
		w.haunted = w.haunted || c.zombie
	default:
		if c.queue && !m.plain && !m.queued(t) {
			m.queue = append(m.queue, seat{tenureID: t, request: c.request, permits: c.permits})
		}
		left := time.Duration(-1)
		for _, h := range m.holders {
			if end := h.expiry.Sub(w.now); left < 0 || end < left {
				left = end
			}
		}
		c.acquire = lockagent.AcquireReply{
			At: w.storeTime(), Clock: m.clockName(), Holder: fmt.Sprintf("others (%d permits free)", free), Remaining: left,
			Queued: m.queued(t),
		}
	}
}

// spread passes free permits to the tenures at the head of the queue, as long as they suffice for the next one.
func (w *world) spread() (passed bool) {
	m := &w.store
	for len(m.queue) > 0 && m.queue[0].permits <= m.freePermits(w.now) {
		w.pass(m.queue[0])
		passed = true
	}
	for _, p := range m.queue[:min(2, len(m.queue))] {
		if passed && !m.alone {
			w.post(p.agent, Standby{Tenure: p.number, Remaining: lockagent.PassLease})
		}
	}
	return passed
}

// shareOut is spread after permits have come back. If some are left, it wakes all waiters.
func (w *world) shareOut() (passed bool) {
	passed = w.spread()
	if free := w.store.freePermits(w.now); free > 0 {
		w.store.announced, w.store.announcedOf = true, free
		w.wake(-1)
	}
	return passed
}

// tooMany checks, when agent i grants permits, that no more of them are in use than there are. If a tick was late,
// others may hold theirs past their deadlines.
func (w *world) tooMany(i int, e *Event) {
	taken := 0
	for j, other := range w.agents {
		for k := range other.ledger.grants {
			if g := &other.ledger.grants[k]; !w.isExcused(j, g.tenure) && !(w.lateNow && w.now >= w.deadline(j, g)) {
				taken += g.Permits
			}
		}
	}
	if taken > w.store.permits && !w.isExcused(i, e.Tenure) {
		w.fail(
			"%s is granted %d permits: now %d of %d are in use", e.Request.Owner, e.Request.Permits, taken, w.store.permits,
		)
	}
}

// checkPermits checks a waiter that sleeps while enough permits are free. It may, if another waiter of the agent pauses
// after a failure: that one asks first.
func (w *world) checkPermits(i int, s *State) {
	m := &w.store
	pauses := slices.ContainsFunc(w.agents[i].parts, func(p *State) bool { return p.failures > 0 })
	if pauses || s.asksFor() == 0 || s.asksFor() > m.freePermits(w.now) {
		return
	}
	place := tenureID{i, s.attempt.number}
	switch {
	case m.announced && len(m.queue) == 0 && s.asksFor() <= m.announcedOf:
		w.fail("agent %d waits for permits that are free, and was told so", i+1)
	case !w.slow && len(m.queue) > 0 && m.queue[0].tenureID == place && s.retryAt > w.now.add(lockagent.PassLease+pause):
		w.fail(
			"agent %d is the first in the queue, but sleeps until %v, while enough permits are free", i+1,
			time.Duration(s.retryAt),
		)
	}
}
