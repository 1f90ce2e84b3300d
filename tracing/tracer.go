package tracing

import (
	"context"
	"encoding/hex"
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

// enabled reports whether it is worth while to start a span.
func (t *tracer) enabled() bool { return !t.source().off.Load() }

// start starts a span, or returns noSpan if there is no SDK.
func (t *tracer) start(ctx context.Context, name string, opts ...trace.SpanStartOption) trace.Span {
	s := t.source()
	if s.off.Load() {
		return noSpan
	}
	_, span := s.tracer.Start(ctx, name, opts...)
	// Without an SDK a span has the identity of its parent, if any at all. One that
	// is merely not sampled has an identity of its own.
	if span.SpanContext().SpanID() == trace.SpanContextFromContext(ctx).SpanID() {
		s.off.Store(true)
		return noSpan
	}
	return span
}

// within returns ctx with the span in it, as the parent of others and for the
// exemplars of metrics.
func within(ctx context.Context, span trace.Span) context.Context {
	if !span.SpanContext().IsValid() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, span)
}

// traceParent is the W3C form of a trace context, or empty if it is not valid.
func traceParent(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	traceID, spanID := sc.TraceID(), sc.SpanID()
	text := make([]byte, 0, len("00-")+32+len("-")+16+len("-01"))
	text = append(text, "00-"...)
	text = hex.AppendEncode(text, traceID[:])
	text = append(text, '-')
	text = hex.AppendEncode(text, spanID[:])
	if sc.IsSampled() {
		text = append(text, "-01"...)
	} else {
		text = append(text, "-00"...)
	}
	return string(text)
}
