package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventlog"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// publish makes an event log.
func publish(t *testing.T, url string, n int) {
	t.Helper()
	p, err := natslog.NewPublisher(natslog.Config{Connection: natslog.Connection{URL: url}, Agent: "host-1"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventLost, Lock: "orders/42", Request: uint64(i + 1)})
	}
	if err := p.Close(waittest.Context(t)); err != nil {
		t.Fatal(err)
	}
}

// awaitHub returns when the hub of a forwarder has the log that its source has.
func (r *running) awaitHub(t *testing.T, want string, hub func() string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("the forwarder says %s", &r.stderr)
		}
	}()
	waittest.Until(t, "the hub to have the log", func() bool { return hub() == want })
}

// What a host logs can be read at the hub.
func TestEventsForward(t *testing.T) {
	t.Parallel()
	source := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	publish(t, source, 1000)
	hub := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	read := func(url string) string {
		return call(t, "events", "tail", "--nats", url, "--all", "--follow=false", "--format", "jsonl").stdout
	}
	want := read(source)
	r := start(t, "events", "forward", "--nats", source, "--hub", hub)
	r.awaitHub(t, want, func() string { return read(hub) })
	r.interrupt(t).expect(
		t, cli.ExitOK, []string{" messages forwarded; 0 that were discarded or refused are missing\n"}, nil,
	)
}

// What keeps a forwarder from its work is told, and the end of it.
func TestEventsForwardAgain(t *testing.T) {
	t.Parallel()
	source := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	hub := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	r := start(t, "events", "forward", "--nats", source, "--hub", hub)
	says := func(what string) {
		t.Helper()
		r.stderr.await(t, what, func(text string) bool { return strings.Contains(text, what) })
	}
	says("nothing is forwarded until this is over")
	publish(t, source, 1)
	says("forwarding again")
}

// The stream of the hub has the bounds that the flags say.
func TestEventsForwardMakesTheHub(t *testing.T) {
	t.Setenv("LOCKAGENT_HUB_MAX_AGE", "48h")
	source := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	hub := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	publish(t, source, 1)
	r := start(t, "events", "forward", "--nats", source, "--hub", hub, "--hub-max-bytes", "12345678")
	r.stderr.await(t, "it says what it makes", func(text string) bool {
		return strings.Contains(
			text, `msg="events: the stream of the hub is made" stream=LOCKAGENT max_bytes=12345678 max_age=48h0m0s replicas=1`,
		)
	})
	cfg := stream(t, hub).CachedInfo().Config
	if cfg.MaxBytes != 12345678 || cfg.MaxAge != 48*time.Hour || cfg.Replicas != 1 {
		t.Errorf("the hub has %+v", cfg)
	}
	call(t, "events", "forward", "--hub", hub, "--hub-max-bytes", "-2").expect(t, cli.ExitUsage, nil, []string{
		"--hub-max-bytes (or $LOCKAGENT_HUB_MAX_BYTES): -2 bytes cannot bound a stream",
	})
	call(t, "events", "forward", "--hub", hub, "--hub-max-age", "-1s").expect(t, cli.ExitUsage, nil, []string{
		"--hub-max-age (or $LOCKAGENT_HUB_MAX_AGE): -1s cannot bound a stream",
	})
	call(t, "events", "forward", "--hub", hub, "--hub-max-bytes", "1GB").expect(
		t, cli.ExitUsage, nil, []string{"--hub-max-bytes wants a whole number"},
	)
}

// The environment and --metrics show what a forwarder does.
func TestEventsForwardMetrics(t *testing.T) {
	c := startCollector(t, false)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	source := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	publish(t, source, 10)
	hub := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	r := start(t, "events", "forward", "--nats", source, "--hub", hub.URL(), "--metrics", "127.0.0.1:0")
	address := metricsOf(t, r)
	shows := func(lines ...string) func() bool {
		return func() bool {
			text := scrape(t, address)
			return !slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(text, "\n"+line+"\n") })
		}
	}
	waittest.Until(t, "all is forwarded", shows(
		`lockagent_forward_messages_total{outcome="forwarded"} 10.0`,
		`lockagent_forward_messages_total{outcome="discarded"} 0.0`,
		"lockagent_forward_behind 0.0", "lockagent_forward_stalled 0.0"))
	if err := hub.Stop(); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "it says that it cannot go on", shows("lockagent_forward_stalled 1.0"))
	r.interrupt(t).expect(t, cli.ExitOK, []string{"10 messages forwarded"}, nil)
	if !strings.Contains(c.received("/v1/metrics"), "lockagent.forward.messages") {
		t.Error("the collector received no metrics")
	}
	call(t, "events", "forward", "--hub", source, "--metrics", "here").expect(
		t, cli.ExitUsage, nil, []string{"--metrics wants an address"},
	)
}

