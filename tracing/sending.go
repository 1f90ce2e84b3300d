package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Sending returns the hook with which a publisher of package natslog tells what leaves for NATS. It
// makes a span of each sending, by the semantic conventions for messaging. destination is the name
// of the stream. Each span is the root of a trace, and the sampler decides about it.
func Sending(destination string, c Config) func(messages, records int) (done func(error)) {
	t := &tracer{configured: c.TracerProvider}
	name := "publish " + destination
	about := append([]attribute.KeyValue{
		attribute.String("messaging.system", "nats"),
		attribute.String("messaging.operation.name", "publish"),
		attribute.String("messaging.operation.type", "send"),
		attribute.String("messaging.destination.name", destination),
	}, c.server()...)
	start := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(about...)}
	return func(messages, records int) (done func(error)) {
		ctx := context.Background()
		if !t.enabled(ctx) {
			return nil
		}
		span := t.start(ctx, name, start...)
		if !span.IsRecording() {
			return nil
		}
		if messages > 1 { // the conventions want it of batches only
			span.SetAttributes(attribute.Int("messaging.batch.message_count", messages))
		}
		span.SetAttributes(attribute.Int("lockagent.records", records))
		return func(err error) {
			if err != nil {
				span.SetAttributes(attribute.String("error.type", "unconfirmed"))
				span.SetStatus(codes.Error, err.Error())
			}
			span.End()
		}
	}
}
