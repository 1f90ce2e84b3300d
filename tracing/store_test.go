package tracing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockagent/lockagent"
)

// canned answers every call with the same.
type canned struct {
	yes     bool
	rests   bool
	err     error
	ctx     context.Context          // of the last call
	release lockagent.ReleaseRequest // the last one
	closed  bool
	woken   int
	heard   int
	resets  int
}

func (c *canned) Acquire(ctx context.Context, _ lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	c.ctx = ctx
	done(lockagent.AcquireReply{Granted: c.yes, Rests: c.yes && c.rests, HolderRests: !c.yes && c.rests}, c.err)
}

func (c *canned) Renew(ctx context.Context, _ lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	c.ctx = ctx
	done(lockagent.RenewReply{Held: c.yes}, c.err)
}

func (c *canned) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	c.ctx, c.release = ctx, req
	done(lockagent.ReleaseReply{Released: c.yes}, c.err)
}

func (c *canned) Break(ctx context.Context, _ lockagent.BreakRequest, done func(lockagent.BreakReply, error)) {
	c.ctx = ctx
	done(lockagent.BreakReply{Broken: c.yes}, c.err)
}

func (c *canned) Latch(ctx context.Context, _ lockagent.LatchRequest, done func(lockagent.LatchReply, error)) {
	c.ctx = ctx
	done(lockagent.LatchReply{Changed: c.yes}, c.err)
}

func (c *canned) Inspect(
	ctx context.Context, _ lockagent.Name, _ lockagent.LockKind, done func(lockagent.Inspection, error),
) {
	c.ctx = ctx
	done(lockagent.Inspection{Held: c.yes}, c.err)
}

func (c *canned) Permits(ctx context.Context, _ lockagent.PermitsRequest, done func(lockagent.PermitsReply, error)) {
	c.ctx = ctx
	done(lockagent.PermitsReply{Done: c.yes}, c.err)
}

func (c *canned) Identity() string { return "" }

func (c *canned) RemembersSince() time.Time { return time.Time{} }

func (c *canned) Time(_ context.Context, done func(lockagent.StoreTime, error)) { done(0, c.err) }

func (c *canned) Subscribe(_ lockagent.Name, _ lockagent.LockKind, wake func()) func() {
	wake()
	return func() { c.woken++ }
}

func (c *canned) Listen(_ lockagent.AgentID, hear func(lockagent.Message)) func() {
	hear(lockagent.Message{})
	return func() { c.heard++ }
}

func (c *canned) OnReset(f func(lockagent.Reset)) func() {
	f(lockagent.Reset{})
	return func() { c.resets++ }
}

func (c *canned) Close() error {
	c.closed = true
	return errors.New("closing")
}

// calls makes each call once and checks that the answer comes through.
var calls = []struct {
	operation string
	yes, no   string
	do        func(t *testing.T, ctx context.Context, s lockagent.Store) (yes bool, err error)
}{
	{"acquire", "granted", "held", func(_ *testing.T, ctx context.Context, s lockagent.Store) (yes bool, err error) {
		s.Acquire(
			ctx, lockagent.AcquireRequest{Name: "l"}, func(r lockagent.AcquireReply, e error) { yes, err = r.Granted, e },
		)
		return yes, err
	}},
	{"renew", "confirmed", "denied", func(_ *testing.T, ctx context.Context, s lockagent.Store) (yes bool, err error) {
		s.Renew(ctx, lockagent.RenewRequest{Name: "l"}, func(r lockagent.RenewReply, e error) { yes, err = r.Held, e })
		return yes, err
	}},
	{"release", "released", "over", func(_ *testing.T, ctx context.Context, s lockagent.Store) (yes bool, err error) {
		s.Release(
			ctx, lockagent.ReleaseRequest{Name: "l"}, func(r lockagent.ReleaseReply, e error) { yes, err = r.Released, e },
		)
		return yes, err
	}},
	{"break", "broken", "free", func(t *testing.T, ctx context.Context, s lockagent.Store) (yes bool, err error) {
		layer[lockagent.Operator](t, s).Break(
			ctx, lockagent.BreakRequest{Name: "l"}, func(r lockagent.BreakReply, e error) { yes, err = r.Broken, e },
		)
		return yes, err
	}},
	{"inspect", "held", "free", func(t *testing.T, ctx context.Context, s lockagent.Store) (yes bool, err error) {
		layer[lockagent.Operator](t, s).Inspect(
			ctx, "l", lockagent.PlainLock, func(r lockagent.Inspection, e error) { yes, err = r.Held, e },
		)
		return yes, err
	}},
	{"permits", "changed", "unchanged", func(t *testing.T, ctx context.Context, s lockagent.Store) (yes bool, err error) {
		layer[lockagent.Counters](t, s).Permits(
			ctx, lockagent.PermitsRequest{Name: "l"}, func(r lockagent.PermitsReply, e error) { yes, err = r.Done, e },
		)
		return yes, err
	}},
	{"latch", "changed", "unchanged", func(t *testing.T, ctx context.Context, s lockagent.Store) (yes bool, err error) {
		layer[lockagent.Counters](t, s).Latch(
			ctx, lockagent.LatchRequest{Name: "l"}, func(r lockagent.LatchReply, e error) { yes, err = r.Changed, e },
		)
		return yes, err
	}},
}

