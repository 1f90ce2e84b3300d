package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockagent/lockagent"
)

// recorder makes spans and metrics of events.
type recorder struct {
	next    lockagent.Recorder
	tracer  tracer
	metrics *lockMetrics
	open    *lifetimes
}

var _ lockagent.SelectiveRecorder = (*recorder)(nil)

// Recorder returns a recorder that makes spans and metrics of events. It passes
// the events on to next, with [lockagent.Event.TraceParent] set. next may be nil.
func Recorder(next lockagent.Recorder, c Config) lockagent.Recorder {
	return &recorder{
		next:    next,
		tracer:  tracer{configured: c.TracerProvider},
		metrics: newLockMetrics(c.meter()),
		open:    newLifetimes(),
	}
}

// Enabled implements [lockagent.SelectiveRecorder].
func (r *recorder) Enabled(ctx context.Context) bool {
	switch next := r.next.(type) {
	case nil:
	case lockagent.SelectiveRecorder:
		if next.Enabled(ctx) {
			return true
		}
	default:
		return true
	}
	return r.open.any() || r.tracer.enabled(ctx) || r.metrics.events.Enabled(ctx) || r.metrics.grants.Enabled(ctx) ||
		r.metrics.enabled(ctx)
}

// Record implements [lockagent.Recorder].
func (r *recorder) Record(ctx context.Context, e lockagent.Event) {
	switch parent := r.observe(ctx, &e); {
	case parent != "":
		e.TraceParent = parent
	case e.TraceParent == "":
		e.TraceParent = traceParentOf(ctx) // of the caller, who may have an SDK elsewhere
	}
	if r.next != nil {
		r.next.Record(ctx, e)
	}
}

// observe returns the trace context that the event belongs to, if it is known.
func (r *recorder) observe(ctx context.Context, e *lockagent.Event) (parent string) {
	r.metrics.events.Add(ctx, 1, of(r.metrics.kinds, e.Kind)...)
	if e.Kind == lockagent.EventGranted {
		r.metrics.grants.Add(ctx, 1, of(r.metrics.ways, e.How)...)
	}
	if e.Kind == lockagent.EventGraceEnded && e.Grace != nil {
		r.metrics.grace.Record(ctx, seconds(e.Grace.Ended.Sub(e.Grace.Began)))
	}
	l := r.open.of(e)
	switch e.Kind {
	case lockagent.EventRequested, lockagent.EventQueued:
		return r.waits(ctx, l, e)
	case lockagent.EventGranted, lockagent.EventReentered,
		lockagent.EventTimedOut, lockagent.EventCancelled, lockagent.EventRefused:
		return r.answered(ctx, l, e)
	}
	if l == nil {
		return ""
	}
	switch e.Kind {
	case lockagent.EventRenewed:
		if !l.trusted.IsZero() {
			r.metrics.trust.Record(ctx, seconds(l.trusted.Sub(e.Time)))
		}
		l.trusted = e.Time.Add(e.Remaining)
	case lockagent.EventUncertain:
		return r.uncertain(ctx, l, e)
	}
	if e.Kind.EndsHold() {
		return r.ended(ctx, l, e)
	}
	return ""
}

// begin begins the span of a request, at the time of the request. It reports false if nobody wants
// to know of the request.
func (r *recorder) begin(ctx context.Context, e *lockagent.Event) (request, bool) {
	span := noSpan
	if r.tracer.enabled(ctx) {
		span = r.tracer.start(ctx, "acquire", trace.WithTimestamp(e.Time.Add(-e.Waited)))
	}
	if !span.IsRecording() && !r.metrics.enabled(ctx) {
		return request{}, false
	}
	describe(span, e)
	return request{span: span, parent: traceParent(span.SpanContext())}, true
}

// waits remembers a request that is not answered at once. l may be nil.
func (r *recorder) waits(ctx context.Context, l *lock, e *lockagent.Event) string {
	q, known := l.request(e)
	if !known {
		if q, known = r.begin(ctx, e); !known {
			return ""
		}
	}
	if e.Kind == lockagent.EventQueued {
		if !q.queued && r.metrics.waiters.Enabled(ctx) {
			q.queued = true
			r.metrics.waiters.Add(ctx, 1)
		}
		if q.span.IsRecording() {
			q.span.AddEvent(
				"queued", trace.WithTimestamp(e.Time), trace.WithAttributes(attribute.Int("lockagent.waiters", e.Waiters)),
			)
		}
	} else if q.span.IsRecording() {
		q.span.AddEvent(
			"store does not answer", trace.WithTimestamp(e.Time),
			trace.WithAttributes(attribute.String("exception.message", e.Err)),
		)
	}
	r.open.remember(e, q)
	return q.parent
}

// answered ends a request, and begins a hold if the answer is a grant. l may be nil.
func (r *recorder) answered(ctx context.Context, l *lock, e *lockagent.Event) string {
	q, known := l.request(e)
	if known {
		delete(l.requests, e.Request)
	} else if q, known = r.begin(ctx, e); !known {
		return ""
	}
	if q.queued {
		r.metrics.waiters.Add(ctx, -1)
	}
	ctx = within(ctx, q.span)
	r.metrics.acquire.Record(ctx, e.Waited.Seconds(), of(r.metrics.outcomes, e.Kind)...)

	granted := e.Kind == lockagent.EventGranted || e.Kind == lockagent.EventReentered
	recorded := q.span.IsRecording()
	if recorded {
		q.span.SetAttributes(attribute.String("lockagent.outcome", e.Kind.String()))
		if granted {
			describeGrant(q.span, e)
		}
		if e.Kind == lockagent.EventTimedOut || e.Kind == lockagent.EventRefused {
			q.span.SetStatus(codes.Error, e.Err)
		}
	}
	end(q.span, e)

	if e.Kind == lockagent.EventGranted {
		r.granted(ctx, r.open.made(e), e, recorded)
	} else if l != nil {
		r.open.tidy(e, l)
	}
	return q.parent
}

