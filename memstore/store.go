package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// A Store has every layer.
var (
	_ lockagent.Store    = (*Store)(nil)
	_ lockagent.Messages = (*Store)(nil)
	_ lockagent.Queue    = (*Store)(nil)
	_ lockagent.Rests    = (*Store)(nil)
	_ lockagent.Operator = (*Store)(nil)
	_ lockagent.Counters = (*Store)(nil)
	_ lockagent.History  = (*Store)(nil)
)

// Store is one agent's handle on a memory of locks, a [lockagent.Store]. [New]
// makes one with a new memory, [Store.Share] another with the same memory. The zero Store is of
// no use. A Store is safe for concurrent use.
type Store struct {
	memory   *memory
	outsider bool // the Store of an outsider

	// Guarded by memory.mu.
	closed bool
	fault  fault
}

// New returns a Store with a new memory, which has no locks. It need not be closed.
func New() *Store { return &Store{memory: newMemory()} }

// Share returns another Store with the same memory, for another agent. It has subscriptions and
// faults of its own. It is open until its own Close, even if s is closed.
func (s *Store) Share() *Store { return &Store{memory: s.memory} }

// Acquire implements [lockagent.Store]. If the request is out of bounds, the error is a
// [*lockagent.NameError] or a [*lockagent.OptionError].
func (s *Store) Acquire(_ context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	call(s, req, (*memory).acquire, done)
}

// Renew implements [lockagent.Store].
func (s *Store) Renew(_ context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	call(s, req, (*memory).renew, done)
}

// Release implements [lockagent.Store].
func (s *Store) Release(_ context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	call(s, req, (*memory).release, done)
}

// Break implements [lockagent.Operator].
func (s *Store) Break(_ context.Context, req lockagent.BreakRequest, done func(lockagent.BreakReply, error)) {
	call(s, req, (*memory).breakLock, done)
}

// Inspect implements [lockagent.Operator].
func (s *Store) Inspect(
	_ context.Context, name lockagent.Name, kind lockagent.LockKind, done func(lockagent.Inspection, error),
) {
	call(s, inspection{name, kind}, (*memory).inspect, done)
}

// Time implements [lockagent.History].
func (s *Store) Time(_ context.Context, done func(lockagent.StoreTime, error)) {
	call(s, nothing{}, (*memory).time, done)
}

// Identity implements [lockagent.History]. It is that of the memory.
func (s *Store) Identity() string { return s.memory.identity }

// RemembersSince implements [lockagent.History]. It is that of the latest Reset, or of the latest step forward of the
// clock. It is zero if there was none since the first grant: a new memory has forgotten nothing.
func (s *Store) RemembersSince() time.Time {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	return s.memory.since
}

// Queues implements [lockagent.Queue]. There always are queues.
func (s *Store) Queues() bool { return true }

// Rests implements [lockagent.Rests]. Tenures always may rest.
func (s *Store) Rests() bool { return true }

// Close implements [lockagent.Store]. Other Stores with the same memory go on. It always returns
// nil.
func (s *Store) Close() error {
	m := s.memory
	m.mu.Lock()
	s.closed = true
	hanging := s.fault.take()
	waiting := m.unsubscribeStore(s)
	m.mu.Unlock()
	for _, h := range hanging {
		h.fail(lockagent.ErrClosed)
	}
	for _, sub := range waiting {
		sub.wake()
	}
	return nil
}

// Advance makes all later tokens of the memory greater than a token. It is for a process that goes on where another one
// has ended: somebody may have set the wall clock back in between.
func (s *Store) Advance(token lockagent.Token) {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	s.memory.clock.advance(time.Now(), lockagent.StoreTime(token))
}

// Reset makes the memory forget everything, like a server that is restarted or emptied. All
// locks are free, and the memory is another incarnation. Reset calls the functions of OnReset of
// all its Stores. It wakes nobody: an emptied server does not, either. It is for tests and
// demonstrations.
func (s *Store) Reset() {
	m := s.memory
	m.change("emptied", 0, func(time.Time) { m.forget() })
}

// StepClock sets the clock of the memory forward, or back if d is negative, as somebody sets the
// wall clock of a server. All leases end so much earlier, or later. Times and tokens never go back.
// StepClock calls the functions of OnReset of all Stores of the memory. It is for tests.
func (s *Store) StepClock(d time.Duration) {
	m := s.memory
	m.change("clock stepped", d, func(now time.Time) {
		m.clock.step(max(d, 0))
		for _, l := range m.locks {
			l.expire(now)
			for i := range l.holders {
				if h := &l.holders[i]; !h.endless() {
					h.expires = h.expires.Add(-d)
				}
			}
			l.permits.step(d)
		}
	})
}

// change changes the memory, and then calls the functions of OnReset. mu must be free.
func (m *memory) change(reason string, step time.Duration, do func(now time.Time)) {
	m.mu.Lock()
	now := time.Now()
	reset := lockagent.Reset{From: m.clock.incarnation, Reason: reason, After: m.clock.at(now), Step: step}
	if step >= 0 && m.clock.guard > 0 { // otherwise there was no grant to forget
		m.since = now
	}
	do(now)
	reset.To, reset.Before = m.clock.incarnation, m.clock.at(now)
	hooks := slices.DeleteFunc(slices.Clone(m.hooks), func(hook *resetHook) bool {
		return hook.store.fault.misses(reset)
	})
	m.mu.Unlock()
	for _, hook := range hooks {
		hook.call(reset)
	}
}

// request is the request of a call.
type request interface{ Check() error }

// nothing is the request of a call that needs nothing.
type nothing struct{}

// Check implements request.
func (nothing) Check() error { return nil }

// call makes one call. If the Store hangs, the call waits.
func call[Q request, R any](s *Store, req Q, do func(*memory, *visit, Q) (R, error), done func(R, error)) {
	if err := req.Check(); err != nil {
		var none R
		done(none, err)
		return
	}
	s.memory.mu.Lock()
	if s.fault.hangs && !s.closed {
		s.fault.calls = append(s.fault.calls, hang(s, req, do, done))
		s.memory.mu.Unlock()
		return
	}
	perform(s, req, do, done)
}

// perform makes one call. The caller has locked mu, and perform unlocks it. Then it calls the
// functions of the visit, and done.
func perform[Q request, R any](s *Store, req Q, do func(*memory, *visit, Q) (R, error), done func(R, error)) {
	v := visit{by: s, now: time.Now()}
	var reply R
	err := s.away()
	if err == nil {
		reply, err = do(s.memory, &v, req)
	}
	s.memory.mu.Unlock()
	v.tell()
	done(reply, err)
}

// away is the error of all calls during an outage or after Close, or nil.
func (s *Store) away() error {
	if s.closed {
		return lockagent.ErrClosed
	}
	return s.fault.outage
}