// layer returns a layer that a store has to have.
func layer[L any](t testing.TB, s lockagent.Store) L {
	t.Helper()
	l, ok := lockagent.Layer[L](s)
	if !ok {
		t.Fatal("the store does not have the layer")
	}
	return l
}

func TestStoreCalls(t *testing.T) {
	unreachable := fmt.Errorf("wrapped: %w", lockagent.ErrStoreUnavailable)
	for _, call := range calls {
		for _, reply := range []struct {
			yes     bool
			err     error
			outcome string
		}{
			{true, nil, call.yes},
			{false, nil, call.no},
			{false, unreachable, "unavailable"},
			{false, &lockagent.GraceError{Name: "l"}, "grace"},
			{false, lockagent.ErrWrongType, "wrongtype"},
			{false, lockagent.ErrNotPermitted, "notpermitted"},
			{false, lockagent.ErrNoTokens, "notokens"},
			{false, lockagent.ErrClosed, "closed"},
			{false, lockagent.ErrWithdrawn, "withdrawn"},
			{false, errors.New("out of paper"), "error"},
		} {
			t.Run(call.operation+"/"+reply.outcome, func(t *testing.T) {
				r := newRig(t)
				next := &canned{yes: reply.yes, err: reply.err}
				ctx, caller := r.caller()
				yes, err := call.do(t, ctx, Store(next, r.Config))
				if yes != reply.yes || !errors.Is(err, reply.err) {
					t.Errorf("the answer is %v and %v, want %v and %v", yes, err, reply.yes, reply.err)
				}

				span := r.only("EVALSHA " + call.operation)
				if span.SpanKind != trace.SpanKindClient || span.Parent.SpanID() != caller.SpanID() {
					t.Errorf(
						"the span is of kind %v with the parent %v, want a client's with %v", span.SpanKind, span.Parent.SpanID(),
						caller.SpanID(),
					)
				}
				if trace.SpanContextFromContext(next.ctx).SpanID() != span.SpanContext.SpanID() {
					t.Error("the context of the call does not have its span")
				}
				want := map[string]string{
					"db.operation.name": "EVALSHA", "db.stored_procedure.name": call.operation, "db.system.name": "redis",
					"server.address": "redis.example", "server.port": "6379",
					"lockagent.lock.name": "l", "lockagent.outcome": reply.outcome, "error.type": "(none)",
				}
				status := codes.Unset
				if reply.err != nil {
					want["error.type"], status = reply.outcome, codes.Error
				}
				r.wantAttributes(span, want)
				if span.Status.Code != status {
					t.Errorf("the status is %v, want %v", span.Status, status)
				}

				points := r.points("lockagent.store.call.duration")
				if len(points) != 1 || points[call.operation+"/"+reply.outcome].count != 1 {
					t.Errorf("measured %v, want one %s/%s", points, call.operation, reply.outcome)
				}
				renewals := map[string]point{}
				if call.operation == "renew" {
					outcome := "failed"
					if reply.err == nil {
						outcome = reply.outcome
					}
					renewals[outcome] = point{0, 1}
				}
				r.wantPoints("lockagent.lock.renewals", renewals)
				refusals := map[string]point{}
				if slices.Contains([]string{"wrongtype", "notpermitted", "notokens"}, reply.outcome) {
					refusals[reply.outcome] = point{0, 1}
				}
				r.wantPoints("lockagent.store.refusals", refusals)
			})
		}
	}
}

func TestTenuresThatRestAreCounted(t *testing.T) {
	r := newRig(t)
	for _, next := range []canned{
		{yes: true}, {}, // of no such tenure
		{yes: true, rests: true}, {yes: true, rests: true}, {rests: true},
	} {
		Store(&next, r.Config).Acquire(
			context.Background(), lockagent.AcquireRequest{}, func(lockagent.AcquireReply, error) {},
		)
	}
	r.wantPoints("lockagent.lock.rests", map[string]point{"": {0, 2}})
	r.wantPoints("lockagent.lock.recalls", map[string]point{"": {0, 1}})
}

// An alert on an increase would miss the first loss, failure or refusal of a program if the series of
// the metric began with it.
func TestCountersOfTroubleBeginAtZero(t *testing.T) {
	r := newRig(t)
	Recorder(nil, r.Config)
	Store(&canned{}, r.Config)
	got := make(map[string][]string)
	for _, m := range r.collect() {
		for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
			if p.Value != 0 {
				t.Errorf("%s begins at %d", m.Name, p.Value)
			}
			got[m.Name] = append(got[m.Name], values(p.Attributes.ToSlice()))
		}
		slices.Sort(got[m.Name])
	}
	for metric, want := range map[string][]string{
		"lockagent.lock.losses": {
			"broken", "closed", "deadline", "denied", "expired", "identity", "internal", "sessionclosed", "unclaimed", "unknown",
		},
		"lockagent.lock.recalls":   {""},
		"lockagent.lock.renewals":  {"confirmed", "denied", "failed"},
		"lockagent.lock.rests":     {""},
		"lockagent.store.refusals": {"notokens", "notpermitted", "wrongtype"},
	} {
		if !slices.Equal(got[metric], want) {
			t.Errorf("%s begins with %q, want %q", metric, got[metric], want)
		}
	}
}

