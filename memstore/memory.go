package memstore

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
)

// memory is what several Stores share. mu must be held for its methods, unless they say otherwise.
type memory struct {
	identity string // does not change

	mu sync.Mutex // guards everything below, and what changes in the Stores

	clock     clock
	since     time.Time // when the memory last forgot something, or may have
	locks     map[lockagent.Name]*lock
	withdrawn map[claim]time.Time // with the time until which the memory remembers that
	changes   map[changeID]change // of permits and latches
	most      int                 // the size of these maps at which the memory is tidied

	subscriptions map[lockagent.Name][]*subscription
	listeners     map[lockagent.AgentID][]*listener
	hooks         []*resetHook
}

func newMemory() *memory {
	m := &memory{
		identity:      string(lockagent.NewAgentID()), // a random UUID
		clock:         clock{started: time.Now()},
		subscriptions: make(map[lockagent.Name][]*subscription),
		listeners:     make(map[lockagent.AgentID][]*listener),
	}
	m.forget()
	return m
}

// forget begins a new incarnation. Subscriptions belong to the Stores and stay.
func (m *memory) forget() {
	m.clock.restart()
	m.locks = make(map[lockagent.Name]*lock)
	m.withdrawn = make(map[claim]time.Time)
	m.changes = make(map[changeID]change)
	m.most = fewest
}

// visit is one call in the memory, with the functions to call when mu is free. now is read while mu
// is held, so instants have the order of the calls.
type visit struct {
	by       *Store
	now      time.Time
	woken    []*subscription
	messages []hearing
	told     []func() // of other programs that have places at fair locks
}

// lock returns what is known of a lock. If nothing is known, it returns a free lock that the memory
// does not keep.
func (m *memory) lock(name lockagent.Name, now time.Time) *lock {
	l := m.locks[name]
	if l == nil {
		return &lock{}
	}
	l.expire(now)
	return l
}

// keep is lock for a lock that is going to change. From now on the name is in use as the kind.
func (m *memory) keep(name lockagent.Name, kind lockagent.LockKind, now time.Time) *lock {
	if m.locks[name] == nil {
		m.grow(now)
		m.locks[name] = &lock{}
	}
	l := m.lock(name, now)
	l.kind = kind
	return l
}

func (m *memory) acquirePlain(v *visit, req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
	if v.now.Before(m.withdrawn[claim{req.Name, req.Tenure}]) {
		return lockagent.AcquireReply{}, lockagent.ErrWithdrawn
	}
	l := m.keep(req.Name, req.Kind.OrPlain(), v.now)
	if l.value {
		return lockagent.AcquireReply{}, lockagent.ErrWrongType
	}
	if !m.clock.raise(v.now, lockagent.StoreTime(req.Floor), req.Exact) {
		return lockagent.AcquireReply{}, errFarFloor
	}
	var reply lockagent.AcquireReply
	kept := l.turn.until.Sub(v.now)
	if own := l.heldBy(req.Tenure); own != nil || !l.held() && kept <= 0 || m.mayJoin(l, &req) {
		at := m.clock.begin(v.now)
		if own != nil {
			own.extend(v.now, req.Lease)
		} else {
			l.begin(place{tenure: req.Tenure, kind: l.kind, mode: req.Mode}, v.now, req.Lease)
			own = l.heldBy(req.Tenure)
			own.rests = req.Rests && m.mayRest(l, &req)
		}
		l.dequeue(req.Tenure)
		reply.Contested = req.Queue && m.contested(l, own.mode)
		reply.Rests = req.Rests && own.rests
		reply.Granted, reply.At, reply.Token = true, at, l.firstToken(at, v.now)
	} else {
		reply.At, reply.Remaining = m.clock.at(v.now), kept
		if l.held() {
			first := &l.holders[0]
			reply.Holder, reply.Remaining, reply.HolderRests = first.String(), l.remaining(v.now), first.rests
		}
		m.want(v, &req, l)
		if req.Queue {
			m.enqueue(&req, l)
		}
		reply.Queued = l.place(req.Tenure) >= 0
	}
	if req.Queue || req.Rests {
		reply.Outsiders = m.outsiders(req.Name)
	}
	reply.Clock, reply.Incarnation = m.clock.name, m.clock.incarnation
	return reply, nil
}

