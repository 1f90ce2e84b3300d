package memstore

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// mostLooked is how many places a call looks at, as the scripts for Redis do.
const mostLooked = 8

// semaphore is what the memory knows of the permits of a name. The places of its tenures are in
// lock.queue. The zero semaphore is one that nobody has set.
type semaphore struct {
	exists bool
	free   int
	takers []taker                          // the tenures that have permits
	wanted map[lockagent.Tenure]int         // how many permits the tenures in the queue ask for
	ids    map[lockagent.PermitID]time.Time // of the kind Permits: those that are taken, and until when
}

// taker is a tenure that has permits.
type taker struct {
	tenure  lockagent.Tenure
	n       int
	expires time.Time
}

// keepPermits returns the semaphore of a name that is going to change, and takes back what is over. back says that
// there was something.
func (m *memory) keepPermits(
	v *visit, name lockagent.Name, kind lockagent.LockKind,
) (l *lock, s *semaphore, back bool) {
	l = m.keep(name, kind, v.now)
	if l.permits == nil {
		l.permits = &semaphore{wanted: make(map[lockagent.Tenure]int), ids: make(map[lockagent.PermitID]time.Time)}
	}
	return l, l.permits, l.permits.reclaim(kind, v.now) > 0
}

// reclaim takes back the permits whose leases are over, and returns how many they were.
func (s *semaphore) reclaim(kind lockagent.LockKind, now time.Time) (back int) {
	if s == nil || !s.exists {
		return 0
	}
	for id, until := range s.ids {
		if !until.IsZero() && !now.Before(until) {
			delete(s.ids, id)
			back++
		}
	}
	s.takers = slices.DeleteFunc(s.takers, func(t taker) bool {
		over := !now.Before(t.expires)
		if over && kind == lockagent.Semaphore {
			back += t.n
		}
		return over
	})
	s.free += back
	return back
}

// taken is how many permits are known to be taken.
func (s *semaphore) taken(kind lockagent.LockKind) (n int) {
	if kind == lockagent.Permits {
		return len(s.ids)
	}
	for _, t := range s.takers {
		n += t.n
	}
	return n
}

// total is how many permits there are.
func (s *semaphore) total(kind lockagent.LockKind) int { return s.free + s.taken(kind) }

// left is what is left of the lease that ends first, or negative if none has an end.
func (s *semaphore) left(now time.Time) time.Duration {
	left := time.Duration(-1)
	note := func(until time.Time) {
		if d := until.Sub(now); !until.IsZero() && (left < 0 || d < left) {
			left = d
		}
	}
	for _, t := range s.takers {
		note(t.expires)
	}
	for _, until := range s.ids {
		note(until)
	}
	return left
}

// take gives a tenure n of the free permits. Some of a former lease of it may have been extended, and are taken still.
func (s *semaphore) take(kind lockagent.LockKind, tenure lockagent.Tenure, n int, until time.Time) {
	s.free -= n
	s.takers = append(s.takers, taker{tenure, n, until})
	if kind != lockagent.Permits {
		return
	}
	for k := range n {
		id := tenure.PermitID(k + 1)
		if _, ok := s.ids[id]; ok {
			s.free++
		}
		s.ids[id] = until
	}
}

// find is the index of a tenure that has its permits, or -1. A tenure whose permits are not all
// there any more is over. The caller takes back the others.
func (s *semaphore) find(kind lockagent.LockKind, tenure lockagent.Tenure) (i int, whole bool) {
	i = slices.IndexFunc(s.takers, func(t taker) bool { return t.tenure == tenure })
	if i < 0 {
		return i, false
	}
	if kind != lockagent.Permits {
		return i, true
	}
	for k := range s.takers[i].n {
		if _, ok := s.ids[tenure.PermitID(k+1)]; !ok {
			return i, false
		}
	}
	return i, true
}

// drop ends the i-th tenure, and takes back what it has.
func (s *semaphore) drop(kind lockagent.LockKind, i int) {
	t := s.takers[i]
	s.takers = slices.Delete(s.takers, i, i+1)
	if kind == lockagent.Semaphore {
		s.free += t.n
		return
	}
	for k := range t.n {
		id := t.tenure.PermitID(k + 1)
		if _, ok := s.ids[id]; ok {
			delete(s.ids, id)
			s.free++
		}
	}
}

