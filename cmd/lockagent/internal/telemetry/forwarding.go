package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/lockagent/lockagent/events/natslog"
)

// MeasureForwarding makes the metrics of a forwarder from its counts.
func MeasureForwarding(provider metric.MeterProvider, stats func() natslog.ForwardStats) error {
	m := NewInstruments(provider)
	messages := m.Counter("lockagent.forward.messages", "{message}", "Messages of the source, by what became of them.")
	behind := m.Number(
		"lockagent.forward.behind", "{message}",
		"Messages of the source that the hub lacked when the last one was forwarded.",
	)
	stalled := m.Number("lockagent.forward.stalled", "", "1 while nothing can be forwarded, and else 0.")
	if m.Err != nil {
		return m.Err
	}
	_, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := stats()
		for outcome, n := range map[string]uint64{
			"forwarded": s.Forwarded, "present": s.Present, "foreign": s.Foreign, "refused": s.Refused, "discarded": s.Discarded,
		} {
			o.ObserveInt64(messages, int64(n), metric.WithAttributes(attribute.String("outcome", outcome)))
		}
		o.ObserveInt64(behind, int64(s.Behind))
		is := int64(0)
		if s.Err != nil {
			is = 1
		}
		o.ObserveInt64(stalled, is)
		return nil
	}, messages, behind, stalled)
	return err
}
