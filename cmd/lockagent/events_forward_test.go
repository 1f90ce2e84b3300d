package main

import (
	"context"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

// publish makes an event log.
func publish(t *testing.T, url string, n int) {
	t.Helper()
	p, err := events.NewPublisher(events.Config{Connection: events.Connection{URL: url}, Agent: "host-1"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventLost, Lock: "orders/42", Request: uint64(i + 1)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// What a host logs can be read at the hub.
func TestEventsForward(t *testing.T) {
	t.Parallel()
	source := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	publish(t, source, 1000)
	hub := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	want := call(t, "events", "tail", "--nats", source, "--all", "--follow=false", "--format", "jsonl").stdout
	r := start(t, "events", "forward", "--from", source, "--to", hub)
	deadline := time.After(patience)
	for call(t, "events", "tail", "--nats", hub, "--all", "--follow=false", "--format", "jsonl").stdout != want {
		select {
		case <-deadline:
			t.Fatalf("the hub does not get the log:\n%s", &r.stderr)
		case <-time.After(time.Millisecond):
		}
	}
	r.interrupt(t).expect(t, exitOK, []string{" messages forwarded; 0 that were discarded or refused are missing\n"}, nil)
}

func TestEventsForwardUsage(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"NoHub":   {[]string{"--from", url}, "--to is missing"},
		"BadHub":  {[]string{"--from", url, "--to", "hub"}, "it has no scheme"},
		"NoCreds": {[]string{"--from", url, "--to", url, "--to-creds", "/does/not/exist"}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			call(t, append([]string{"events", "forward"}, c.args...)...).expect(t, exitUsage, nil, []string{c.says, "Try: lockagent events forward --from "})
		})
	}
}

func TestEventsForwardToItself(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	publish(t, url, 1)
	call(t, "events", "forward", "--from", url, "--to", url).expect(t, exitUsage, nil, []string{"it is the same stream as From"})
}