var errFarFloor = &lockagent.OptionError{
	Option: "floor",
	Reason: fmt.Sprintf("it is more than %v ahead of the store's clock; use a token of the lock", farthest),
}

func (m *memory) renewPlain(v *visit, req lockagent.RenewRequest) (lockagent.RenewReply, error) {
	l := m.lock(req.Name, v.now)
	reply := lockagent.RenewReply{At: m.clock.at(v.now)}
	if own := l.heldBy(req.Tenure); own != nil {
		own.extend(v.now, req.Lease)
		own.rests = false
		m.share(v, &req, own)
		reply.Held = true
		reply.Contested = (req.Watched || own.mode == lockagent.Shared) && m.wanted(req.Name, l, own.mode)
	}
	return reply, nil
}

// wanted reports whether somebody waits for what a tenure of a mode keeps from others. Nothing shows who waits for a
// spin lock.
func (m *memory) wanted(name lockagent.Name, l *lock, mode lockagent.Mode) bool {
	return l.kind != lockagent.SpinLock &&
		(m.contested(l, mode) || len(l.places) > 0 || m.outsiders(name) > 0)
}

func (m *memory) releasePlain(v *visit, req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
	m.clock.raise(v.now, lockagent.StoreTime(req.Last), false) // no token is too far ahead
	l := m.lock(req.Name, v.now)
	left := l.dequeue(req.Tenure)
	reply := lockagent.ReleaseReply{Released: l.heldBy(req.Tenure) != nil, At: m.clock.at(v.now)}
	if req.Unanswered {
		m.withdraw(claim{req.Name, req.Tenure}, v.now)
	}
	l.holders = slices.DeleteFunc(l.holders, func(h holder) bool { return h.tenure == req.Tenure })
	if l.held() && !reply.Released && left && l.shared() {
		v.wake(m.subscribers(req.Name)) // the tenure may have kept readers out
	}
	if l.held() || !reply.Released {
		return reply, nil
	}
	if at := m.pass(v, &req, l); at > 0 {
		reply.Passed, reply.At = true, at // this tenure ends when the next one begins
	} else {
		subs := m.subscribers(req.Name)
		reply.Others = otherStores(subs, v.by)
		v.wake(subs)
	}
	return reply, nil
}

func (m *memory) breakPlain(v *visit, req lockagent.BreakRequest) (lockagent.BreakReply, error) {
	l := m.lock(req.Name, v.now)
	reply := lockagent.BreakReply{Broken: l.held(), At: m.clock.at(v.now)}
	switch {
	case l.value:
		return lockagent.BreakReply{}, lockagent.ErrWrongType
	case reply.Broken:
		v.wake(m.subscribers(req.Name))
		for _, h := range l.holders {
			m.tell(v, lockagent.Message{
				Kind: lockagent.MessageBroken, Name: req.Name, LockKind: h.kind, Tenure: h.tenure, At: reply.At,
				Operator: req.Operator,
			})
		}
		l.holders = nil
	}
	return reply, nil
}

func (m *memory) time(v *visit, _ nothing) (lockagent.StoreTime, error) {
	return m.clock.at(v.now), nil
}

func (m *memory) inspectPlain(v *visit, name lockagent.Name) (lockagent.Inspection, error) {
	l := m.lock(name, v.now)
	switch {
	case l.value:
		return lockagent.Inspection{}, lockagent.ErrWrongType
	case !l.held():
		return lockagent.Inspection{}, nil
	}
	return lockagent.Inspection{
		Held:      true,
		Holder:    l.holders[0].String(),
		HoldCount: l.holders[0].count,
		Remaining: l.remaining(v.now),
	}, nil
}
