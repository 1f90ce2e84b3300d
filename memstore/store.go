package memstore

import (
	"context"
	"time"

	"github.com/lockagent/lockagent"
)

var _ lockagent.Store = (*Store)(nil)

// Store is one agent's handle on a memory of locks, a [lockagent.Store]. [New]
// makes one on a new memory, [Store.Share] another on the same memory. The zero
// Store is of no use. A Store is safe for concurrent use.
type Store struct {
	memory *memory
	closed bool // guarded by memory.mu
}

// New returns a Store on a memory of its own, without any locks. It holds
// nothing that has to be closed.
func New() *Store { return &Store{memory: newMemory()} }

// Share returns another Store on the same memory, for another agent. It has its
// own subscriptions and is closed on its own. It is open even if s is closed.
func (s *Store) Share() *Store { return &Store{memory: s.memory} }

// Acquire implements [lockagent.Store]. The request is refused with a
// [*lockagent.NameError] or a [*lockagent.OptionError] if it is out of bounds.
func (s *Store) Acquire(_ context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	done(s.acquire(req))
}

func (s *Store) acquire(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
	if err := req.Check(); err != nil {
		return lockagent.AcquireReply{}, err
	}
	now, err := s.enter()
	if err != nil {
		return lockagent.AcquireReply{}, err
	}
	defer s.leave()
	return s.memory.acquire(req, now, s)
}

// Renew implements [lockagent.Store].
func (s *Store) Renew(_ context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	done(s.renew(req))
}

func (s *Store) renew(req lockagent.RenewRequest) (lockagent.RenewReply, error) {
	if err := req.Check(); err != nil {
		return lockagent.RenewReply{}, err
	}
	now, err := s.enter()
	if err != nil {
		return lockagent.RenewReply{}, err
	}
	defer s.leave()
	return s.memory.renew(req, now), nil
}

// Release implements [lockagent.Store]. Of a tenure that ended longer than
// [Retention] ago nothing is known: it is answered as one that never began.
func (s *Store) Release(_ context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	reply, woken, pass, err := s.release(req)
	wakeAll(woken, pass)
	done(reply, err)
}

func (s *Store) release(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, []*subscription, *lockagent.Pass, error) {
	if err := req.Check(); err != nil {
		return lockagent.ReleaseReply{}, nil, nil, err
	}
	now, err := s.enter()
	if err != nil {
		return lockagent.ReleaseReply{}, nil, nil, err
	}
	defer s.leave()
	reply, woken, pass := s.memory.release(req, now, s)
	return reply, woken, pass, nil
}

// Break implements [lockagent.Store].
func (s *Store) Break(_ context.Context, name lockagent.Name, done func(lockagent.BreakReply, error)) {
	reply, woken, err := s.breakLock(name)
	wakeAll(woken, nil)
	done(reply, err)
}

func (s *Store) breakLock(name lockagent.Name) (lockagent.BreakReply, []*subscription, error) {
	if _, err := lockagent.ParseName(string(name)); err != nil {
		return lockagent.BreakReply{}, nil, err
	}
	now, err := s.enter()
	if err != nil {
		return lockagent.BreakReply{}, nil, err
	}
	defer s.leave()
	return s.memory.breakLock(name, now)
}

// Inspect implements [lockagent.Store].
func (s *Store) Inspect(_ context.Context, name lockagent.Name, done func(lockagent.Inspection, error)) {
	done(s.inspect(name))
}

func (s *Store) inspect(name lockagent.Name) (lockagent.Inspection, error) {
	if _, err := lockagent.ParseName(string(name)); err != nil {
		return lockagent.Inspection{}, err
	}
	now, err := s.enter()
	if err != nil {
		return lockagent.Inspection{}, err
	}
	defer s.leave()
	return s.memory.inspect(name, now)
}

// Close implements [lockagent.Store]. Other Stores on the same memory go on. It
// returns nil, also when it is called again.
func (s *Store) Close() error {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	s.closed = true
	s.memory.unsubscribeStore(s)
	return nil
}

// Reset makes the memory forget everything, as a server does that is restarted
// or emptied: all locks are free, and the memory is another incarnation. It calls
// the functions that OnReset was given by any Store on the memory. It wakes
// nobody, as an emptied server does not. It is for tests and demonstrations.
func (s *Store) Reset() {
	reset, hooks := s.memory.reset()
	for _, hook := range hooks {
		hook.call(reset)
	}
}

// enter locks the memory for one call and says at which instant it happens. The
// clock is read under the mutex, so instants have the order of the calls.
func (s *Store) enter() (time.Time, error) {
	s.memory.mu.Lock()
	if s.closed {
		s.memory.mu.Unlock()
		return time.Time{}, lockagent.ErrClosed
	}
	return time.Now(), nil
}

func (s *Store) leave() { s.memory.mu.Unlock() }
