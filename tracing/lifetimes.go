package tracing

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/lockagent/lockagent"
)

// lifetimes remembers what has begun and not ended, lock by lock. A lock that
// nobody holds or waits for is forgotten.
//
// The recorder's calls for one lock come one after the other, so that only the
// way to a lock needs a mutex.
type lifetimes struct {
	seed   maphash.Seed
	locks  atomic.Int64 // how many are remembered
	shards [64]shard
}

type shard struct {
	mu    sync.Mutex // protects the fields
	locks map[lockKey]*lock
	spare []*lock // that are empty, and used again
}

// Bounds of what is kept for later use: locks for each shard, and the requests and
// holds that such a lock ever had at once.
const (
	mostSpare = 8
	mostOpen  = 8
)

type lockKey struct {
	agent lockagent.AgentID
	name  lockagent.Name
}

// lock is what is under way with one lock in one agent.
type lock struct {
	requests map[uint64]request // by Event.Request
	holds    map[holdKey]hold
	large    bool // it had more than mostOpen of them

	handing trace.SpanContext // of how the last hold ended
	endedAt time.Time         // when that was; zero if no hold has ended yet
	trusted time.Time         // until when the lease is trusted, as far as is known
}

type request struct {
	span   trace.Span
	parent string // the trace context for events
	queued bool   // and counted as a waiter
}

// holdKey names a hold of a lock. An owner may have several at once: of a semaphore, or in both modes. All grants of
// one hold have one token.
type holdKey struct {
	owner lockagent.Owner
	token lockagent.Token
}

func holdOf(e *lockagent.Event) holdKey { return holdKey{e.Owner, e.Token} }

type hold struct {
	span    trace.Span
	parent  string
	since   time.Time
	counted bool // as held
}

func newLifetimes() *lifetimes { return &lifetimes{seed: maphash.MakeSeed()} }

func (t *lifetimes) shard(key lockKey) *shard {
	return &t.shards[maphash.Comparable(t.seed, key)%uint64(len(t.shards))]
}

// any reports whether anything is under way.
func (t *lifetimes) any() bool { return t.locks.Load() > 0 }

// of returns a lock, or nil.
func (t *lifetimes) of(e *lockagent.Event) *lock {
	if !t.any() {
		return nil
	}
	key := lockKey{e.Agent, e.Lock}
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locks[key]
}

// request returns what is remembered of a request. l may be nil.
func (l *lock) request(e *lockagent.Event) (q request, known bool) {
	if l == nil {
		return request{}, false
	}
	q, known = l.requests[e.Request]
	return q, known
}

// remember remembers a request.
func (t *lifetimes) remember(e *lockagent.Event, q request) {
	l := t.made(e)
	l.requests[e.Request] = q
	l.large = l.large || len(l.requests) > mostOpen
}

// made returns a lock, and makes it if nothing is under way with it.
func (t *lifetimes) made(e *lockagent.Event) *lock {
	key := lockKey{e.Agent, e.Lock}
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.locks[key]; l != nil {
		return l
	}
	var l *lock
	if last := len(s.spare) - 1; last >= 0 {
		l, s.spare = s.spare[last], s.spare[:last]
	} else {
		l = &lock{requests: make(map[uint64]request), holds: make(map[holdKey]hold)}
	}
	if s.locks == nil {
		s.locks = make(map[lockKey]*lock)
	}
	s.locks[key] = l
	t.locks.Add(1)
	return l
}

// tidy forgets a lock with which nothing is under way any more.
func (t *lifetimes) tidy(e *lockagent.Event, l *lock) {
	if len(l.requests) > 0 || len(l.holds) > 0 {
		return
	}
	key := lockKey{e.Agent, e.Lock}
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.locks, key)
	t.locks.Add(-1)
	if !l.large && len(s.spare) < mostSpare {
		*l = lock{requests: l.requests, holds: l.holds}
		s.spare = append(s.spare, l)
	}
}
