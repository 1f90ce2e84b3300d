package tracing

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// PublishStats counts what became of the events of an agent, as the Stats of
// package natslog do.
type PublishStats struct{ Published, Dropped, Queued uint64 }

// Publishing shows in the metrics what becomes of the events of an agent. stats is
// called whenever they are collected, from any goroutine. Call stop when it must
// not be called any more: the metrics keep the counts that it returned last, for
// a counter never goes back.
func Publishing(stats func() PublishStats, c Config) (stop func()) {
	m := c.meter()
	published := made(m.Int64ObservableCounter("lockagent.events.published", metric.WithUnit("{event}"),
		metric.WithDescription("Events that are in the log.")))
	dropped := made(m.Int64ObservableCounter("lockagent.events.dropped", metric.WithUnit("{event}"),
		metric.WithDescription("Events that will never be in the log.")))
	queued := made(m.Int64ObservableUpDownCounter("lockagent.events.queued", metric.WithUnit("{event}"),
		metric.WithDescription("Events that wait to be in the log.")))
	var mu sync.Mutex // protects stats
	_, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		mu.Lock()
		defer mu.Unlock()
		now := stats()
		o.ObserveInt64(published, int64(now.Published))
		o.ObserveInt64(dropped, int64(now.Dropped))
		o.ObserveInt64(queued, int64(now.Queued))
		return nil
	}, published, dropped, queued)
	if err != nil {
		otel.Handle(err)
	}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		last := stats()
		stats = func() PublishStats { return last }
	}
}
