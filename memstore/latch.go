package memstore

import (
	"context"
	"time"

	"github.com/lockagent/lockagent"
)

// latch is the count of a latch. The zero latch is open.
type latch struct {
	count  int64
	opened time.Time // when it was last counted down to 0
}

// remembers reports whether something matters that the memory knows of a latch.
func (l *latch) remembers(now time.Time) bool {
	return l.count > 0 || now.Sub(l.opened) < Retention
}

// Latch implements [lockagent.Counters].
func (s *Store) Latch(_ context.Context, req lockagent.LatchRequest, done func(lockagent.LatchReply, error)) {
	call(s, req, (*memory).latch, done)
}

func (m *memory) latch(v *visit, req lockagent.LatchRequest) (lockagent.LatchReply, error) {
	if _, err := m.rulesFor(req.Name, lockagent.Latch, v); err != nil {
		return lockagent.LatchReply{}, err
	}
	if m.lock(req.Name, v.now).value {
		return lockagent.LatchReply{}, lockagent.ErrWrongType
	}
	if req.Op == lockagent.LatchRead {
		return lockagent.LatchReply{Count: m.lock(req.Name, v.now).latch.count, At: m.clock.at(v.now)}, nil
	}
	m.grow(v.now)
	l, id := &m.keep(req.Name, lockagent.Latch, v.now).latch, changeID{req.Name, req.Change}
	changed := v.now.Before(m.changes[id].until)
	if !changed && l.changes(req.Op) {
		changed = true
		l.change(&req, v.now)
		m.changes[id] = change{until: v.now.Add(Retention)}
		if l.count == 0 {
			v.wake(m.subscribers(req.Name))
		}
	}
	return lockagent.LatchReply{Count: l.count, Changed: changed, At: m.clock.at(v.now)}, nil
}

// changes reports whether an operation would change the latch.
func (l *latch) changes(op lockagent.LatchOp) bool {
	return (op == lockagent.LatchSet) == (l.count == 0)
}

func (l *latch) change(req *lockagent.LatchRequest, now time.Time) {
	switch req.Op {
	case lockagent.LatchSet:
		l.count, l.opened = req.Count, time.Time{}
	case lockagent.LatchDown:
		if l.count--; l.count == 0 {
			l.opened = now
		}
	case lockagent.LatchDelete:
		l.count, l.opened = 0, time.Time{}
	}
}

// acquireLatch tells whether a latch is open.
func (m *memory) acquireLatch(v *visit, req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
	l := m.lock(req.Name, v.now)
	if l.value {
		return lockagent.AcquireReply{}, lockagent.ErrWrongType
	}
	open := l.latch.count == 0
	if open && req.FoundClosed && (l.latch.opened.IsZero() || v.now.Sub(l.latch.opened) >= Retention) {
		return lockagent.AcquireReply{}, lockagent.ErrLatchGone
	}
	reply := lockagent.AcquireReply{
		Granted: open, At: m.clock.at(v.now), Clock: m.clock.name, Incarnation: m.clock.incarnation,
	}
	if !open {
		reply.Remaining = -1
	}
	return reply, nil
}

var errNotHeld = &lockagent.OptionError{
	Option: "kind", Reason: "nobody holds a latch: it is not renewed, released, broken or inspected",
}

func (m *memory) renewLatch(*visit, lockagent.RenewRequest) (lockagent.RenewReply, error) {
	return lockagent.RenewReply{}, errNotHeld
}

func (m *memory) releaseLatch(*visit, lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
	return lockagent.ReleaseReply{}, errNotHeld
}

func (m *memory) breakLatch(*visit, lockagent.BreakRequest) (lockagent.BreakReply, error) {
	return lockagent.BreakReply{}, errNotHeld
}

func (m *memory) inspectLatch(*visit, lockagent.Name) (lockagent.Inspection, error) {
	return lockagent.Inspection{}, errNotHeld
}
