//go:build linux

package agentclient

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/daemon/socket"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

// ends has the events by which holds end.
type ends struct {
	mu     sync.Mutex
	events []lockagent.Event // guarded by mu
}

func (e *ends) Record(_ context.Context, event lockagent.Event) {
	switch event.Kind {
	case lockagent.EventReleased, lockagent.EventHeld, lockagent.EventLost, lockagent.EventExpired,
		lockagent.EventUnclaimed:
		e.mu.Lock()
		defer e.mu.Unlock()
		e.events = append(e.events, event)
	}
}

// of are how the holds of a lock have ended.
func (e *ends) of(name lockagent.Name) (ends []lockagent.LossReason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.events {
		if event.Lock == name {
			ends = append(ends, event.Reason)
		}
	}
	return ends
}

// The daemon trusts a hold that its client has lost. Its event log says all the same how the client lost it.
func TestTheLogSaysHowAClientLostItsHold(t *testing.T) {
	path := socketPath(t)
	listener, err := socket.Listen(socket.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	log := &ends{}
	r := &running{}
	if r.Daemon, err = daemon.Start(daemon.Config{
		Listener: listener, Store: memstore.New(), Logger: slog.New(slog.DiscardHandler), Recorder: log,
	}); err != nil {
		t.Fatal(err)
	}
	defer r.end(t)
	locks, err := Open(waittest.Context(t), Config{
		Socket: path, Claim: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locks.Close() }()
	acquire := func(l *channelapi.Lock) lockagent.Grant {
		t.Helper()
		g, err := l.Acquire(waittest.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}

	if err := acquire(locks.Lock("released")).Release(waittest.Context(t)); err != nil {
		t.Error(err)
	}
	session, err := locks.Session("job")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Lock("session").Acquire(waittest.Context(t)); err != nil {
		t.Fatal(err)
	}
	if err := session.Close(waittest.Context(t)); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(locks.Lock("unclaimed").AcquireAsync(waittest.Context(t)))
	waittest.Until(t, "the grant that nobody receives is given back", func() bool { return len(log.of("unclaimed")) > 0 })
	closed := acquire(locks.Lock("closed"))
	if err := locks.Close(); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(closed)
	for name, want := range map[lockagent.Name]lockagent.LossReason{
		"released": 0, "session": lockagent.LostSessionClosed, "unclaimed": lockagent.LostUnclaimed,
		"closed": lockagent.LostClosed,
	} {
		if got := log.of(name); !slices.Equal(got, []lockagent.LossReason{want}) {
			t.Errorf("%s: the log says %v, want %v", name, got, want)
		}
	}
}
