package tracing

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/lockagent/lockagent"
)

// Boundaries of the histograms, in seconds. The first ones are for round trips and
// waits, the second ones for leases and jobs.
var (
	waits = metric.WithExplicitBucketBoundaries(
		.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
	)
	leases = metric.WithExplicitBucketBoundaries(
		.001, .005, .01, .05, .1, .5, 1, 2.5, 5, 10, 15, 20, 30, 60, 300, 1800, 3600,
	)
)

// lockMetrics are those that follow from events.
type lockMetrics struct {
	acquire metric.Float64Histogram
	hold    metric.Float64Histogram
	handOff metric.Float64Histogram
	trust   metric.Float64Histogram
	waiters metric.Int64UpDownCounter
	held    metric.Int64UpDownCounter
	grants  metric.Int64Counter
	losses  metric.Int64Counter
	events  metric.Int64Counter
	grace   metric.Float64Histogram

	// Attributes are made once, and not for each measurement.
	outcomes [][]metric.RecordOption // by EventKind
	reasons  [][]metric.AddOption    // by LossReason
	kinds    [][]metric.AddOption    // by EventKind
	ways     [][]metric.AddOption    // by How
}

func newLockMetrics(m metric.Meter) *lockMetrics {
	l := &lockMetrics{
		acquire: made(m.Float64Histogram("lockagent.lock.acquire.duration", metric.WithUnit("s"), waits,
			metric.WithDescription("Time from a request for a lock to its answer."))),
		hold: made(m.Float64Histogram("lockagent.lock.hold.duration", metric.WithUnit("s"), leases,
			metric.WithDescription("Time for which an owner held a lock."))),
		handOff: made(m.Float64Histogram("lockagent.lock.handoff.duration", metric.WithUnit("s"), waits,
			metric.WithDescription("Time from the end of a hold to the grant that the agent made in its place."))),
		trust: made(m.Float64Histogram("lockagent.lock.trust.remaining", metric.WithUnit("s"), leases,
			metric.WithDescription("Time for which a lease was still trusted when its renewal was confirmed or failed."))),
		waiters: made(m.Int64UpDownCounter("lockagent.lock.waiters", metric.WithUnit("{request}"),
			metric.WithDescription("Requests that are queued."))),
		held: made(m.Int64UpDownCounter("lockagent.lock.held", metric.WithUnit("{hold}"),
			metric.WithDescription("Locks that are held."))),
		grants: made(m.Int64Counter("lockagent.lock.grants", metric.WithUnit("{hold}"),
			metric.WithDescription(
				"Holds that were granted, by where the lock came from. Only those from the store needed the store.",
			))),
		losses: made(m.Int64Counter("lockagent.lock.losses", metric.WithUnit("{hold}"),
			metric.WithDescription("Holds that ended against the will of their owners."))),
		events: made(m.Int64Counter("lockagent.events.recorded", metric.WithUnit("{event}"),
			metric.WithDescription("Events in the life of locks and agents."))),
		grace: made(m.Float64Histogram("lockagent.store.grace.duration", metric.WithUnit("s"), leases,
			metric.WithDescription("Time for which the store granted nothing new, because it waited for its holders."))),
	}
	for kind := range lockagent.EventKind(len(lockagent.EventKinds()) + 1) {
		l.outcomes = append(l.outcomes, []metric.RecordOption{attributes("outcome", kind.String())})
		l.kinds = append(l.kinds, []metric.AddOption{attributes("kind", kind.String())})
	}
	l.reasons = append(l.reasons, []metric.AddOption{attributes("reason", "unknown")})
	for reason := lockagent.LostDeadline; ; reason++ {
		if _, known := lockagent.ParseLossReason(reason.String()); !known {
			break
		}
		l.reasons = append(l.reasons, []metric.AddOption{attributes("reason", reason.String())})
	}
	l.ways = append(l.ways, []metric.AddOption{attributes("how", "unknown")})
	for how := lockagent.ByStore; how <= lockagent.ByRest; how++ {
		l.ways = append(l.ways, []metric.AddOption{attributes("how", how.String())})
	}
	for _, reason := range l.reasons {
		l.losses.Add(context.Background(), 0, reason...) // so that the first loss is an increase
	}
	return l
}

