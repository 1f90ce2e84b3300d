package eventscmd

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/audit"
)

// What the metrics of an audit say follows from its report.
func TestAuditMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		judged := lockagent.StoreTime(time.Now().UnixMicro())
		report := audit.Report{
			Verdict: audit.Explained, Counts: audit.Counts{Events: 1000},
			RecordHoles: audit.List[audit.RecordHole]{Count: 3}, Violations: audit.List[audit.Violation]{Count: 2},
			Stores: []audit.Judged{{To: judged}, {To: judged.Add(-30 * time.Second)}, {}},
		}
		reader := metric.NewManualReader()
		known := true
		pending := func(context.Context) (uint64, bool) { return 7, known }
		if err := measureAudit(
			metric.NewMeterProvider(metric.WithReader(reader)), func() audit.Report { return report }, pending,
		); err != nil {
			t.Fatal(err)
		}
		time.Sleep(12 * time.Second)

		want := map[string]float64{
			"lockagent.audit.horizon.lag": 42, "lockagent.audit.pending": 7, "lockagent.audit.events": 1000,
			"lockagent.audit.holes": 3, "lockagent.audit.violations": 2,
			"lockagent.audit.verdict proven": 0, "lockagent.audit.verdict explained": 1, "lockagent.audit.verdict incomplete": 0,
			"lockagent.audit.verdict violated": 0, "lockagent.audit.verdict empty": 0,
		}
		got := collected(t, reader)
		for name, value := range want {
			if v, exported := got[name]; !exported || v != value {
				t.Errorf("%s is %v (exported: %t), want %v", name, v, exported, value)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d values are exported, want %d: %v", len(got), len(want), got)
		}

		report.Stores, known = nil, false // nothing is judged yet, and nobody knows what the stream has
		got = collected(t, reader)
		if n, exported := got["lockagent.audit.pending"]; exported {
			t.Errorf("%v messages are pending, want nothing to be said", n)
		}
		if lag := got["lockagent.audit.horizon.lag"]; lag != 0 {
			t.Errorf("the horizon of no store is %v s behind, want 0", lag)
		}
	})
}

// collected is the value of each metric, by its name and its attribute.
func collected(t *testing.T, reader metric.Reader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					name := m.Name
					for _, kv := range p.Attributes.ToSlice() {
						name += " " + kv.Value.AsString()
					}
					values[name] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				values[m.Name] = data.DataPoints[0].Value
			case metricdata.Sum[int64]:
				values[m.Name] = float64(data.DataPoints[0].Value)
			}
		}
	}
	return values
}
