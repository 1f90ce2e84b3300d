package main

import (
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// What has consequences is shown, and counted by an audit, when the log itself has forgotten it.
func TestEventsThatAreKept(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	p, err := natslog.NewPublisher(natslog.Config{Connection: natslog.Connection{URL: url}, Agent: "host-1"})
	if err != nil {
		t.Fatal(err)
	}
	record := func(e lockagent.Event) {
		t.Helper()
		p.Record(t.Context(), e)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	record(lockagent.Event{Kind: lockagent.EventAgentStarted})
	record(lockagent.Event{Kind: lockagent.EventBroken, Lock: "orders/42", Owner: "joe"})
	js := jetStream(t, url)
	waittest.Until(t, "the server to have copied both", func() bool {
		copies, err := js.Stream(waittest.Context(t), "LOCKAGENT_URGENT")
		return err == nil && copies.CachedInfo().State.Msgs == 2
	})
	log, err := js.Stream(t.Context(), natslog.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(waittest.Context(t)); err != nil {
		t.Fatal(err)
	}
	const kept = "kept from before the beginning of the log: 1 agentstarted, 1 broken"
	call(t, "events", "audit", "--nats", url).expect(t, cli.ExitEmpty, []string{kept}, nil)
	call(t, "events", "audit", "--nats", url, "--format", "json").expect(
		t, cli.ExitEmpty, []string{`"kept": {`, `"broken": 1`}, nil,
	)
	call(t, "events", "audit", "--nats", url, "--lock", "orders/42").expect(
		t, cli.ExitEmpty, []string{"kept from before the beginning of the log: 1 broken"}, nil,
	)
	call(t, "events", "tail", "--nats", url, "--urgent", "--all", "--follow=false").expect(
		t, cli.ExitOK, []string{"broken", "orders/42"}, nil,
	)
}
