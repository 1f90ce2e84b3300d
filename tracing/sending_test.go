package tracing

import (
	"errors"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

func TestSending(t *testing.T) {
	r := newRig(t)
	c := r.Config
	c.Address = "nats-1.example:4222"
	hook := Sending("LOCKAGENT", c)
	one, many := hook(1, 256), hook(7, 9)
	one(nil)
	many(errors.New("disconnected"))
	spans := r.ended("publish LOCKAGENT")
	if len(spans) != 2 {
		t.Fatalf("%d spans, want 2", len(spans))
	}
	for _, s := range spans {
		if s.SpanKind != trace.SpanKindProducer || s.Parent.IsValid() {
			t.Errorf("it is of kind %v, below %v", s.SpanKind, s.Parent)
		}
		r.wantAttributes(s, map[string]string{
			string(semconv.MessagingSystemKey):          "nats",
			string(semconv.MessagingOperationNameKey):   "publish",
			string(semconv.MessagingOperationTypeKey):   semconv.MessagingOperationTypeSend.Value.AsString(),
			string(semconv.MessagingDestinationNameKey): "LOCKAGENT",
			string(semconv.ServerAddressKey):            "nats-1.example",
			string(semconv.ServerPortKey):               "4222",
		})
	}
	r.wantAttributes(spans[0], map[string]string{
		string(semconv.MessagingBatchMessageCountKey): "(none)", "lockagent.records": "256",
		string(semconv.ErrorTypeKey): "(none)",
	})
	r.wantAttributes(spans[1], map[string]string{
		string(semconv.MessagingBatchMessageCountKey): "7", "lockagent.records": "9",
		string(semconv.ErrorTypeKey): "unconfirmed",
	})
	if got := spans[1].Status; got.Code != codes.Error || got.Description != "disconnected" ||
		spans[0].Status.Code != codes.Unset {
		t.Errorf("the status is %v, and %v without an error", got, spans[0].Status)
	}
}

// A sending that is not sampled costs nothing, and neither does one without an SDK.
func TestSendingThatIsNotSampled(t *testing.T) {
	for name, c := range map[string]Config{
		"NeverSampled": newRig(t, sdktrace.WithSampler(sdktrace.NeverSample())).Config,
		"NoSDK":        {},
	} {
		t.Run(name, func(t *testing.T) {
			hook := Sending("LOCKAGENT", c)
			if hook(3, 9) != nil {
				t.Error("somebody wants to know the end")
			}
			if name == "NoSDK" {
				if n := testing.AllocsPerRun(100, func() { hook(3, 9) }); n > 0 {
					t.Errorf("%v allocations", n)
				}
			}
		})
	}
}
