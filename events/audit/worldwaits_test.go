package audit

import (
	"time"

	"github.com/lockagent/lockagent"
)

// waits has an agent tell of a request that waits, and then how the wait ended: in one of several ways.
func (w *world) waits(a *worldAgent, name lockagent.Name, begin lockagent.EventKind, ends ...lockagent.EventKind) {
	if !w.cfg.waits || !w.chance(4) {
		return
	}
	a.waits++
	owner := lockagent.Owner("patient")
	e := lockagent.Event{
		Kind: begin, Lock: name, LockKind: a.store.kindOf(name), Mode: lockagent.Exclusive, Owner: owner,
		Who: processOf(owner), Request: a.waits,
		Waited: 100 * time.Millisecond,
	}
	if begin == lockagent.EventQueued {
		e.Waiters, e.Holder = 1, "A1"
	} else {
		e.Err = "nobody answers"
	}
	w.perhaps(a, e)
	e.Kind, e.Waiters, e.Holder, e.Waited = ends[w.rand.IntN(len(ends))], 0, "", time.Second
	if e.Kind != lockagent.EventTimedOut {
		e.Err = "that took too long"
	}
	w.perhaps(a, e)
}

// fails has an agent tell that it cannot renew a lease.
func (w *world) fails(a *worldAgent, t *worldTenure) {
	if !w.cfg.waits || t.rests || t.fixed || w.now >= a.deaf || w.now-t.at < t.lease/3 || w.now >= t.deadline() ||
		!w.chance(4) {
		return
	}
	e := w.about(t, lockagent.EventUncertain)
	e.Lease, e.Permits, e.Total, e.Err, e.Remaining = 0, 0, 0, "nobody answers",
		time.Duration(t.deadline()-w.now)*time.Millisecond
	w.perhaps(a, e)
}

// perhaps records an event, unless the event finds no room.
func (w *world) perhaps(a *worldAgent, e lockagent.Event) {
	if !w.chance(4) {
		w.record(a, e)
		return
	}
	a.seq++
	r := w.record(a, lockagent.Event{Kind: lockagent.EventDropped})
	r.Dropped[e.Kind]++
}
