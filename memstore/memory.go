package memstore

import (
	"container/list"
	"crypto/rand"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
)

// memory is what several Stores share. Its methods expect mu to be held, except
// those that say otherwise.
type memory struct {
	mu sync.Mutex // guards everything below, and Store.closed

	started     time.Time // the clock counts from here, monotonically
	incarnation string

	// locks has the locks that anything is known of. Each has at least one memo,
	// and is forgotten with its last one.
	locks map[lockagent.Name]*lock
	memos map[memoKey]*list.Element // the values are *memo
	// byAge has all memos, the one that was touched longest ago first.
	byAge *list.List

	subscriptions map[lockagent.Name][]*subscription
	hooks         []*resetHook
}

func newMemory() *memory {
	m := &memory{
		started:       time.Now(),
		subscriptions: make(map[lockagent.Name][]*subscription),
	}
	m.forget()
	return m
}

// forget begins a new incarnation. Subscriptions belong to the Stores and stay.
func (m *memory) forget() {
	m.incarnation = rand.Text()
	m.locks = make(map[lockagent.Name]*lock)
	m.memos = make(map[memoKey]*list.Element)
	m.byAge = list.New()
}

// reset forgets and returns what the hooks are to be told. It takes mu.
func (m *memory) reset() (lockagent.Reset, []*resetHook) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.storeTime(time.Now())
	reset := lockagent.Reset{From: m.incarnation, Reason: "emptied", After: at, Before: at}
	m.forget()
	reset.To = m.incarnation
	return reset, append([]*resetHook(nil), m.hooks...)
}

// storeTime is now on the store's clock. It begins with the wall clock and then
// follows the monotonic one, so that it never goes back and a lease takes as long
// on it as it takes.
func (m *memory) storeTime(now time.Time) lockagent.StoreTime {
	return lockagent.StoreTime(m.started.UnixMicro()).Add(now.Sub(m.started))
}

// lock returns what is known of a lock at now. If that is nothing it is a free
// lock, which touch makes known.
func (m *memory) lock(name lockagent.Name, now time.Time) *lock {
	l := m.locks[name]
	if l == nil {
		return &lock{}
	}
	l.expire(now)
	return l
}

// acquire is made through the Store by.
func (m *memory) acquire(req lockagent.AcquireRequest, now time.Time, by *Store) (lockagent.AcquireReply, error) {
	m.sweep(now)
	l := m.lock(req.Name, now)
	reply := lockagent.AcquireReply{At: m.storeTime(now), Incarnation: m.incarnation}
	switch {
	case m.finished(req.Name, req.Tenure.Agent) >= req.Tenure.Number:
		return lockagent.AcquireReply{}, lockagent.ErrWithdrawn
	case l.value:
		return lockagent.AcquireReply{}, lockagent.ErrWrongType
	case l.holder != nil && !l.heldBy(req.Tenure):
		if req.Queue {
			l.enqueue(place{req.Tenure, req.Tokens, by})
		}
		reply.Holder, reply.Remaining = l.holder.String(), l.holder.remaining(now)
		reply.Queued = l.place(req.Tenure) >= 0
		return reply, nil
	}
	first, err := l.reserve(req.Tokens, req.Floor, reply.At)
	if err != nil {
		return lockagent.AcquireReply{}, err
	}
	if l.holder == nil {
		l.holder = &holder{tenure: req.Tenure, count: 1, expires: now}
	}
	l.holder.extend(now, req.Lease)
	l.dequeue(req.Tenure)
	m.touch(req.Name, req.Tenure.Agent, l, now)
	reply.Granted, reply.Token = true, first
	return reply, nil
}

func (m *memory) renew(req lockagent.RenewRequest, now time.Time) lockagent.RenewReply {
	l := m.lock(req.Name, now)
	held := l.heldBy(req.Tenure)
	if held {
		l.holder.extend(now, req.Lease)
	}
	return lockagent.RenewReply{Held: held, At: m.storeTime(now)}
}

// release also returns the subscriptions to wake once mu is free, and what to wake
// them with.
func (m *memory) release(req lockagent.ReleaseRequest, now time.Time, by *Store) (lockagent.ReleaseReply, []*subscription, *lockagent.Pass) {
	m.sweep(now)
	l := m.lock(req.Name, now)
	reply := lockagent.ReleaseReply{Released: l.heldBy(req.Tenure), At: m.storeTime(now)}
	var woken []*subscription
	var pass *lockagent.Pass
	l.dequeue(req.Tenure)
	if reply.Released {
		l.holder = nil
		subs := m.subscribers(req.Name)
		if pass, woken = m.passOn(req.Name, l, subs, by, now); pass != nil {
			reply.Passed = true
		} else {
			woken, reply.Others = subs, otherStores(subs, by)
		}
	} else if known := m.recall(req.Name, req.Tenure.Agent); known != nil && known.number == req.Tenure.Number {
		return known.reply, nil, nil
	}
	// An older number leaves the memo as it is, or a later tenure that was
	// withdrawn could be granted after all.
	if req.Tenure.Number > m.finished(req.Name, req.Tenure.Agent) {
		remembered := m.touch(req.Name, req.Tenure.Agent, l, now)
		remembered.number, remembered.reply = req.Tenure.Number, reply
	}
	return reply, woken, pass
}

// breakLock also returns the subscriptions to wake once mu is free.
func (m *memory) breakLock(name lockagent.Name, now time.Time) (lockagent.BreakReply, []*subscription, error) {
	l := m.lock(name, now)
	reply := lockagent.BreakReply{At: m.storeTime(now)}
	switch {
	case l.value:
		return lockagent.BreakReply{}, nil, lockagent.ErrWrongType
	case l.holder == nil:
		return reply, nil, nil
	}
	l.holder = nil
	reply.Broken = true
	return reply, m.subscribers(name), nil
}

func (m *memory) inspect(name lockagent.Name, now time.Time) (lockagent.Inspection, error) {
	l := m.lock(name, now)
	switch {
	case l.value:
		return lockagent.Inspection{}, lockagent.ErrWrongType
	case l.holder == nil:
		return lockagent.Inspection{}, nil
	}
	return lockagent.Inspection{
		Held:      true,
		Holder:    l.holder.String(),
		HoldCount: l.holder.count,
		Remaining: l.holder.remaining(now),
	}, nil
}
