package tracing

import (
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func TestPublishing(t *testing.T) {
	r := newRig(t)
	now := PublishStats{Published: 5, Dropped: 2, Queued: 7}
	stop := Publishing(func() PublishStats { return now }, r.Config)
	want := func(published, dropped, queued int64) {
		t.Helper()
		got := make(map[string]int64)
		for _, m := range r.collect() {
			got[m.Name] = m.Data.(metricdata.Sum[int64]).DataPoints[0].Value
		}
		if len(got) != 3 || got["lockagent.events.published"] != published || got["lockagent.events.dropped"] != dropped ||
			got["lockagent.events.queued"] != queued {
			t.Errorf("collected %v, want %d published, %d dropped, %d queued", got, published, dropped, queued)
		}
	}
	want(5, 2, 7)
	now = PublishStats{Published: 12, Dropped: 2}
	want(12, 2, 0)
	now = PublishStats{Published: 14, Dropped: 2}
	stop()
	now = PublishStats{}
	want(14, 2, 0) // as it was at the end

	Publishing(func() PublishStats { return PublishStats{Published: 1, Queued: 3} }, r.Config)
	want(15, 2, 3) // of both agents
}
