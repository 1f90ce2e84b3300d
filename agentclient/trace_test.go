//go:build linux

package agentclient

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/daemon/socket"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/tracing"
)

// All requests of a client share its link. The spans of each are below the span of its own caller.
func TestRequestsAreInTheTracesOfTheirCallers(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	sdk := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	defer func() { _ = sdk.Shutdown(context.Background()) }()
	path := socketPath(t)
	listener, err := socket.Listen(socket.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	r := &running{}
	r.Daemon, err = daemon.Start(daemon.Config{
		Listener: listener, Store: memstore.New(), Logger: slog.New(slog.DiscardHandler),
		Recorder: tracing.Recorder(nil, tracing.Config{TracerProvider: sdk}),
		Trace: func(h http.Header) context.Context {
			return propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(h))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.end(t)
	locks, err := Open(waittest.Context(t), Config{
		Socket: path, Logger: slog.New(slog.DiscardHandler), TraceParent: tracing.TraceParent,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locks.Close() }()

	callers := make(map[string]trace.SpanContext)
	for _, name := range []string{"orders/41", "orders/42"} {
		ctx, span := sdk.Tracer("application").Start(waittest.Context(t), "caller")
		callers[name] = span.SpanContext()
		acquireAndRelease(ctx, t, locks, name)
		span.End()
	}
	unsampled := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	acquireAndRelease(trace.ContextWithSpanContext(waittest.Context(t), unsampled), t, locks, "unsampled")
	acquireAndRelease(waittest.Context(t), t, locks, "alone")

	acquired := make(map[string]tracetest.SpanStub)
	for _, s := range spans.GetSpans() {
		for _, a := range s.Attributes {
			if s.Name == "acquire" && a.Key == "lockagent.lock.name" {
				acquired[a.Value.AsString()] = s
			}
		}
	}
	for name, caller := range callers {
		if s := acquired[name]; s.Parent.SpanID() != caller.SpanID() || s.SpanContext.TraceID() != caller.TraceID() {
			t.Errorf(
				"the parent of the acquire of %s is %v, want that of its caller, %v", name, s.Parent.SpanID(), caller.SpanID(),
			)
		}
	}
	if s, ok := acquired["alone"]; !ok || s.Parent.IsValid() {
		t.Errorf("the acquire of a caller without a trace: %t, and its parent is %v", ok, s.Parent)
	}
	if len(acquired) != 3 {
		t.Errorf("there are spans of %d requests, want no one of a trace that is not sampled", len(acquired))
	}
}

// acquireAndRelease takes a lock and gives it back.
func acquireAndRelease(ctx context.Context, t *testing.T, locks *channelapi.Locks, name string) {
	t.Helper()
	g, err := locks.Lock(name).Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}