// until is the end of a lease that begins now, in whole milliseconds.
func until(now time.Time, lease time.Duration) time.Time {
	h := holder{expires: now}
	h.extend(now, lease)
	return h.expires
}

// tooLarge reports whether a request is for more permits than there are. Without ids, other programs may have any
// number.
func (s *semaphore) tooLarge(kind lockagent.LockKind, n int) bool {
	return kind == lockagent.Permits && n > s.total(kind)
}

// leave takes a tenure out of the queue, and reports whether it was there.
func (l *lock) leave(tenure lockagent.Tenure) bool {
	delete(l.permits.wanted, tenure)
	return l.dequeue(tenure)
}

// first is the first tenure in the queue. Those before it lose their places: their agents are gone, or they want more
// permits than there are.
func (m *memory) first(v *visit, name lockagent.Name) (first lockagent.Tenure, ok bool) {
	l := m.locks[name]
	for len(l.queue) > 0 {
		first = l.queue[0].tenure
		if m.listens(first.Agent) && !l.permits.tooLarge(l.kind, l.permits.wanted[first]) {
			return first, true
		}
		l.leave(first)
		m.standByForPermits(v, name, first, 0)
	}
	return lockagent.Tenure{}, false
}

// standByForPermits tells the agent of a tenure to ask within so long.
func (m *memory) standByForPermits(v *visit, name lockagent.Name, tenure lockagent.Tenure, within time.Duration) {
	m.tell(v, lockagent.Message{
		Kind: lockagent.MessageStandby, Name: name, LockKind: m.locks[name].kind, Tenure: tenure, AskAfter: within,
	})
}

// askNext has the first tenure in the queue ask at once, if the free permits suffice for it.
func (m *memory) askNext(v *visit, name lockagent.Name) {
	s := m.locks[name].permits
	if first, ok := m.first(v, name); ok && s.wanted[first] <= s.free {
		m.standByForPermits(v, name, first, 0)
	}
}

// passPermits passes the free permits to the first tenures in the queue, as long as they suffice for the next, unless
// it is the turn of outsiders. It reports whether it passed any. If permits are left for the next one, it asks for
// itself.
func (m *memory) passPermits(v *visit, name lockagent.Name, trace string) (passed bool) {
	l := m.locks[name]
	s := l.permits
	first, ok := m.first(v, name)
	outsiders := m.outsiders(name)
	if !ok || outsiders > 0 && l.outsidersTurn(v.now) {
		return false
	}
	var begun []lockagent.Tenure
	for n := 0; ok && n < mostLooked && s.wanted[first] <= s.free; n++ {
		at := m.clock.begin(v.now)
		s.take(l.kind, first, s.wanted[first], until(v.now, lockagent.PassLease))
		l.leave(first)
		to := first
		first, ok = m.first(v, name)
		contested := ok && s.wanted[first] > s.free
		m.tell(v, lockagent.Message{
			Kind: lockagent.MessagePassed, Name: name, LockKind: l.kind, Tenure: to, Token: lockagent.Token(at), At: at,
			Clock: m.clock.name, Incarnation: m.clock.incarnation, Outsiders: outsiders, Contested: contested,
			Total: s.total(l.kind), Trace: trace,
		})
		if contested {
			m.wantPermits(v, name, begun) // they were told when the next tenure had not begun
		}
		passed, begun = true, append(begun, to)
	}
	within := lockagent.PassLease
	if ok && s.wanted[first] <= s.free {
		within = 0
	}
	for _, next := range l.queue[:min(standbys, len(l.queue))] {
		if passed || within == 0 {
			m.standByForPermits(v, name, next.tenure, within)
		}
	}
	return passed
}

// wantPermits tells the agents of tenures that another one waits for more permits than are free.
func (m *memory) wantPermits(v *visit, name lockagent.Name, tenures []lockagent.Tenure) {
	for _, t := range tenures {
		m.tell(v, lockagent.Message{
			Kind: lockagent.MessageWanted, Name: name, LockKind: m.locks[name].kind, Tenure: t,
		})
	}
}

// holding returns the tenures of other agents that have permits.
func (s *semaphore) holding(but lockagent.AgentID) (tenures []lockagent.Tenure) {
	for _, t := range s.takers {
		if t.tenure.Agent != but {
			tenures = append(tenures, t.tenure)
		}
	}
	return tenures
}