// enabled reports whether anybody reads what needs a memory of open requests and
// holds.
func (l *lockMetrics) enabled(ctx context.Context) bool {
	return l.acquire.Enabled(ctx) || l.hold.Enabled(ctx) || l.handOff.Enabled(ctx) || l.trust.Enabled(ctx) ||
		l.waiters.Enabled(ctx) || l.held.Enabled(ctx) || l.losses.Enabled(ctx)
}

// of returns the options of a value that may be newer than this package.
func of[V ~uint8, O any](options [][]O, value V) []O {
	if int(value) >= len(options) {
		value = 0
	}
	return options[value]
}

// storeMetrics are those of calls to the store.
type storeMetrics struct {
	duration metric.Float64Histogram
	renewals metric.Int64Counter
	rests    metric.Int64Counter
	recalls  metric.Int64Counter
	refusals metric.Int64Counter

	calls   [operations][outcomes][]metric.RecordOption
	kept    [outcomes][]metric.AddOption
	refused [outcomes][]metric.AddOption // nil unless the store refused
}

func newStoreMetrics(m metric.Meter) *storeMetrics {
	s := &storeMetrics{
		duration: made(m.Float64Histogram("lockagent.store.call.duration", metric.WithUnit("s"), waits,
			metric.WithDescription("Time from a call to the store to its reply."))),
		renewals: made(m.Int64Counter("lockagent.lock.renewals", metric.WithUnit("{call}"),
			metric.WithDescription("Attempts to renew a lease."))),
		rests: made(m.Int64Counter("lockagent.lock.rests", metric.WithUnit("{tenure}"),
			metric.WithDescription("Tenures that may rest: the agent keeps the lock between two holds."))),
		recalls: made(m.Int64Counter("lockagent.lock.recalls", metric.WithUnit("{call}"),
			metric.WithDescription("Attempts that met a lock which may rest in another agent. The store told that agent."))),
		refusals: made(m.Int64Counter("lockagent.store.refusals", metric.WithUnit("{call}"),
			metric.WithDescription("Calls that the store refused, and would refuse again."))),
	}
	s.rests.Add(context.Background(), 0)
	s.recalls.Add(context.Background(), 0)
	for _, end := range []outcome{wrongType, notPermitted, noTokens} {
		s.refused[end] = []metric.AddOption{attributes("outcome", end.String())}
		s.refusals.Add(context.Background(), 0, s.refused[end]...) // so that the first refusal is an increase
	}
	for op := range operations {
		for end := range outcomes {
			s.calls[op][end] = []metric.RecordOption{attributes("operation", op.String(), "outcome", end.String())}
		}
	}
	for end := range outcomes {
		text := "failed"
		if end == confirmed || end == denied {
			text = end.String()
		}
		s.kept[end] = []metric.AddOption{attributes("outcome", text)}
		s.renewals.Add(context.Background(), 0, s.kept[end]...) // so that the first failure is an increase
	}
	return s
}

// enabled reports whether anybody reads what a call is measured for.
func (s *storeMetrics) enabled(ctx context.Context, op operation) bool {
	return s.duration.Enabled(ctx) || s.refusals.Enabled(ctx) || op == renew && s.renewals.Enabled(ctx) ||
		op == acquire && (s.rests.Enabled(ctx) || s.recalls.Enabled(ctx))
}

// rested counts an answer that tells of a tenure which may rest.
func (s *storeMetrics) rested(ctx context.Context, r *lockagent.AcquireReply) {
	switch {
	case r.Rests && r.Granted:
		s.rests.Add(ctx, 1)
	case r.HolderRests:
		s.recalls.Add(ctx, 1)
	}
}

// attributes makes an option of keys and their values.
func attributes(pairs ...string) metric.MeasurementOption {
	var all []attribute.KeyValue
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, attribute.String(pairs[i], pairs[i+1]))
	}
	return metric.WithAttributeSet(attribute.NewSet(all...))
}

// made is an instrument that works even if the SDK found fault with it, which is
// for the SDK's error handler to tell.
func made[I any](instrument I, err error) I {
	if err != nil {
		otel.Handle(err)
	}
	return instrument
}
