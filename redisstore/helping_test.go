package redisstore_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/errand"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
)

// acquireInPerson makes an Acquire whose exchange may be left to the caller, who makes it
// then, and returns the answer. It is left unless the store itself makes one just then, to
// look for a reset.
func acquireInPerson(store *redisstore.Store, req lockagent.AcquireRequest) (answered <-chan error, left bool) {
	answer := make(chan error, 1)
	e := errand.New(context.Background())
	store.Acquire(e, req, func(_ lockagent.AcquireReply, err error) { answer <- err })
	left = !errand.Leave(e, func() {})
	e.Finish()
	return answer, left
}

func TestACallerMakesTheExchange(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	waittest.Until(t, "an exchange to be left to a caller", func() bool {
		answered, left := acquireInPerson(store, wish("orders", agentA, 1))
		if left && len(answered) == 0 {
			t.Error("the call was not answered when the caller had made the exchange")
		}
		if err := await(t, answered); err != nil {
			t.Error(err)
		}
		return left
	})
}

// A caller makes no connection, because that may take long: the store does.
func TestACallerDoesNotDial(t *testing.T) {
	server := redistest.Start(t)
	waittest.Until(t, "an exchange to be left to a caller", func() bool {
		store := openConfig(t, redisstore.Config{CallTimeout: time.Hour, DialTimeout: time.Hour, SilenceTimeout: time.Hour}, server.URL())
		acquire(t, store, wish("orders", agentA, 1))
		for line := range strings.Lines(server.Do("CLIENT", "LIST", "TYPE", "normal").(string)) {
			if id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " "); strings.Contains(line, " cmd=eval") {
				server.Do("CLIENT", "KILL", "ID", id)
			}
		}
		server.Pause()
		answered, left := acquireInPerson(store, wish("others", agentA, 2))
		server.Resume() // not before the caller has been let go
		if err := await(t, answered); err != nil {
			t.Error(err)
		}
		return left
	})
}

// A renewal that ends its goroutine keeps no other from its answer.
func TestNeighboursOfARenewalThatEndsItsGoroutine(t *testing.T) {
	store := open(t, redistest.Start(t).URL())
	answers := make(chan error, 2)
	for _, name := range []lockagent.Name{"first", "second"} {
		req := wish(name, agentA, 1)
		acquire(t, store, req)
		store.Renew(t.Context(), lockagent.RenewRequest{Name: name, Tenure: req.Tenure, Lease: req.Lease}, func(_ lockagent.RenewReply, err error) {
			answers <- err
			runtime.Goexit()
		})
	}
	for range 2 {
		if err := await(t, answers); err != nil {
			t.Error(err)
		}
	}
}
