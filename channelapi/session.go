package channelapi

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// Session is an owner that may hold a lock several times. It belongs to no
// goroutine: whoever has the session acts as its owner. Open one with
// [Locks.Session]; the zero Session is of no use.
type Session struct {
	locks *Locks
	owner lockagent.Owner

	// gate lets requests through while the session is open. Closing takes it for
	// itself, so that no request is on its way when the locks are left.
	gate   sync.RWMutex
	closed bool // guarded by gate

	mu    sync.Mutex
	names map[lockagent.Name]int // guarded by mu; locks that are held or waited for, and how often
}

// Owner is who the session acts for.
func (s *Session) Owner() lockagent.Owner { return s.owner }

// Lock is a handle of the lock with that name, through which the session's owner
// asks.
func (s *Session) Lock(name lockagent.Name) *Lock {
	return &Lock{locks: s.locks, session: s, name: name}
}

func (s *Session) acquire(ctx context.Context, name lockagent.Name, req actor.Request) <-chan lockagent.Grant {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return denied(name, lockagent.ErrSessionClosed)
	}
	req.Owner, req.Session = s.owner, true
	req.Over = func() { s.count(name, -1) }
	s.count(name, +1)
	return s.locks.agent.Acquire(ctx, name, req)
}

func (s *Session) release(name lockagent.Name) <-chan error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed { // the owner may have another session by now, which has holds of its own
		done := make(chan error, 1)
		done <- lockagent.ErrSessionClosed
		close(done)
		return done
	}
	return s.locks.agent.Release(name, s.owner)
}

func (s *Session) count(name lockagent.Name, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names[name] += by; s.names[name] == 0 {
		delete(s.names, name)
	}
}

// Close ends everything the session holds or waits for: its holds are lost with
// [lockagent.LostSessionClosed], its requests answered with
// [lockagent.ErrSessionClosed]. It waits until the locks have been given back, or
// until ctx ends: then it returns the cause of ctx, and the rest goes on by itself.
// An error that is [lockagent.ErrUnconfirmed] tells that the store has not
// confirmed all of it yet, and one that is [lockagent.ErrLost] that a lock had been
// lost before, unnoticed. Afterwards the session refuses everything, and its owner
// may open another. Closing again does nothing.
func (s *Session) Close(ctx context.Context) error {
	s.gate.Lock()
	again := s.closed
	s.closed = true
	s.gate.Unlock()
	if again {
		return nil
	}
	s.mu.Lock()
	names := make([]lockagent.Name, 0, len(s.names))
	for name := range s.names {
		names = append(names, name)
	}
	s.mu.Unlock()
	slices.Sort(names)
	left := make([]<-chan error, len(names))
	for i, name := range names {
		left[i] = s.locks.agent.Leave(name, s.owner)
	}
	s.locks.mu.Lock()
	delete(s.locks.sessions, s.owner)
	s.locks.mu.Unlock()
	var errs []error
	for _, done := range left {
		gone, err := receive(ctx, done)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		if gone != nil && !errors.Is(gone, lockagent.ErrClosed) { // a closed agent has left everything
			errs = append(errs, gone)
		}
	}
	return errors.Join(errs...)
}
