package channelapi

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/lockagent/lockagent/actor"
)

// Session is an owner that may hold a lock several times. It belongs to no goroutine:
// whoever has the session acts as its owner. Open one with [Locks.Session]; the zero
// Session is of no use.
type Session struct {
	locks *Locks
	owner Owner
	over  func()        // closes done
	done  chan struct{} // closed when the session is over
	left  chan struct{} // closed when Close has set outcome

	// gate lets requests through while the session is open. Closing takes it for
	// itself, so that no request is on its way when the locks are left.
	gate    sync.RWMutex
	closed  bool  // guarded by gate
	outcome error // of Close

	mu    sync.Mutex
	names map[Name]uses // guarded by mu; locks that are held or waited for
}

// uses counts the requests of a lock that are not over.
type uses struct {
	asked int // held or waited for
	held  int
}

func newSession(l *Locks, owner Owner) *Session {
	s := &Session{locks: l, owner: owner, done: make(chan struct{}), left: make(chan struct{}), names: make(map[Name]uses)}
	s.over = sync.OnceFunc(func() { close(s.done) })
	return s
}

// Owner is who the session acts for.
func (s *Session) Owner() Owner { return s.owner }

// Lock is a handle of the lock with that name, through which the session's owner asks as
// the options say. It costs nothing and needs no closing.
func (s *Session) Lock(name string, opts ...Option) *SessionLock {
	return &SessionLock{newHandle(s.locks, s, name, opts)}
}

// Holds reports whether the session has been granted the lock and the hold is not over. It
// asks no store: like [lockagent.Grant.Done] it may tell late that a lock was lost.
func (s *Session) Holds(name string) bool { return s.holds(Name(name)) }

// Done returns a channel that is closed when the session is over: it was closed, or its
// [Locks] were. Its holds end with it; the Done of each grant tells when.
func (s *Session) Done() <-chan struct{} { return s.done }

// Close ends everything the session holds or waits for: its holds are lost with
// [LostSessionClosed], its requests answered with [ErrSessionClosed]. It waits until the
// locks have been given back, or until ctx ends: then it returns the cause of ctx, and the
// rest goes on by itself. The error is [ErrUnconfirmed] if the store has not confirmed all
// of it yet. It is [ErrLost] if a lock had been lost before, and nobody had noticed.
// Afterwards the session refuses everything, and its owner may open another. Closing again
// waits for the first call and returns the same.
func (s *Session) Close(ctx context.Context) error {
	s.leave()
	if _, err := receive(ctx, s.left); err != nil {
		return err
	}
	return s.outcome
}

// leave begins to give the locks back, once.
func (s *Session) leave() {
	s.gate.Lock()
	again := s.closed
	s.closed = true
	s.gate.Unlock()
	if again {
		return
	}
	s.mu.Lock()
	names := make([]Name, 0, len(s.names))
	for name := range s.names {
		names = append(names, name)
	}
	s.mu.Unlock()
	slices.Sort(names)
	leaving := make([]<-chan error, len(names))
	for i, name := range names {
		leaving[i] = s.locks.agent.Leave(name, s.owner)
	}
	s.over()
	s.locks.mu.Lock()
	delete(s.locks.sessions, s.owner)
	s.locks.mu.Unlock()
	go func() {
		defer close(s.left)
		var errs []error
		for _, done := range leaving {
			if err := <-done; err != nil && !errors.Is(err, ErrClosed) { // a closed agent has left everything
				errs = append(errs, err)
			}
		}
		s.outcome = errors.Join(errs...)
	}()
}

func (s *Session) isClosed() bool {
	s.gate.RLock()
	defer s.gate.RUnlock()
	return s.closed
}

func (s *Session) acquire(ctx context.Context, name Name, req actor.Request) <-chan Grant {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return denied(name, ErrSessionClosed)
	}
	req.Owner, req.Session = s.owner, true
	held, over := 0, req.Over
	req.Granted = func() {
		held = 1
		s.count(name, uses{held: 1})
	}
	req.Over = func() {
		s.count(name, uses{asked: -1, held: -held})
		if over != nil {
			over()
		}
	}
	s.count(name, uses{asked: 1})
	return s.locks.agent.Acquire(ctx, name, req)
}

func (s *Session) release(name Name) <-chan error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed { // the owner may have another session by now, which has holds of its own
		return delivered(ErrSessionClosed)
	}
	return s.locks.agent.Release(name, s.owner)
}

func (s *Session) count(name Name, by uses) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.names[name]
	u.asked += by.asked
	u.held += by.held
	if u.asked == 0 {
		delete(s.names, name)
	} else {
		s.names[name] = u
	}
}

func (s *Session) holds(name Name) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name].held > 0
}

// lastHeld is the lock that sorts after all others that the session holds, or empty.
func (s *Session) lastHeld() (last Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, u := range s.names {
		if u.held > 0 {
			last = max(last, name)
		}
	}
	return last
}
