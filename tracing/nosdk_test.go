package tracing

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/lockagent/lockagent"
)

// nowhere takes events and does nothing.
type nowhere struct{}

func (nowhere) Record(context.Context, lockagent.Event) {}

// remote is a context with a trace that came from elsewhere.
func remote() context.Context {
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true,
	}))
}

// busy is a history that leaves a request open, which has to be forgotten when
// nobody wants to know of it.
func busy(ctx context.Context, to lockagent.Recorder) *history {
	h := newHistory(ctx, to, "l")
	h.requested(1, "a").queued(1, "a").granted(1, "a", lockagent.ByStore, 0).requested(2, "b")
	return h
}

func TestWithoutSDKNothingHappens(t *testing.T) {
	for name, c := range map[string]Config{
		"global": {},
		"noop":   {TracerProvider: tracenoop.NewTracerProvider()},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rig{t: t}
			rec := Recorder(r, c).(*recorder)
			busy(context.Background(), rec)
			busy(remote(), rec)
			r.wantForgotten(rec)
			for i, e := range r.recorded {
				want := ""
				if i >= len(r.recorded)/2 {
					want = traceParentOf(remote()) // the caller has an SDK elsewhere
				}
				if e.TraceParent != want {
					t.Errorf("event %v has the trace context %q, want %q", e.Kind, e.TraceParent, want)
				}
			}
			next := &canned{yes: true}
			if yes, err := calls[0].do(t, remote(), Store(next, c)); !yes || err != nil {
				t.Errorf("the answer is %v and %v", yes, err)
			}
		})
	}
}

func TestWithoutSDKNothingIsAllocated(t *testing.T) {
	ctx := context.Background()
	rec := Recorder(nowhere{}, Config{})
	store := Store(&canned{}, Config{})
	acquired := func(lockagent.AcquireReply, error) {}
	renewed := func(lockagent.RenewReply, error) {}
	h := newHistory(ctx, rec, "l")
	if n := testing.AllocsPerRun(100, func() {
		h.requested(1, "a").queued(1, "a").granted(1, "a", lockagent.ByStore, 0).ended(lockagent.EventReleased, 0, 1, "a", 0)
		store.Acquire(ctx, lockagent.AcquireRequest{Name: "l"}, acquired)
		store.Renew(ctx, lockagent.RenewRequest{Name: "l"}, renewed)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// selective is a recorder that wants events or not.
type selective struct {
	nowhere
	wants bool
}

func (s selective) Enabled(context.Context) bool { return s.wants }

// TestEnabled: whoever makes events need not make them if neither an SDK nor the next recorder takes them.
func TestEnabled(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	sdk := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	noop := tracenoop.NewTracerProvider()
	unsampled := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
	}))
	for _, test := range []struct {
		name string
		next lockagent.Recorder
		c    Config
		ctx  context.Context
		want bool
	}{
		{"nothing", nil, Config{TracerProvider: noop}, context.Background(), false},
		{"nothing and a parent", nil, Config{TracerProvider: noop}, remote(), false},
		{"a recorder", nowhere{}, Config{TracerProvider: noop}, context.Background(), true},
		{"a recorder that wants nothing", selective{}, Config{TracerProvider: noop}, context.Background(), false},
		{"a recorder that wants all", selective{wants: true}, Config{TracerProvider: noop}, context.Background(), true},
		{"spans", nil, Config{TracerProvider: sdk}, context.Background(), true},
		{"spans below one that is not sampled", nil, Config{TracerProvider: sdk}, unsampled, false},
		{"metrics", nil, Config{TracerProvider: noop, MeterProvider: meters}, context.Background(), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			rec := Recorder(test.next, test.c).(*recorder)
			// The recorder has been tried.
			newHistory(context.Background(), rec, "other").requested(1, "a").answered(lockagent.EventCancelled, 1, "a", 0)
			if got := rec.Enabled(test.ctx); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}

	// The end of a hold that has a span is wanted, whatever its context says.
	rec := Recorder(nil, Config{TracerProvider: sdk}).(*recorder)
	h := newHistory(context.Background(), rec, "l").granted(1, "a", lockagent.ByStore, 0)
	if !rec.Enabled(unsampled) {
		t.Error("a hold with a span is under way")
	}
	h.ended(lockagent.EventReleased, 0, 1, "a", 0)
	if rec.Enabled(unsampled) {
		t.Error("nothing is under way any more")
	}
}

// TestSDKInstalledLater needs the global state of a process of its own.
func TestSDKInstalledLater(t *testing.T) {
	const child = "TRACING_TEST_INSTALLS_SDK"
	if os.Getenv(child) == "" {
		again := exec.Command(os.Args[0], "-test.run=^TestSDKInstalledLater$", "-test.v")
		again.Env = append(os.Environ(), child+"=yes")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	rec := Recorder(nil, Config{}).(*recorder)
	busy(context.Background(), rec)

	first := tracetest.NewInMemoryExporter()
	reader := sdkmetric.NewManualReader()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(first)))
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	h := newHistory(context.Background(), rec, "l")
	h.ended(lockagent.EventReleased, 0, 1, "a", 0) // began before: unseen
	h.requested(3, "c").granted(3, "c", lockagent.ByStore, 0).ended(lockagent.EventReleased, 0, 3, "c", 0)
	if n := len(first.GetSpans()); n != 3 {
		t.Errorf("%d spans after the SDK was installed, want 3", n)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil || len(all.ScopeMetrics) != 1 {
		t.Errorf("metrics of %d scopes and %v after the SDK was installed, want 1", len(all.ScopeMetrics), err)
	}

	second := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(second)))
	h.requested(4, "d").answered(lockagent.EventCancelled, 4, "d", 0)
	if n := len(second.GetSpans()); n != 1 {
		t.Errorf("%d spans went to the second SDK, want 1", n)
	}
	otel.SetTracerProvider(tracenoop.NewTracerProvider())
	h.requested(5, "e").answered(lockagent.EventCancelled, 5, "e", 0)
	if n := len(first.GetSpans()) + len(second.GetSpans()); n != 4 {
		t.Errorf("%d spans after the SDK was removed, want 4 as before", n)
	}
}