// A call of nobody's trace would make a trace of one span, and there are many.
func TestStoreCallsNeedARecordedParent(t *testing.T) {
	r := newRig(t)
	s := Store(&canned{yes: true}, r.Config)
	unsampled := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
	}))
	for _, call := range calls {
		for _, ctx := range []context.Context{context.Background(), unsampled} {
			if _, err := call.do(t, ctx, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(r.spans.GetSpans()); n != 0 {
		t.Errorf("%d spans, want none", n)
	}
	r.wantPoints("lockagent.lock.renewals", map[string]point{"confirmed": {0, 2}})
}

func TestARemoteParentIsEnough(t *testing.T) {
	r := newRig(t)
	if _, err := calls[0].do(t, remote(), Store(&canned{}, r.Config)); err != nil {
		t.Fatal(err)
	}
	r.only("EVALSHA acquire")
}

func TestStoresThatAreNoRedis(t *testing.T) {
	for address, want := range map[string]map[string]string{
		"":                  {"server.address": "(none)", "server.port": "(none)"},
		"[::1]:7000":        {"server.address": "::1", "server.port": "7000"},
		"db.example":        {"server.address": "db.example", "server.port": "(none)"},
		"/run/database.ock": {"server.address": "/run/database.ock", "server.port": "(none)"},
	} {
		r := newRig(t)
		s := Store(&canned{}, Config{TracerProvider: r.sdk, Address: address})
		if _, err := calls[0].do(t, remote(), s); err != nil {
			t.Fatal(err)
		}
		span := r.only("store acquire")
		r.wantAttributes(span, want)
		r.wantAttributes(span, map[string]string{
			"db.system.name": "(none)", "db.operation.name": "acquire", "db.stored_procedure.name": "(none)",
		})
	}
}

// A pass carries the trace context of the release, of whichever span that is.
func TestReleasesCarryTheirTraceContext(t *testing.T) {
	r := newRig(t)
	release := func(ctx context.Context, c Config, trace string) string {
		next := &canned{}
		Store(next, c).Release(ctx, lockagent.ReleaseRequest{Name: "l", Trace: trace}, func(lockagent.ReleaseReply, error) {})
		return next.release.Trace
	}
	ctx, _ := r.caller()
	if got, want := release(ctx, r.Config, ""), traceParent(r.only("EVALSHA release").SpanContext); got != want {
		t.Errorf("with an SDK it is %q, want that of the call, %q", got, want)
	}
	if got, want := release(remote(), Config{}, ""), traceParentOf(remote()); got != want {
		t.Errorf("without an SDK it is %q, want that of the caller, %q", got, want)
	}
	if got := release(context.Background(), r.Config, ""); got != "" {
		t.Errorf("without a trace it is %q, want none", got)
	}
	if got := release(ctx, r.Config, "as it was"); got != "as it was" {
		t.Errorf("one that was there became %q", got)
	}
}

func TestTheRestPassesThrough(t *testing.T) {
	next := &canned{}
	s := Store(next, newRig(t).Config)
	var woken, heard, reset bool
	s.Subscribe("l", lockagent.PlainLock, func() { woken = true })()
	layer[lockagent.Messages](t, s).Listen("a", func(lockagent.Message) { heard = true })()
	s.OnReset(func(lockagent.Reset) { reset = true })()
	if err := s.Close(); err == nil || err.Error() != "closing" {
		t.Errorf("close returned %v", err)
	}
	if !woken || !heard || !reset || next.woken != 1 || next.heard != 1 || next.resets != 1 || !next.closed {
		t.Errorf("woken %v, heard %v, reset %v, next %+v", woken, heard, reset, next)
	}
}

// A store of which not every layer is there gets none by being traced, and loses none.
func TestATracedStoreHasTheLayersOfTheStore(t *testing.T) {
	cfg := newRig(t).Config
	for name, has := range map[string]func(lockagent.Store) bool{
		"Messages": has[lockagent.Messages],
		"Queue":    has[lockagent.Queue],
		"Rests":    has[lockagent.Rests],
		"Operator": has[lockagent.Operator],
		"Counters": has[lockagent.Counters],
		"History":  has[lockagent.History],
	} {
		full := &canned{}
		for _, next := range []lockagent.Store{full, struct{ lockagent.Store }{full}} {
			if got, want := has(Store(next, cfg)), has(next); got != want {
				t.Errorf("%s of %T: %t, when it is traced %t", name, next, want, got)
			}
		}
	}
	if !has[lockagent.Operator](&canned{}) {
		t.Error("the store of the test has no Operator")
	}
}

func has[L any](s lockagent.Store) bool {
	_, ok := lockagent.Layer[L](s)
	return ok
}
