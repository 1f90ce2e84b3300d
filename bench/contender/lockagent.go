package contender

import (
	"context"
	"fmt"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/redisstore"
)

var lockagentKinds = []Kind{{
	Name: "lockagent", Family: Lockagent, Waits: true,
	Setup: "channelapi over redisstore.Open, both as they come: leases of 30 s that are renewed, hand-off with its " +
		"default budget",
	Open: func(ctx context.Context, addr string) (Contender, error) {
		return OpenAgent(ctx, addr, channelapi.Config{}, nil)
	},
}}

// Unrested is lockagent whose locks never rest: each hold goes through Redis. It is not among [Kinds], because a lock
// that others want does not rest anyway.
var Unrested = Kind{
	Name: "lockagent-unrested", Family: Lockagent, Waits: true,
	Setup: "the same with `NoRest`: no lock rests in the process, so each hold goes through Redis",
	Open: func(ctx context.Context, addr string) (Contender, error) {
		return OpenAgent(ctx, addr, channelapi.Config{NoRest: true}, nil)
	},
}

// lockKinds are kinds of lock that Redisson has as well, by the names that its driver has for them.
var lockKinds = map[string]func(*channelapi.Locks, string, ...channelapi.Option) *channelapi.Lock{
	"plain": (*channelapi.Locks).Lock,
	"fair":  (*channelapi.Locks).FairLock,
	"read":  (*channelapi.Locks).ReadLock,
}

// Agent is lockagent in one process.
type Agent struct {
	store *redisstore.Store
	locks *channelapi.Locks
	lock  func(*channelapi.Locks, string, ...channelapi.Option) *channelapi.Lock
}

// OpenAgent opens lockagent over a store on Redis. wrap decorates the store, if it is not nil.
func OpenAgent(
	ctx context.Context, addr string, cfg channelapi.Config, wrap func(lockagent.Store) lockagent.Store,
) (*Agent, error) {
	store, err := redisstore.Config{GraceFirst: redisstore.NoGraceFirst}.Open(ctx, "redis://"+addr)
	if err != nil {
		return nil, err
	}
	cfg.Store = store
	if wrap != nil {
		cfg.Store = wrap(store)
	}
	locks, err := channelapi.New(cfg)
	if err != nil {
		_ = store.Close()
		return nil, err
	}
	return &Agent{store: store, locks: locks, lock: (*channelapi.Locks).Lock}, nil
}

type agentHeld struct{ grant lockagent.Grant }

// Lock implements [Contender].
func (a *Agent) Lock(ctx context.Context, name string) (Held, error) {
	grant, err := a.lock(a.locks, name).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &agentHeld{grant}, nil
}

// Do implements [Doer].
func (a *Agent) Do(ctx context.Context, name string, work func()) error {
	return a.lock(a.locks, name).Do(ctx, func(context.Context, lockagent.Grant) error {
		work()
		return nil
	})
}

// Use changes the kind of the locks: plain, fair or read. They are plain at first.
func (a *Agent) Use(kind string) error {
	lock, ok := lockKinds[kind]
	if !ok {
		return fmt.Errorf("no kind of lock %q", kind)
	}
	a.lock = lock
	return nil
}

// Unrested is the same agent, but no lock rests that is acquired by way of it. It needs no Close of its own.
func (a *Agent) Unrested() *Agent {
	unrested := *a
	unrested.lock = func(locks *channelapi.Locks, name string, opts ...channelapi.Option) *channelapi.Lock {
		return a.lock(locks, name, append(opts, channelapi.NoRest())...)
	}
	return &unrested
}

// Session opens a session of an owner made up.
func (a *Agent) Session() (*channelapi.Session, error) { return a.locks.Session("") }

// Locks is what programs use.
func (a *Agent) Locks() *channelapi.Locks { return a.locks }

// Close implements [Contender].
func (a *Agent) Close() {
	_ = a.locks.Close() // what could not be given back dies with the server
	_ = a.store.Close()
}

func (h *agentHeld) Unlock() error { return h.grant.Release(context.Background()) }
func (h *agentHeld) Lost() bool    { return !h.grant.Held() }
