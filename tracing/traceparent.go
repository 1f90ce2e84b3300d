package tracing

import (
	"context"
	"encoding/hex"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceParent is the W3C form of a trace context that is sampled, or empty. Others
// are not worth their bytes in the event log: nobody can look them up.
func traceParent(sc trace.SpanContext) string {
	if !sc.IsSampled() || !sc.IsValid() {
		return ""
	}
	traceID, spanID := sc.TraceID(), sc.SpanID()
	text := make([]byte, 0, len("00-")+32+len("-")+16+len("-01"))
	text = append(text, "00-"...)
	text = hex.AppendEncode(text, traceID[:])
	text = append(text, '-')
	text = hex.AppendEncode(text, spanID[:])
	text = append(text, "-01"...)
	return string(text)
}

// TraceParent is the W3C trace context of the span in ctx, or empty if there is none. It is for those who make a
// request on behalf of others, such as agentclient.Config. It also tells that a trace is not sampled, so that nobody
// begins another one.
func TraceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// traceParentOf is that of a caller, whoever made its span.
func traceParentOf(ctx context.Context) string {
	span := trace.SpanFromContext(ctx)
	if span == noSpan {
		return ""
	}
	return traceParent(span.SpanContext())
}

// parseTraceParent is the inverse of traceParent. The context that it returns is
// not valid if the text is none.
func parseTraceParent(text string) trace.SpanContext {
	if text == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": text}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}
