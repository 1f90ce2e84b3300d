package channelapi

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/backend"
)

// Locks are the locks of one process: one agent. Make them once, with [New]; the zero Locks
// are of no use.
type Locks struct {
	agent    backend.Agent
	identity func() string // of the store
	claim    time.Duration
	owners   atomic.Uint64 // made for requests without a session

	life   context.Context // ends when Close or Shutdown begins
	refuse context.CancelFunc

	mu       sync.Mutex
	sessions map[Owner]*Session // guarded by mu; the open ones
}

// New starts an agent on a store. Its error joins an [*OptionError] for every wrong field of
// cfg.
func New(cfg Config) (*Locks, error) {
	agent, err := actor.New(cfg.agent())
	if err != nil {
		return nil, err
	}
	return Over(backend.Backend{
		Agent:    agent,
		Identity: identityOf(cfg.Store),
		Claim:    cmp.Or(cfg.Claim, DefaultClaim),
	}), nil
}

// identityOf returns the function that tells the identity of a store. Without one, a store may be any other.
func identityOf(store Store) func() string {
	if h, ok := lockagent.Layer[lockagent.History](store); ok {
		return h.Identity
	}
	return func() string { return "" }
}

// Over returns the locks that a backend grants. It is for package agentclient. Applications call [New], or
// agentclient.Dial.
func Over(b backend.Backend) *Locks {
	l := &Locks{
		agent: b.Agent, identity: b.Identity, claim: b.Claim, sessions: make(map[Owner]*Session),
	}
	l.life, l.refuse = context.WithCancel(context.Background())
	return l
}

// ID is the identity of the agent, as stores and events show it. It begins with
// Config.Label.
func (l *Locks) ID() AgentID { return l.agent.ID() }

// Lock returns a handle of the lock with that name. Every request through the handle has the
// options, and an owner of its own. A handle needs no closing. If the name or an option is
// wrong, every request through the handle returns the error.
func (l *Locks) Lock(name string, opts ...Option) *Lock {
	return &Lock{newHandle(l, nil, name, plainLock, opts)}
}

// Session opens a session for owner, or for a new owner if owner is empty. It returns an
// [*OwnerError] if owner is no valid owner, or has an open session: each owner has one
// session, so that no re-entry comes as a surprise. After [Locks.Close] or [Locks.Shutdown]
// it returns [ErrClosed].
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
	if l.isClosed() {
		return nil, ErrClosed
	}
	if l.sessions[o] != nil {
		return nil, &OwnerError{
			Owner:  owner,
			Reason: "it has a session open already; share that one, close it first, or choose another owner",
		}
	}
	s := newSession(l, o)
	l.sessions[o] = s
	return s, nil
}

// Shutdown closes the locks, but lets the holders finish first. It answers new requests and
// requests that wait with [ErrClosed], and takes back grants that lie in their channels. Then it waits until all holds
// are over, but for those with [Outlive]. Meanwhile the agent renews their leases, and holders can release them.
//
// If ctx ends first, Shutdown ends the other holds as [Locks.Close] does, and returns the
// cause of ctx. The error is also [ErrUnconfirmed] if the store has not confirmed all
// releases. A Close during Shutdown ends the holds at once. Both may be called several
// times. Each call waits for the end.
func (l *Locks) Shutdown(ctx context.Context) error {
	l.refuse()
	defer l.endSessions()
	return l.agent.Shutdown(ctx)
}

// Close answers every request that waits with [ErrClosed], ends every hold with [LostClosed],
// and returns all locks to the store. It waits for that, bounded by the store. The error is
// [ErrUnconfirmed] if the store has not confirmed all releases: those locks are free when
// their leases have run out. Leases with [Outlive] stay. Close may be called several times.
// The store stays open: close it afterwards.
func (l *Locks) Close() error {
	l.refuse()
	defer l.endSessions()
	return l.agent.Close()
}

func (l *Locks) isClosed() bool { return l.life.Err() != nil }

// endSessions tells the sessions that they are over.
func (l *Locks) endSessions() {
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
