package events

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/binding/format"
	ce "github.com/cloudevents/sdk-go/v2/event"
	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// drawTraced draws a record whose trace context is one.
func drawTraced(t *rapid.T) Record {
	r := drawRecord(t)
	r.TraceParent = rapid.StringMatching(`(00-[0-9a-f]{32}-[0-9a-f]{16}-0[01])?`).Draw(t, "W3C traceparent")
	return r
}

// checkUnderstood holds what the SDK reads in an event against the record.
func checkUnderstood(t *rapid.T, e *ce.Event, r Record) {
	if err := e.Validate(); err != nil {
		t.Fatalf("%s: %v", Append(nil, r), err)
	}
	subject := string(r.Lock)
	if !wire.Attribute(subject) {
		subject = ""
	}
	if e.SpecVersion() != "1.0" || e.ID() != string(wire.AppendID(nil, r.Epoch, r.Seq)) ||
		e.Source() != "/lockagent/agent/"+string(r.Agent) || e.Type() != wire.TypeOf[r.Kind] ||
		e.Subject() != subject || !e.Time().Equal(r.Time) || e.DataContentType() != "" {
		t.Fatalf("%+v was understood as %v", r, e)
	}
	var extensions map[string]any
	if r.TraceParent != "" {
		extensions = map[string]any{"traceparent": r.TraceParent}
	}
	if !maps.Equal(e.Extensions(), extensions) {
		t.Fatalf("got extensions %v, want %v", e.Extensions(), extensions)
	}
	if want := string(wire.AppendData(nil, &r.Event, r.added(), new(wire.Before))); string(e.Data()) != want {
		t.Fatalf("got data %s, want %s", e.Data(), want)
	}
	// The SDK knows that data without a type is JSON.
	var data struct{ Lock lockagent.Name }
	if err := e.DataAs(&data); err != nil || data.Lock != r.Lock {
		t.Fatalf("got lock %q, %v; want %q", data.Lock, err, r.Lock)
	}
}

// TestCloudEventsSDK holds our encoding and decoding against another implementation of the
// specification, in both directions.
func TestCloudEventsSDK(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawTraced(t)
		var e ce.Event
		if err := format.Unmarshal(ContentType, Append(nil, r), &e); err != nil {
			t.Fatalf("%s: %v", Append(nil, r), err)
		}
		checkUnderstood(t, &e, r)
		theirs, err := format.Marshal(ContentType, &e)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(theirs); err != nil || !got.Equal(&r) {
			t.Fatalf("%s\ngot  %+v, %v\nwant %+v", theirs, got, err, r)
		}
	})
}

// TestCloudEventsSDKOnBatches does the same with batches.
func TestCloudEventsSDKOnBatches(t *testing.T) {
	if format.Lookup(BatchContentType) == nil {
		t.Fatal("the SDK does not know our content type")
	}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(drawTraced), 1, 5).Draw(t, "records")
		var batch []ce.Event
		if err := json.Unmarshal(batchOf(want), &batch); err != nil {
			t.Fatalf("%s: %v", batchOf(want), err)
		}
		if len(batch) != len(want) {
			t.Fatalf("got %d events, want %d", len(batch), len(want))
		}
		for i := range batch {
			checkUnderstood(t, &batch[i], want[i])
		}
		theirs, err := json.Marshal(batch)
		if err != nil {
			t.Fatal(err)
		}
		var got []Record
		err = DecodeMessage(BatchContentType, theirs, func(r Record) error {
			got = append(got, r)
			return nil
		})
		if err != nil || !slices.EqualFunc(got, want, equal) {
			t.Fatalf("%s\ngot  %+v, %v\nwant %+v", theirs, got, err, want)
		}
	})
}

// TestCloudEventsSDKOnUnknownThings: what passes through us is still a CloudEvent.
func TestCloudEventsSDKOnUnknownThings(t *testing.T) {
	text := strings.NewReplacer("lock.granted.v1", "lock.upgraded.v1", `"data":{`, `"colour":"red","data":{"shape":1,`).
		Replace(string(Append(nil, fullRecord(lockagent.EventGranted))))
	r, err := Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var e ce.Event
	if err := format.Unmarshal(ContentType, Append(nil, r), &e); err != nil {
		t.Fatal(err)
	}
	if err := e.Validate(); err != nil || e.Type() != "io.lockagent.lock.upgraded.v1" ||
		e.Extensions()["colour"] != "red" {
		t.Errorf("got %v, %v", e, err)
	}
}
