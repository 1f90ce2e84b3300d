// Package testlog fills a real event log, for the tests of the examples that read one.
package testlog

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/memstore"
)

// Log is an event log in a NATS server.
type Log struct {
	URL   string
	store *memstore.Store
}

// New returns the log of a server.
func New(url string) *Log { return &Log{URL: url, store: memstore.New()} }

// Write adds events of an agent that nobody runs. They happen now, unless they have a time.
func (l *Log) Write(t *testing.T, all ...lockagent.Event) {
	t.Helper()
	agent := lockagent.NewAgentID()
	publisher, err := natslog.NewPublisher(natslog.Config{Connection: natslog.Connection{URL: l.URL}, Agent: agent})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Time.IsZero() {
			e.Time = time.Now()
		}
		e.Agent, e.Store, e.LockKind, e.Mode = agent, l.store.Identity(), lockagent.PlainLock, lockagent.Exclusive
		publisher.Record(t.Context(), e)
	}
	if err := publisher.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Agent is an agent that publishes to a Log.
type Agent struct {
	ID        lockagent.AgentID
	t         *testing.T
	locks     *channelapi.Locks
	publisher *natslog.Publisher
	stop      sync.Once
}

// Agent starts an agent, which ends with the test.
func (l *Log) Agent(t *testing.T) *Agent {
	t.Helper()
	a := &Agent{ID: lockagent.NewAgentID(), t: t}
	var err error
	a.publisher, err = natslog.NewPublisher(natslog.Config{Connection: natslog.Connection{URL: l.URL}, Agent: a.ID})
	if err != nil {
		t.Fatal(err)
	}
	store := l.store.Share()
	a.locks, err = channelapi.New(channelapi.Config{ID: a.ID, Store: store, Recorder: a.publisher})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// Stop ends the agent. All that it did is in the log when Stop returns.
func (a *Agent) Stop() {
	a.t.Helper()
	a.stop.Do(func() {
		if err := a.locks.Close(); err != nil {
			a.t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := a.publisher.Close(ctx); err != nil {
			a.t.Error(err)
		}
	})
}

// Hold acquires a lock. The grant is in the log when it returns.
func (a *Agent) Hold(name string, opts ...channelapi.Option) channelapi.Grant {
	a.t.Helper()
	g, err := a.locks.Lock(name, opts...).Acquire(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	a.flush()
	return g
}

// Release releases a grant. The release is in the log when it returns.
func (a *Agent) Release(g channelapi.Grant) {
	a.t.Helper()
	if err := g.Release(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
	a.flush()
}

func (a *Agent) flush() {
	a.t.Helper()
	if err := a.publisher.Flush(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
}
