package tracing

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an SDK that keeps everything, and a recorder behind ours.
type rig struct {
	t     *testing.T
	spans *tracetest.InMemoryExporter
	sdk   *sdktrace.TracerProvider
	read  *sdkmetric.ManualReader
	Config

	mu       sync.Mutex // protects recorded
	recorded []lockagent.Event
}

func newRig(t *testing.T, opts ...sdktrace.TracerProviderOption) *rig {
	r := &rig{t: t, spans: tracetest.NewInMemoryExporter(), read: sdkmetric.NewManualReader()}
	r.sdk = sdktrace.NewTracerProvider(append(opts, sdktrace.WithSyncer(r.spans))...)
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.read))
	r.Config = Config{TracerProvider: r.sdk, MeterProvider: meters, System: "redis", Address: "redis.example:6379"}
	t.Cleanup(func() {
		_ = r.sdk.Shutdown(context.Background())
		_ = meters.Shutdown(context.Background())
	})
	return r
}

func (r *rig) recorder() *recorder { return Recorder(r, r.Config).(*recorder) }

// Record implements [lockagent.Recorder].
func (r *rig) Record(_ context.Context, e lockagent.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recorded = append(r.recorded, e)
}

// caller is a context with the span of somebody who wants a lock.
func (r *rig) caller() (context.Context, trace.SpanContext) {
	ctx, span := r.sdk.Tracer("application").Start(context.Background(), "caller")
	return ctx, span.SpanContext()
}

// ended returns the spans with a name, in the order they ended in.
func (r *rig) ended(name string) []tracetest.SpanStub {
	var found []tracetest.SpanStub
	for _, s := range r.spans.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

func (r *rig) only(name string) tracetest.SpanStub {
	r.t.Helper()
	found := r.ended(name)
	if len(found) != 1 {
		r.t.Fatalf("%d spans %q ended, want 1", len(found), name)
	}
	return found[0]
}

// attributeOf returns an attribute as text, or "(none)".
func attributeOf(s tracetest.SpanStub, key string) string {
	for _, kv := range s.Attributes {
		if string(kv.Key) == key {
			return kv.Value.String()
		}
	}
	return "(none)"
}

func (r *rig) wantAttributes(s tracetest.SpanStub, want map[string]string) {
	r.t.Helper()
	for key, text := range want {
		if got := attributeOf(s, key); got != text {
			r.t.Errorf("span %q has %s = %q, want %q", s.Name, key, got, text)
		}
	}
}

func (r *rig) collect() []metricdata.Metrics {
	r.t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.read.Collect(context.Background(), &all); err != nil {
		r.t.Fatal(err)
	}
	var found []metricdata.Metrics
	for _, s := range all.ScopeMetrics {
		found = append(found, s.Metrics...)
	}
	return found
}

// point is one series of a metric. A counter has a sum only.
type point struct {
	count uint64
	sum   float64
}

// points returns the series of a metric by the values of their attributes, those
// of several attributes joined with a slash in the order of the keys.
func (r *rig) points(name string) map[string]point {
	r.t.Helper()
	found := make(map[string]point)
	for _, m := range r.collect() {
		if m.Name != name {
			continue
		}
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				found[values(p.Attributes.ToSlice())] = point{p.Count, p.Sum}
			}
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				found[values(p.Attributes.ToSlice())] = point{0, float64(p.Value)}
			}
		}
	}
	return found
}

func values(of []attribute.KeyValue) string {
	var all []string
	for _, kv := range of { // sorted by key
		all = append(all, kv.Value.String())
	}
	return strings.Join(all, "/")
}

func (r *rig) wantPoints(name string, want map[string]point) {
	r.t.Helper()
	got := r.points(name)
	for series, p := range got {
		if _, ok := want[series]; !ok && p != (point{}) {
			r.t.Errorf("%s{%s} is %+v, want none", name, series, p)
		}
	}
	for series, p := range want {
		if near := got[series].sum - p.sum; got[series].count != p.count || near < -1e-9 || near > 1e-9 {
			r.t.Errorf("%s{%s} is %+v, want %+v", name, series, got[series], p)
		}
	}
}

// wantForgotten fails if something of any lock is remembered.
func (r *rig) wantForgotten(rec *recorder) {
	r.t.Helper()
	if n := rec.open.locks.Load(); n != 0 {
		r.t.Errorf("%d locks are remembered, want none", n)
	}
	for i := range rec.open.shards {
		if n := len(rec.open.shards[i].locks); n != 0 {
			r.t.Errorf("shard %d remembers %d locks, want none", i, n)
		}
	}
}

// history makes the events of one lock, a second apart unless told otherwise.
type history struct {
	to   lockagent.Recorder
	ctx  context.Context
	lock lockagent.Name
	now  time.Time

	of map[uint64]uint64 // the requests that re-entered, and those whose holds they entered
}

func newHistory(ctx context.Context, to lockagent.Recorder, lock lockagent.Name) *history {
	return &history{to: to, ctx: ctx, lock: lock, now: time.Unix(1_700_000_000, 0), of: make(map[uint64]uint64)}
}

func (h *history) pass(d time.Duration) *history {
	h.now = h.now.Add(d)
	return h
}

func (h *history) add(e lockagent.Event) *history {
	e.Agent, e.Lock, e.Time = "agent-1", h.lock, h.now
	h.to.Record(h.ctx, e)
	return h
}

func (h *history) requested(request uint64, owner lockagent.Owner) *history {
	return h.add(lockagent.Event{Kind: lockagent.EventRequested, Request: request, Owner: owner})
}

func (h *history) queued(request uint64, owner lockagent.Owner) *history {
	return h.add(lockagent.Event{Kind: lockagent.EventQueued, Request: request, Owner: owner, Waiters: 1})
}

// token is that of a request that was granted. All grants of one hold have one.
func (h *history) token(request uint64) lockagent.Token {
	if first, reentered := h.of[request]; reentered {
		request = first
	}
	return lockagent.Token(100 + request)
}

// reentered is a grant of the hold that the request first began.
func (h *history) reentered(request, first uint64, owner lockagent.Owner, count int) *history {
	h.of[request] = first
	return h.add(lockagent.Event{
		Kind: lockagent.EventReentered, Request: request, Owner: owner, Token: h.token(request), Count: count,
	})
}

func (h *history) granted(request uint64, owner lockagent.Owner, how lockagent.How, waited time.Duration) *history {
	return h.add(lockagent.Event{
		Kind: lockagent.EventGranted, Request: request, Owner: owner, Token: h.token(request), Tenure: 7,
		How: how, Waited: waited, Lease: 30 * time.Second, Count: 1, Replicas: 2,
	})
}

func (h *history) answered(
	kind lockagent.EventKind, request uint64, owner lockagent.Owner, waited time.Duration,
) *history {
	return h.add(lockagent.Event{Kind: kind, Request: request, Owner: owner, Waited: waited, Err: "the reason"})
}

func (h *history) ended(
	kind lockagent.EventKind, why lockagent.LossReason, request uint64, owner lockagent.Owner, left int,
) *history {
	return h.add(lockagent.Event{
		Kind: kind, Reason: why, Request: request, Owner: owner, Count: left, Token: h.token(request),
	})
}
