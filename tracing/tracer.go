package tracing

import (
	"context"
	"reflect"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
)

// noSpan takes everything and keeps nothing. Its context is not valid.
var noSpan = trace.SpanFromContext(context.Background())

// tracer starts spans. While no SDK takes them it does not even try, because a
// span that nobody wants costs fifty times as much as knowing that nobody does.
type tracer struct {
	configured trace.TracerProvider // nil for the global one
	last       atomic.Pointer[source]
}

// source is one provider, and what was found out about it.
type source struct {
	provider trace.TracerProvider
	only     bool // no other will follow, or it could not be told from this one
	tracer   trace.Tracer
	off      atomic.Bool // it was tried, and makes no spans
}

// source returns the provider of now. The global one changes, at least when the
// program installs its SDK.
func (t *tracer) source() *source {
	last := t.last.Load()
	if last != nil && (last.only || last.provider == otel.GetTracerProvider()) {
		return last
	}
	next := &source{provider: t.configured, only: true}
	if t.configured == nil {
		next.provider = otel.GetTracerProvider()
		next.only = !reflect.ValueOf(next.provider).Comparable()
	}
	next.tracer = next.provider.Tracer(scope)
	t.last.Store(next)
	return next
}

// enabled reports whether it is worth while to start a span in ctx. It is not
// without an SDK, and not below a span that nobody records. The options of a span
// cost more than this question, so ask it first.
func (t *tracer) enabled(ctx context.Context) bool {
	if t.source().off.Load() {
		return false
	}
	parent := trace.SpanFromContext(ctx)
	if parent == noSpan {
		return true
	}
	of := parent.SpanContext()
	return !of.IsValid() || of.IsSampled() || parent.IsRecording()
}

// start starts a span, or returns noSpan if nobody records it.
func (t *tracer) start(ctx context.Context, name string, opts ...trace.SpanStartOption) trace.Span {
	s := t.source()
	_, span := s.tracer.Start(ctx, name, opts...)
	if span.IsRecording() {
		return span
	}
	// Without an SDK a span has the identity of its parent, if any at all. One that
	// is merely not sampled has an identity of its own.
	if span.SpanContext().SpanID() == trace.SpanContextFromContext(ctx).SpanID() {
		s.off.Store(true)
	}
	return noSpan
}

// within returns ctx with the span in it, as the parent of others and for the
// exemplars of metrics.
func within(ctx context.Context, span trace.Span) context.Context {
	if !span.SpanContext().IsValid() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, span)
}