// offer wakes all who wait for permits that have come back otherwise than by a release.
func (m *memory) offer(v *visit, name lockagent.Name) {
	m.wakeForPermits(v, name)
	m.askNext(v, name)
}

// wakeForPermits wakes all waiters if permits are free.
func (m *memory) wakeForPermits(v *visit, name lockagent.Name) {
	if m.locks[name].permits.free > 0 {
		v.wake(m.subscribers(name))
	}
}

func (m *memory) acquirePermits(v *visit, req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
	if v.now.Before(m.withdrawn[claim{req.Name, req.Tenure}]) {
		return lockagent.AcquireReply{}, lockagent.ErrWithdrawn
	}
	if l := m.lock(req.Name, v.now); l.value {
		return lockagent.AcquireReply{}, lockagent.ErrWrongType
	}
	if !m.clock.raise(v.now, lockagent.StoreTime(req.Floor), req.Exact) {
		return lockagent.AcquireReply{}, errFarFloor
	}
	l, s, back := m.keepPermits(v, req.Name, req.Kind)
	n, kept := max(1, req.Permits), l.turn.until.Sub(v.now)
	own, whole := s.find(req.Kind, req.Tenure)
	if own >= 0 && !whole {
		s.drop(req.Kind, own)
		own, back = -1, true
	}
	had, tooLarge := own >= 0, s.tooLarge(req.Kind, n)
	if !s.exists || tooLarge {
		if l.leave(req.Tenure) && !s.exists {
			v.wake(m.subscribers(req.Name)) // somebody deleted the semaphore. The others learn of it, too
		}
	}
	open := had
	if !had && s.exists && kept <= 0 && n <= s.free {
		first, ok := m.first(v, req.Name)
		open = !ok || first == req.Tenure
	}
	var reply lockagent.AcquireReply
	switch {
	case open:
		at := m.clock.begin(v.now)
		if !had {
			s.take(req.Kind, req.Tenure, n, v.now)
			own = len(s.takers) - 1
		}
		s.extend(req.Kind, own, v.now, req.Lease)
		l.leave(req.Tenure)
		next, waits := m.first(v, req.Name)
		reply.Contested = req.Queue && waits && s.wanted[next] > s.free
		reply.Granted, reply.At, reply.Token = true, at, lockagent.Token(at)
		if !had {
			reply.Total = s.total(req.Kind)
		}
	case !s.exists:
		reply.Remaining, reply.NotSet = -1, true
	default:
		if req.Queue && !tooLarge {
			m.enqueue(&req, l)
			s.wanted[req.Tenure] = n
		}
		reply.Queued = l.place(req.Tenure) >= 0
		if first, waits := m.first(v, req.Name); req.Queue && waits && first == req.Tenure && n > s.free {
			m.wantPermits(v, req.Name, s.holding(req.Tenure.Agent))
		}
		reply.Remaining = s.left(v.now)
		reply.Holder = fmt.Sprintf("others (%d of %d permits free)", s.free, s.total(req.Kind))
		if kept > 0 {
			reply.Remaining, reply.Holder = kept, ""
		}
	}
	if back {
		m.wakeForPermits(v, req.Name)
	}
	if kept <= 0 && s.exists {
		m.askNext(v, req.Name)
	}
	if !reply.Granted {
		reply.At = m.clock.at(v.now)
	}
	if req.Queue {
		reply.Outsiders = m.outsiders(req.Name)
	}
	reply.Clock, reply.Incarnation = m.clock.name, m.clock.incarnation
	return reply, nil
}

// prolong has the lease of a permit last until end, unless it lasts longer. A permit without a lease gets one.
func (s *semaphore) prolong(id lockagent.PermitID, end time.Time) {
	if end.After(s.ids[id]) { // no lease is the zero time
		s.ids[id] = end
	}
}

// extend starts the lease of the i-th tenure anew, unless that would shorten it.
func (s *semaphore) extend(kind lockagent.LockKind, i int, now time.Time, lease time.Duration) {
	t := &s.takers[i]
	if end := until(now, lease); end.After(t.expires) {
		t.expires = end
	}
	if kind != lockagent.Permits {
		return
	}
	for k := range t.n {
		s.prolong(t.tenure.PermitID(k+1), t.expires)
	}
}

