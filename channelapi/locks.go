package channelapi

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// Locks are the locks of one process. Make them once, with [New]; the zero Locks are of no
// use.
type Locks struct {
	agent  *actor.Agent
	claim  time.Duration
	logger *slog.Logger
	owners atomic.Uint64 // made for requests without a session

	mu       sync.Mutex
	sessions map[Owner]*Session // guarded by mu; the open ones
	closed   bool               // guarded by mu
}

// New starts to work with a store. It returns an error that joins an [*OptionError] for
// every wrong field of cfg.
func New(cfg Config) (*Locks, error) {
	agent, err := actor.New(cfg.agent())
	if err != nil {
		return nil, err
	}
	return &Locks{
		agent:    agent,
		claim:    cmp.Or(cfg.Claim, DefaultClaim),
		logger:   cmp.Or(cfg.Logger, slog.Default()),
		sessions: make(map[Owner]*Session),
	}, nil
}

// ID is the identity of the agent, as stores and events show it. It begins with
// Config.Label.
func (l *Locks) ID() lockagent.AgentID { return l.agent.ID() }

// Lock is a handle of the lock with that name, which will be asked for as the options say.
// It costs nothing and needs no closing. Requests through it have owners of their own. A
// name that no lock can have, or an option that makes no sense, is reported by the first
// use of the handle.
func (l *Locks) Lock(name string, opts ...Option) *Lock {
	return &Lock{newHandle(l, nil, name, opts)}
}

// Session opens a session of owner, or of an owner made up if that is empty. It returns
// an [*OwnerError] if owner cannot be one or has a session open already: one owner, one
// session, so that re-entrancy is never a surprise. After [Locks.Close] it returns
// [ErrClosed].
func (l *Locks) Session(owner string) (*Session, error) {
	o := Owner(owner)
	if owner == "" {
		o = l.newOwner()
	}
	if _, err := lockagent.ParseOwner(string(o)); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	if l.sessions[o] != nil {
		return nil, &OwnerError{Owner: owner, Reason: "it has a session open already; share that one, close it first, or choose another owner"}
	}
	s := newSession(l, o)
	l.sessions[o] = s
	return s, nil
}

// Shutdown lets holders finish: it refuses new requests and answers those that wait, with
// [ErrClosed], and waits until all holds are over. When ctx ends it ends what is left, as
// [Locks.Close] does, and returns the cause of ctx; that is joined with [ErrUnconfirmed] if
// the store could not be told of everything. Close may cut it short. Both may be called
// several times, and wait for the end.
func (l *Locks) Shutdown(ctx context.Context) error {
	l.refuse()
	defer l.over()
	return l.agent.Shutdown(ctx)
}

// Close answers every request that waits with [ErrClosed], ends every hold with
// [LostClosed], gives back to the store what is held there, and waits for that. It
// returns an error that is [ErrUnconfirmed] if the store could not be told of everything:
// the rest is free when its leases have run out. Leases that [Outlive] it stay. Close may
// be called several times. The store stays open; close it afterwards.
func (l *Locks) Close() error {
	l.refuse()
	defer l.over()
	return l.agent.Close()
}

// refuse opens no more sessions.
func (l *Locks) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

func (l *Locks) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// over tells the sessions that they are over.
func (l *Locks) over() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sessions {
		s.over()
	}
}

func (l *Locks) newOwner() Owner {
	var room [96]byte // enough for any, so that the string is all that is allocated
	text := append(append(room[:0], l.agent.ID()...), '/')
	return Owner(strconv.AppendUint(text, l.owners.Add(1), 10))
}
