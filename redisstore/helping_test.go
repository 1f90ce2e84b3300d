package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
)

// acquireInPerson makes an Acquire whose exchange is left to the caller, who makes it, and
// returns the answer. It is an error if there was nothing to make.
func acquireInPerson(ctx context.Context, t *testing.T, store *redisstore.Store, req lockagent.AcquireRequest) <-chan error {
	t.Helper()
	answered := make(chan error, 1)
	errand := lockagent.NewErrand(ctx)
	store.Acquire(errand, req, func(_ lockagent.AcquireReply, err error) { answered <- err })
	if lockagent.LeaveToCaller(errand, func(context.Context) {}) {
		t.Errorf("the exchange for %q was not left to the caller", req.Name)
	}
	errand.Finish()
	return answered
}

func TestACallerMakesTheExchange(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i, ctx := range []context.Context{context.Background(), ctx} {
		answered := acquireInPerson(ctx, t, store, wish("orders", agentA, uint64(i+1)))
		if len(answered) == 0 {
			t.Error("the call was not answered when the caller had made the exchange")
		}
	}
}

// A caller whose context ends while the server is silent goes on, long before the call has
// to be answered. The call ends as if the connection had been lost.
func TestACallerLeavesASilentServer(t *testing.T) {
	server := redistest.Start(t, redistest.WithTLS())
	for _, at := range []string{server.URL(), server.TLSURL()} {
		store := openConfig(t, redisstore.Config{CallTimeout: time.Hour, TLS: server.TLSConfig()}, at)
		server.Pause()
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		answered := acquireInPerson(ctx, t, store, wish("orders", agentA, 1))
		unavailable(t, "the call that was left", await(t, answered))
		server.Resume()
		persistently(t, store, wish("orders", agentA, 1))
	}
}

// A caller makes no connection, because that may take long: the store does.
func TestACallerDoesNotDial(t *testing.T) {
	server := redistest.Start(t)
	store := openConfig(t, redisstore.Config{CallTimeout: time.Hour, DialTimeout: time.Hour}, server.URL())
	acquire(t, store, wish("orders", agentA, 1))
	for line := range strings.Lines(server.Do("CLIENT", "LIST", "TYPE", "normal").(string)) {
		if id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " "); strings.Contains(line, " cmd=eval") {
			server.Do("CLIENT", "KILL", "ID", id)
		}
	}
	server.Pause()
	answered := acquireInPerson(context.Background(), t, store, wish("others", agentA, 2))
	server.Resume() // not before the caller has been let go
	if err := await(t, answered); err != nil {
		t.Errorf("the call that the caller did not make: %v", err)
	}
}