// renewPermits passes nothing, but wakes the waiters, as the scripts for Redis do: a renewal has to work
// without the keys of the queue.
func (m *memory) renewPermits(v *visit, req lockagent.RenewRequest) (lockagent.RenewReply, error) {
	reply := lockagent.RenewReply{At: m.clock.at(v.now)}
	l := m.lock(req.Name, v.now)
	if l.permits == nil || l.kind != req.Kind {
		return reply, nil
	}
	_, s, back := m.keepPermits(v, req.Name, req.Kind)
	i, whole := s.find(req.Kind, req.Tenure)
	switch {
	case whole:
		s.extend(req.Kind, i, v.now, req.Lease)
		reply.Held, reply.Contested = true, req.Watched && m.wanted(req.Name, l, lockagent.Exclusive)
	case i >= 0:
		s.drop(req.Kind, i)
		back = true
	}
	if back {
		m.wakeForPermits(v, req.Name)
	}
	return reply, nil
}

func (m *memory) releasePermits(v *visit, req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
	m.clock.raise(v.now, lockagent.StoreTime(req.Last), false) // no token is too far ahead
	if req.Unanswered {
		m.withdraw(claim{req.Name, req.Tenure}, v.now)
	}
	reply := lockagent.ReleaseReply{At: m.clock.at(v.now)}
	l := m.lock(req.Name, v.now)
	if l.permits == nil || l.kind != req.Kind {
		return reply, nil
	}
	_, s, back := m.keepPermits(v, req.Name, req.Kind)
	placed := l.leave(req.Tenure)
	i, whole := s.find(req.Kind, req.Tenure)
	if i >= 0 {
		s.drop(req.Kind, i)
	}
	reply.Released = whole
	if (back || i >= 0 || placed) && s.free > 0 { // it may have been in the way of smaller requests
		reply.Passed = m.passPermits(v, req.Name, req.Trace) && whole
		m.wakeForPermits(v, req.Name)
	}
	if whole && !reply.Passed && s.free > 0 {
		reply.Others = otherStores(m.subscribers(req.Name), v.by)
	}
	return reply, nil
}

func (m *memory) breakPermits(v *visit, req lockagent.BreakRequest) (lockagent.BreakReply, error) {
	reply := lockagent.BreakReply{At: m.clock.at(v.now)}
	if l := m.lock(req.Name, v.now); l.value {
		return lockagent.BreakReply{}, lockagent.ErrWrongType
	} else if l.permits == nil {
		return reply, nil
	}
	_, s, _ := m.keepPermits(v, req.Name, req.Kind)
	taken := s.taken(req.Kind)
	reply.Broken = taken > 0
	for _, t := range s.takers {
		m.tell(v, lockagent.Message{
			Kind: lockagent.MessageBroken, Name: req.Name, LockKind: req.Kind, Tenure: t.tenure, At: reply.At,
			Operator: req.Operator,
		})
	}
	s.takers = nil
	clear(s.ids)
	s.free += taken
	m.offer(v, req.Name)
	return reply, nil
}

func (m *memory) inspectPermits(v *visit, name lockagent.Name) (lockagent.Inspection, error) {
	l := m.lock(name, v.now)
	switch {
	case l.value:
		return lockagent.Inspection{}, lockagent.ErrWrongType
	case l.permits == nil:
		return lockagent.Inspection{}, nil
	}
	seen := *l.permits // the call changes nothing
	seen.takers, seen.ids = slices.Clone(seen.takers), maps.Clone(seen.ids)
	seen.reclaim(l.kind, v.now)
	n := seen.taken(l.kind)
	if n == 0 {
		return lockagent.Inspection{}, nil
	}
	return lockagent.Inspection{Held: true, HoldCount: n, Remaining: seen.left(v.now)}, nil
}

// step makes all leases end so much earlier.
func (s *semaphore) step(d time.Duration) {
	if s == nil {
		return
	}
	for i := range s.takers {
		s.takers[i].expires = s.takers[i].expires.Add(-d)
	}
	for id, until := range s.ids {
		if !until.IsZero() {
			s.ids[id] = until.Add(-d)
		}
	}
}
