package eventscmd

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/telemetry"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
)

// serve is [telemetry.Export] with the metrics of the verb.
func (f *auditFlags) serve(cmd *cobra.Command, log *eventLog, w *follower) (stop func(), err error) {
	return telemetry.Export(cmd, cli.NewLogger(cmd.ErrOrStderr()), f.metrics, func(provider metric.MeterProvider) error {
		return measureAudit(provider, w.report, func(ctx context.Context) (uint64, bool) { return w.pending(ctx, log) })
	})
}

// pending is how many messages the stream has that were not read yet, and false if the server does
// not say what it has.
func (w *follower) pending(ctx context.Context, log *eventLog) (uint64, bool) {
	ctx, cancel := context.WithTimeout(ctx, stateTime)
	defer cancel()
	state, err := log.grown.state(ctx)
	if errors.Is(err, natslog.ErrNoStream) {
		return 0, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	read := max(w.audit.Position(), state.First-1)
	return state.Last - min(read, state.Last), err == nil
}

// stateTime bounds how long those who ask for metrics wait for the server.
const stateTime = 2 * time.Second

// measureAudit makes the metrics of an audit from what its last report says, and of what it has not
// read yet.
func measureAudit(
	provider metric.MeterProvider, report func() audit.Report, pending func(context.Context) (uint64, bool),
) error {
	m := telemetry.NewInstruments(provider)
	verdict := m.Number("lockagent.audit.verdict", "", "The verdict: 1 for the one that holds, 0 for the others.")
	lag := m.Seconds("lockagent.audit.horizon.lag", "How far behind now the log is judged for good.")
	behind := m.Number("lockagent.audit.pending", "{message}", "Messages of the stream that were not read yet.")
	read := m.Counter("lockagent.audit.events", "{event}", "Events that were read.")
	missing := m.Number(
		"lockagent.audit.holes", "{hole}", "Stretches of events that are missing. What comes late is not missing any more.",
	)
	violations := m.Counter(
		"lockagent.audit.violations", "{violation}", "Violations of mutual exclusion, or of the order of tokens.",
	)
	if m.Err != nil {
		return m.Err
	}
	_, err := m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		r := report()
		for _, v := range []audit.Verdict{audit.Proven, audit.Explained, audit.Incomplete, audit.Violated, audit.Empty} {
			is := int64(0)
			if v == r.Verdict {
				is = 1
			}
			o.ObserveInt64(verdict, is, metric.WithAttributes(attribute.String("verdict", string(v))))
		}
		if n, known := pending(ctx); known {
			o.ObserveInt64(behind, int64(n))
		}
		o.ObserveFloat64(lag, horizonLag(&r, time.Now()).Seconds())
		o.ObserveInt64(read, int64(r.Events))
		o.ObserveInt64(missing, int64(r.RecordHoles.Count+r.MessageHoles.Count))
		o.ObserveInt64(violations, int64(r.Violations.Count))
		return nil
	}, verdict, lag, behind, read, missing, violations)
	return err
}

// horizonLag is how long ago the time is up to which the stores were judged: the longest of them. It
// is 0 if no agent lives.
func horizonLag(r *audit.Report, now time.Time) (lag time.Duration) {
	for _, s := range r.Stores {
		if s.To != 0 {
			lag = max(lag, now.Sub(time.UnixMicro(int64(s.To))))
		}
	}
	return lag
}
