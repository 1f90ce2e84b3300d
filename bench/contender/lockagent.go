package contender

import (
	"context"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/redisstore"
)

var lockagentKinds = []Kind{{
	Name: "lockagent", Family: Lockagent, Waits: true,
	Setup: "channelapi over redisstore.Open, both as they come: leases of 30 s that are renewed, hand-off with its default budget",
	Open: func(ctx context.Context, addr string) (Contender, error) {
		return OpenAgent(ctx, addr, channelapi.Config{}, nil)
	},
}}

// Agent is lockagent in one process.
type Agent struct {
	store *redisstore.Store
	locks *channelapi.Locks
}

// OpenAgent opens lockagent over a store on Redis. wrap decorates the store, if it is not nil.
func OpenAgent(ctx context.Context, addr string, cfg channelapi.Config, wrap func(lockagent.Store) lockagent.Store) (*Agent, error) {
	store, err := redisstore.Open(ctx, "redis://"+addr)
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
	return &Agent{store: store, locks: locks}, nil
}

type agentHeld struct{ grant lockagent.Grant }

// Lock implements [Contender].
func (a *Agent) Lock(ctx context.Context, name string) (Held, error) {
	grant, err := a.locks.Lock(name).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &agentHeld{grant}, nil
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