// Each end has its own users, stream and prefix, from flags and from the environment.
func TestEventsForwardOptions(t *testing.T) {
	source, password := guarded(t), natstest.File(t, natsSecret)
	conf := fmt.Sprintf(
		"accounts: { HUB: { jetstream: enabled, users: [ { user: ann, password: %q } ] } }", "other-"+natsSecret,
	)
	hub, hubPassword := natstest.StartSecured(t, conf).URL(), natstest.File(t, "other-"+natsSecret)
	call(
		t, "demo", "--duration", "100ms", "--agents", "1", "--nats", source, "--nats-user", "joe", "--nats-password-file",
		password, "--nats-stream", "HOST", "--nats-prefix", "my.locks",
	).expect(t, cli.ExitOK, []string{"Event log: in NATS."}, nil)
	read := func(url, user, file, stream, prefix string) string {
		return call(t, append(
			replayAll, "--format", "jsonl", "--nats", url, "--nats-user", user, "--nats-password-file", file, "--nats-stream",
			stream, "--nats-prefix", prefix,
		)...).stdout
	}
	want := read(source, "joe", password, "HOST", "my.locks")
	for name, value := range map[string]string{
		"NATS": source, "NATS_USER": "joe", "NATS_STREAM": "HOST", "HUB": "nats://127.0.0.1:1", "HUB_USER": "ann",
		"HUB_PASSWORD_FILE": hubPassword,
	} {
		t.Setenv("LOCKAGENT_"+name, value)
	}
	forward := []string{
		"events", "forward", "--hub", hub, "--nats-password-file", password, "--nats-prefix", "my.locks", "--hub-stream",
		"ALL", "--hub-prefix", "all.locks",
	}
	r := start(t, forward...)
	r.awaitHub(t, want, func() string { return read(hub, "ann", hubPassword, "ALL", "all.locks") })
	r.interrupt(t).expect(t, cli.ExitOK, []string{" messages forwarded"}, nil)

	call(t, append(forward, "--hub-user", "bob", "--hub-user-file", hubPassword)...).expect(t, cli.ExitUsage, nil,
		[]string{"--hub-user-file (or $LOCKAGENT_HUB_USER_FILE): --hub-user has the name already"})
	call(t, append(forward, "--nats-token-file", password)...).expect(t, cli.ExitUsage, nil,
		[]string{"--nats-token-file (or $LOCKAGENT_NATS_TOKEN_FILE): --nats-password-file says already who we are"})
	t.Setenv("LOCKAGENT_HUB_REPLICAS", "6")
	call(t, forward...).expect(t, cli.ExitUsage, nil, []string{
		"--hub-replicas (or $LOCKAGENT_HUB_REPLICAS): 6 is not between 1 and 5",
	})
}

func TestEventsForwardUsage(t *testing.T) {
	t.Parallel()
	const url = "nats://127.0.0.1:1"
	for name, c := range map[string]struct {
		args      []string
		says, try string
	}{
		"NoHub": {[]string{"--nats", url}, "--hub is missing", " --nats " + url + " --hub nats://hub:4222"},
		"BadHub": {
			[]string{"--nats", url, "--hub", "hub"}, "it has no scheme", " --nats " + url + " --hub " + eventlog.DefaultNATS,
		},
		"BadSource": {
			[]string{"--nats", "host", "--hub", url}, "it has no scheme", " --hub " + url + " --nats " + eventlog.DefaultNATS,
		},
		"NoHubCreds": {
			[]string{"--hub", url, "--hub-creds", "/does/not/exist"},
			"--hub-creds (or $LOCKAGENT_HUB_CREDS): the file cannot be read", " --help",
		},
		"NoCreds": {
			[]string{"--hub", url, "--nats-creds", "/does/not/exist"},
			"--nats-creds (or $LOCKAGENT_NATS_CREDS): the file cannot be read", " --help",
		},
		"Replicas": {[]string{"--hub", url, "--nats-replicas", "3"}, "unknown flag: --nats-replicas", ""},
	} {
		t.Run(name, func(t *testing.T) {
			call(t, append([]string{"events", "forward"}, c.args...)...).expect(
				t, cli.ExitUsage, nil, []string{c.says, "Try: lockagent events forward" + c.try},
			)
		})
	}
}

func TestEventsForwardToItself(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	publish(t, url, 1)
	call(t, "events", "forward", "--nats", url, "--hub", url).expect(t, cli.ExitUsage, nil, []string{
		"--hub (or $LOCKAGENT_HUB): it has the same stream as --nats",
		"Try: lockagent events forward --nats " + url + " --hub nats://hub:4222\n",
	})
}
