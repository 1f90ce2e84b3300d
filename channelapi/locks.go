package channelapi

import (
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// Config tells what to work with. Only the store is required.
type Config = actor.Config

// Locks are the locks of one agent. Make them with [New]; the zero Locks are of no
// use.
type Locks struct {
	agent  *actor.Agent
	owners atomic.Uint64 // made for requests without a session

	mu       sync.Mutex
	sessions map[lockagent.Owner]*Session // guarded by mu; the open ones
	closed   bool                         // guarded by mu
}

// New starts an agent. It returns an error that joins a [lockagent.OptionError]
// for every wrong field of cfg.
func New(cfg Config) (*Locks, error) {
	agent, err := actor.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Locks{agent: agent, sessions: make(map[lockagent.Owner]*Session)}, nil
}

// ID is the identity of the agent, as stores and events show it.
func (l *Locks) ID() lockagent.AgentID { return l.agent.ID() }

// Lock is a handle of the lock with that name. It costs nothing and needs no
// closing. Requests through it have owners of their own. A name that no lock can
// have is reported by the first use of the handle.
func (l *Locks) Lock(name lockagent.Name) *Lock { return &Lock{locks: l, name: name} }

// Session opens a session of owner, or of an owner made up if that is empty. It
// returns an [lockagent.OwnerError] if owner cannot be one or has a session open
// already: one owner, one session, so that re-entrancy is never a surprise. After
// [Locks.Close] it returns [lockagent.ErrClosed].
func (l *Locks) Session(owner lockagent.Owner) (*Session, error) {
	if owner == "" {
		owner = l.newOwner()
	}
	if _, err := lockagent.ParseOwner(string(owner)); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, lockagent.ErrClosed
	}
	if l.sessions[owner] != nil {
		return nil, &lockagent.OwnerError{Owner: string(owner), Reason: "it has a session open already; share that one, close it first, or choose another owner"}
	}
	s := &Session{locks: l, owner: owner, names: make(map[lockagent.Name]int)}
	l.sessions[owner] = s
	return s, nil
}

// Close answers every request that waits with [lockagent.ErrClosed], ends every
// hold, gives back to the store what the agent has there, and waits for that. It
// returns an error that is [lockagent.ErrUnconfirmed] if the store could not be
// told of everything: the rest is free when its leases have run out. Close may be
// called several times; the store stays open.
func (l *Locks) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	return l.agent.Close()
}

func (l *Locks) newOwner() lockagent.Owner {
	return lockagent.Owner(string(l.agent.ID()) + "/" + strconv.FormatUint(l.owners.Add(1), 10))
}
