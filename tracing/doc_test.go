package tracing

import (
	"errors"
	"os"
	"regexp"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// emitted makes every span and metric that there is.
func emitted(t *testing.T) *rig {
	r := newRig(t)
	wholeLife(Recorder(nil, r.Config))
	Sending("LOCKAGENT", r.Config)(2, 3)(errors.New("no route"))
	t.Cleanup(Publishing(func() PublishStats { return PublishStats{} }, r.Config))
	ctx, _ := r.caller()
	s := Store(&canned{}, r.Config)
	for _, call := range calls {
		if _, err := call.do(t, ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestDocumentationListsEverything(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`\s*\n//\s*|\s+`).ReplaceAllString(string(doc), " ")
	lists := func(what string) bool {
		return regexp.MustCompile(`(^|[ ,;])` + regexp.QuoteMeta(what) + `($|[ ,:;.])`).MatchString(text)
	}
	r := emitted(t)
	metrics := r.collect()
	if len(metrics) != 18 {
		t.Errorf("%d metrics were emitted, want all 18", len(metrics))
	}
	for _, m := range metrics {
		kind := "histogram"
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
			kind = "up-down counter"
			if sum.IsMonotonic {
				kind = "counter"
			}
		}
		if entry := m.Name + " " + kind + ", " + m.Unit; !lists(entry) {
			t.Errorf("doc.go does not list the metric %q", entry)
		}
		if m.Description == "" {
			t.Errorf("%s has no description", m.Name)
		}
		for _, value := range attributeValues(m) {
			if m.Name != "lockagent.events.recorded" && !lists(value) {
				t.Errorf("doc.go does not list %q of %s", value, m.Name)
			}
		}
	}
	for _, s := range r.spans.GetSpans() {
		if s.Name != "caller" && !lists(s.Name) {
			t.Errorf("doc.go does not list the span %q", s.Name)
		}
		for _, kv := range s.Attributes {
			if !lists(string(kv.Key)) {
				t.Errorf("doc.go does not list the attribute %s", kv.Key)
			}
		}
	}
}

func TestNoMetricHasANameOfALockOrAnOwner(t *testing.T) {
	allowed := map[string]bool{"outcome": true, "reason": true, "kind": true, "operation": true, "how": true}
	checked := 0
	for _, m := range emitted(t).collect() {
		for _, kv := range attributesOf(m) {
			checked++
			if !allowed[string(kv.Key)] {
				t.Errorf("%s has the attribute %s", m.Name, kv.Key)
			}
		}
	}
	if checked == 0 {
		t.Error("no attributes were checked")
	}
}

func attributeValues(m metricdata.Metrics) []string {
	var found []string
	for _, kv := range attributesOf(m) {
		found = append(found, kv.Value.String())
	}
	return found
}

func attributesOf(m metricdata.Metrics) []attribute.KeyValue {
	var found []attribute.KeyValue
	switch data := m.Data.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			found = append(found, p.Attributes.ToSlice()...)
		}
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			found = append(found, p.Attributes.ToSlice()...)
		}
	}
	return found
}