// incomparable is a provider as nobody should write it.
type incomparable struct {
	trace.TracerProvider
	_ []int
}

func TestProvidersThatCannotBeCompared(t *testing.T) {
	if os.Getenv("TRACING_TEST_INCOMPARABLE") == "" {
		again := exec.Command(os.Args[0], "-test.run=^TestProvidersThatCannotBeCompared$", "-test.v")
		again.Env = append(os.Environ(), "TRACING_TEST_INCOMPARABLE=yes")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	exporter := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(incomparable{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))})
	rec := Recorder(nil, Config{})
	newHistory(context.Background(), rec, "l").requested(1, "a").answered(lockagent.EventCancelled, 1, "a", 0)
	if n := len(exporter.GetSpans()); n != 1 {
		t.Errorf("%d spans, want 1", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	sdk := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	for _, v := range []struct {
		name string
		to   lockagent.Recorder
	}{
		{"bare", nowhere{}},
		{"noSDK", Recorder(nowhere{}, Config{})},
		{"unsampled", Recorder(nowhere{}, Config{TracerProvider: sdk})},
		{"metrics", Recorder(nowhere{}, Config{MeterProvider: meters})},
		{"unsampled and metrics", Recorder(nowhere{}, Config{TracerProvider: sdk, MeterProvider: meters})},
	} {
		b.Run(v.name, func(b *testing.B) {
			h := newHistory(context.Background(), v.to, "orders/42")
			b.ReportAllocs()
			for b.Loop() { // three events
				h.requested(1, "a").granted(1, "a", lockagent.ByStore, 0).ended(lockagent.EventReleased, 0, 1, "a", 0)
			}
		})
	}
}

func BenchmarkStore(b *testing.B) {
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	next := &canned{}
	for _, v := range []struct {
		name string
		s    lockagent.Store
	}{
		{"bare", next},
		{"noSDK", Store(next, Config{})},
		{"metrics", Store(next, Config{MeterProvider: meters})},
	} {
		b.Run(v.name, func(b *testing.B) {
			done := func(lockagent.AcquireReply, error) {}
			req := lockagent.AcquireRequest{Name: "orders/42"}
			b.ReportAllocs()
			for b.Loop() {
				v.s.Acquire(context.Background(), req, done)
			}
		})
	}
}