// granted begins a hold. ctx has the span of the request if that was recorded.
func (r *recorder) granted(ctx context.Context, l *lock, e *lockagent.Event, recorded bool) {
	h := hold{span: noSpan, since: e.Time, counted: r.metrics.held.Enabled(ctx)}
	if recorded {
		h.span = r.tracer.start(ctx, "hold", append(linksOf(l, e), trace.WithTimestamp(e.Time))...)
		h.parent = traceParent(h.span.SpanContext())
		describe(h.span, e)
		describeGrant(h.span, e)
	}
	if h.counted {
		r.metrics.held.Add(ctx, 1)
	}
	if e.How == lockagent.ByHandOff && !l.endedAt.IsZero() {
		r.metrics.handOff.Record(ctx, seconds(e.Time.Sub(l.endedAt)))
	} else if e.How != lockagent.ByRest { // whose lease began before
		l.trusted = e.Time.Add(e.Lease)
	}
	l.holds[holdOf(e)] = h
}

// linksOf leads from a hold to the end of the one before. That was in this agent, if it
// handed the lock off, or in another one, if the store passed the lock.
func linksOf(l *lock, e *lockagent.Event) []trace.SpanStartOption {
	before, how := parseTraceParent(e.Link), "pass"
	if e.How == lockagent.ByHandOff && !l.endedAt.IsZero() {
		before, how = l.handing, "handoff"
	}
	if !before.IsValid() {
		return nil
	}
	link := trace.Link{SpanContext: before, Attributes: []attribute.KeyValue{attribute.String("lockagent.how", how)}}
	return []trace.SpanStartOption{trace.WithLinks(link)}
}

// ended ends a grant, and the hold with its last.
func (r *recorder) ended(ctx context.Context, l *lock, e *lockagent.Event) string {
	h, known := l.holds[holdOf(e)]
	if !known {
		return ""
	}
	how := h.span.SpanContext()
	if e.Kind == lockagent.EventReleased && h.span.IsRecording() {
		span := r.tracer.start(within(ctx, h.span), "release", trace.WithTimestamp(e.Time))
		describe(span, e)
		end(span, e)
		if span.SpanContext().IsValid() {
			how = span.SpanContext()
		}
	}
	if e.Count > 0 {
		return h.parent
	}
	delete(l.holds, holdOf(e))
	l.handing, l.endedAt = how, e.Time

	ctx = within(ctx, h.span)
	if h.counted {
		r.metrics.held.Add(ctx, -1)
	}
	r.metrics.hold.Record(ctx, seconds(e.Time.Sub(h.since)), of(r.metrics.outcomes, e.Kind)...)
	if e.Kind != lockagent.EventReleased {
		r.metrics.losses.Add(ctx, 1, of(r.metrics.reasons, reason(e))...)
	}
	if h.span.IsRecording() {
		h.span.SetAttributes(attribute.String("lockagent.outcome", e.Kind.String()))
		switch e.Kind {
		case lockagent.EventExpired, lockagent.EventLost, lockagent.EventBroken:
			h.span.SetStatus(codes.Error, reason(e).String())
		}
	}
	end(h.span, e)
	r.open.tidy(e, l)
	return h.parent
}

// uncertain notes that a renewal has failed.
func (r *recorder) uncertain(ctx context.Context, l *lock, e *lockagent.Event) string {
	h, known := l.holds[holdOf(e)]
	if !known {
		return ""
	}
	r.metrics.trust.Record(within(ctx, h.span), seconds(e.Remaining))
	if h.span.IsRecording() {
		h.span.AddEvent("uncertain", trace.WithTimestamp(e.Time), trace.WithAttributes(
			attribute.String("exception.message", e.Err),
			attribute.Float64("lockagent.remaining", e.Remaining.Seconds())))
	}
	return h.parent
}

// end ends a span at the time of the event.
func end(span trace.Span, e *lockagent.Event) {
	if span.IsRecording() { // the option costs even if nobody takes it
		span.End(trace.WithTimestamp(e.Time))
	}
}

// seconds of a time that two readings of a clock have bounded. If the clock was
// set back between them, it is none.
func seconds(d time.Duration) float64 { return max(0, d).Seconds() }

// reason says why a hold was lost. The kinds of event that do not say it are
// named like it.
func reason(e *lockagent.Event) lockagent.LossReason {
	if e.Reason != 0 {
		return e.Reason
	}
	named, _ := lockagent.ParseLossReason(e.Kind.String())
	return named
}

// describe says whose span it is.
func describe(span trace.Span, e *lockagent.Event) {
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("lockagent.lock.name", string(e.Lock)),
			attribute.String("lockagent.owner", string(e.Owner)),
			attribute.String("lockagent.agent.id", string(e.Agent)))
	}
}

// describeGrant says what was granted.
func describeGrant(span trace.Span, e *lockagent.Event) {
	if span.IsRecording() {
		span.SetAttributes(
			attribute.Int64("lockagent.token", int64(e.Token)),
			attribute.Int64("lockagent.tenure", int64(e.Tenure)),
			attribute.String("lockagent.how", e.How.String()))
		if e.Replicas != 0 {
			span.SetAttributes(attribute.Int("lockagent.replicas", e.Replicas))
		}
	}
}
