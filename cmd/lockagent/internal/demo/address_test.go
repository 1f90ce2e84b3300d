package demo

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/tracing"
)

func TestNATSAddress(t *testing.T) {
	for url, want := range map[string]string{
		"":                             "",
		"nats://127.0.0.1:4222":        "127.0.0.1:4222",
		"tls://joe:secret@nats-1":      "nats-1:4222",
		"nats://[::1]:99":              "[::1]:99",
		"nats://a:1,nats://b:2":        "",
		"nats://joe:sec ret%zz@a:4222": "",
	} {
		if got := natsAddress(url); got != want {
			t.Errorf("natsAddress(%q) is %q, want %q", url, got, want)
		}
	}
}

// The spans of what is sent say where it goes.
func TestSendingsHaveAnAddress(t *testing.T) {
	server := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	spans := tracetest.NewInMemoryExporter()
	telemetry := tracing.Config{TracerProvider: trace.NewTracerProvider(trace.WithSyncer(spans))}
	log := eventLog{Connection: natslog.Connection{URL: server.URL()}, Own: true}
	a, err := newAgent(Work{Workers: 1, Locks: 1}, newResource(nil, true), memstore.New(), log, telemetry)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for _, s := range spans.GetSpans() {
		if s.Name != "publish LOCKAGENT" {
			continue
		}
		sent++
		about := attribute.NewSet(s.Attributes...)
		host, _ := about.Value("server.address")
		port, _ := about.Value("server.port")
		if got := fmt.Sprintf("nats://%s:%d", host.AsString(), port.AsInt64()); got != server.URL() {
			t.Errorf("a span has the address %s, want %s", got, server.URL())
		}
	}
	if sent == 0 {
		t.Error("nothing was sent")
	}
}
