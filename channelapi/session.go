package channelapi

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// Session is an owner that may acquire a lock again that it holds already (re-entry). It
// belongs to no goroutine: every goroutine that uses the session acts as its owner. Open one
// with [Locks.Session]; the zero Session is of no use.
//
// The holds of a session have one lease of a lock. If the lease of one of them is kept, so are all. Otherwise all end
// together: an acquire begins the lease anew, as an extension does, and a release after which the session still holds
// the lock. It never ends earlier than before, and not before the deadline that it had while it was kept. Only a fixed
// lease with [Outlive] is not kept because another hold is.
type Session struct {
	locks   *Locks
	owner   Owner
	over    func()        // closes done
	done    chan struct{} // closed when the session is over
	left    chan struct{} // closed when Close has set outcome
	outcome error         // of Close

	mu      sync.Mutex
	closing context.Context // guarded by mu; of the first Close, nil while the session is open
	calls   int             // guarded by mu; on their way to the agent
	names   map[Name]uses   // guarded by mu; the locks that the session holds or waits for
}

// uses counts the requests for a lock that are not over.
type uses struct {
	asked int // held or waited for
	held  int
}

func newSession(l *Locks, owner Owner) *Session {
	s := &Session{locks: l, owner: owner, done: make(chan struct{}), left: make(chan struct{}), names: make(map[Name]uses)}
	s.over = sync.OnceFunc(func() { close(s.done) })
	return s
}

// Owner is the owner of the session.
func (s *Session) Owner() Owner { return s.owner }

// Lock returns a handle of the lock with that name. Every request through the handle has the
// options, and the owner of the session. A handle needs no closing.
func (s *Session) Lock(name string, opts ...Option) *SessionLock {
	return &SessionLock{newHandle(s.locks, s, name, plainLock, opts)}
}

// Holds reports whether the session was granted the lock and the hold is not over. For a read/write lock, it does not
// matter whether the hold reads or writes. Holds asks no store. Like [lockagent.Grant.Done], it may be late after the
// machine was suspended.
func (s *Session) Holds(name string) bool { return s.holds(Name(name)) }

// Done returns a channel that is closed when the session or its [Locks] have been closed. The
// holds of the session end then, too. The Done of each grant tells when.
func (s *Session) Done() <-chan struct{} { return s.done }

// Close ends every hold of the session with [LostSessionClosed], and answers every request
// that waits with [ErrSessionClosed]. It waits until the agent has returned the locks. If
// ctx ends first, Close returns the cause of ctx, and the agent goes on.
//
// The error is [ErrUnconfirmed] if the store has not confirmed all releases. It is [ErrLost]
// if the release shows that a hold had been lost before. Every later use of the session
// returns [ErrSessionClosed]. Its owner may open another session. A second Close waits for
// the first, and returns the same error.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	first := s.closing == nil
	if first {
		s.closing = ctx
		s.calls++
	}
	s.mu.Unlock()
	if first {
		s.end()
	}
	if _, err := receive(ctx, s.left); err != nil {
		return err
	}
	return s.outcome
}

// begin reports whether a call may go to the agent. If it may, end has to be called when the
// agent has the call. The agent may call the application meanwhile, so no mutex is held.
func (s *Session) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing != nil {
		return false
	}
	s.calls++
	return true
}

// end is called when the agent has a call. After Close, the last end leaves the locks. So no
// request reaches the agent afterwards, when the owner may have another session.
func (s *Session) end() {
	s.mu.Lock()
	s.calls--
	ctx, last := s.closing, s.calls == 0
	s.mu.Unlock()
	if ctx != nil && last {
		s.leave(ctx)
	}
}

// leave begins to give the locks back, once.
func (s *Session) leave(ctx context.Context) {
	s.mu.Lock()
	names := make([]Name, 0, len(s.names))
	for name := range s.names {
		names = append(names, name)
	}
	s.mu.Unlock()
	slices.Sort(names)
	leaving := make([]<-chan error, len(names))
	for i, name := range names {
		leaving[i] = s.locks.agent.Leave(ctx, name, s.owner)
	}
	s.over()
	s.locks.mu.Lock()
	delete(s.locks.sessions, s.owner)
	s.locks.mu.Unlock()
	go func() {
		defer close(s.left)
		var errs []error
		for _, done := range leaving {
			if err := <-done; err != nil && !errors.Is(err, ErrClosed) { // a closed agent has returned all locks
				errs = append(errs, err)
			}
		}
		s.outcome = errors.Join(errs...)
	}()
}

func (s *Session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing != nil
}

func (s *Session) acquire(ctx context.Context, name Name, req actor.Request) <-chan Grant {
	if !s.begin() {
		return denied(name, ErrSessionClosed)
	}
	defer s.end()
	req.Owner, req.Session = s.owner, true
	use := &use{Watcher: req.Watch, session: s, name: name}
	if req.Watch == nil {
		use.Watcher = actor.NopWatcher{}
	}
	req.Watch = use
	s.count(name, uses{asked: 1})
	return s.locks.agent.Acquire(ctx, name, req)
}

// use is one request of a session. It counts, and tells the watcher of the request.
type use struct {
	actor.Watcher
	session *Session
	name    Name
	held    int
}

// Granted implements [actor.Watcher].
func (u *use) Granted(holds int) {
	u.held = 1
	u.session.count(u.name, uses{held: 1})
	u.Watcher.Granted(holds)
}

// Ended implements [actor.Watcher].
func (u *use) Ended(cause error) {
	u.session.count(u.name, uses{asked: -1, held: -u.held})
	u.Watcher.Ended(cause)
}

func (s *Session) release(ctx context.Context, name Name, mode lockagent.Mode) <-chan error {
	if !s.begin() { // the owner may have another session by now, with holds of its own
		return delivered(ErrSessionClosed)
	}
	defer s.end()
	return s.locks.agent.ReleaseMode(ctx, name, s.owner, mode)
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

// lastHeld is the greatest name of the locks that the session holds, or empty.
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
