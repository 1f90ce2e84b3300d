//go:build linux

package servecmd

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/telemetry"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/tracing"
)

// measure shows in the metrics what the daemon knows. Those of locks and of the store come from package tracing.
func (s *server) measure() error {
	provider := s.telemetry.MeterProvider
	if provider == nil {
		return nil
	}
	if log := s.log; log != nil {
		stop := tracing.Publishing(func() tracing.PublishStats {
			now := log.publisher.Stats()
			return tracing.PublishStats{Published: now.Published, Dropped: now.Dropped, Queued: now.Queued}
		}, s.telemetry.Config)
		s.onClose(func() error {
			stop()
			return nil
		})
		if log.forwarder != nil {
			if err := telemetry.MeasureForwarding(provider, log.forwarder.Stats); err != nil {
				return err
			}
		}
	}
	return measureDaemon(provider, s.daemon, s.access)
}

// measureDaemon makes the metrics of claims, and of what clients are refused.
func measureDaemon(provider metric.MeterProvider, d *daemon.Daemon, a *access.Access) error {
	m := telemetry.NewInstruments(provider)
	claims := m.Number(
		"lockagent.daemon.claims", "{claim}", "Claims of clients, by whether they hold their lock or wait for it.",
	)
	refused := m.Counter(
		"lockagent.daemon.refused", "{request}", "Requests that the rules or the limits have refused, by the reason.",
	)
	ready := m.Number("lockagent.daemon.ready", "", "1 while locks can be granted, and else 0.")
	if m.Err != nil {
		return m.Err
	}
	_, err := m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		n := d.Counts()
		o.ObserveInt64(claims, int64(n.Held), metric.WithAttributes(attribute.String("state", "held")))
		o.ObserveInt64(claims, int64(n.Waiting), metric.WithAttributes(attribute.String("state", "waiting")))
		for reason, count := range refusalsByReason(a) {
			o.ObserveInt64(refused, count, metric.WithAttributes(attribute.String("reason", reason)))
		}
		is := int64(0)
		if d.Ready(ctx) == nil {
			is = 1
		}
		o.ObserveInt64(ready, is)
		return nil
	}, claims, refused, ready)
	return err
}

// refusalsByReason has those of all users: a label for each of them could be too many.
func refusalsByReason(a *access.Access) map[string]int64 {
	counts := make(map[string]int64)
	for _, r := range a.Refusals() {
		counts[r.Reason] += int64(r.Count)
	}
	return counts
}
