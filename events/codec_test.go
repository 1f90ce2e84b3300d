package events

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

const testAgent = lockagent.AgentID("3f0c1a52-7b6e-4d7f-9a38-5a1d6f0e2b91")

// fullRecord has every field set, whatever its kind.
func fullRecord(kind lockagent.EventKind) Record {
	return Record{
		Event: lockagent.Event{
			Kind:        kind,
			Agent:       testAgent,
			Time:        time.Date(2026, 11, 21, 2, 3, 4, 5000, time.UTC),
			Lock:        "billing/invoices/42",
			Owner:       "worker-7",
			Request:     11,
			Tenure:      12,
			Token:       lockagent.MaxToken,
			How:         lockagent.ByHandOff,
			Count:       13,
			Waiters:     14,
			Waited:      15 * time.Microsecond,
			Held:        16 * time.Second,
			Lease:       17 * time.Hour,
			Remaining:   -18 * time.Millisecond,
			StoreTime:   1_795_000_000_000_019,
			Until:       1_795_000_000_000_020,
			Incarnation: "run-21",
			Reason:      lockagent.LostDenied,
			Err:         "refused: \"why\"\n",
			Reset:       lockagent.Reset{From: "run-21", To: "run-22", Reason: "emptied", After: 23, Before: 24},
			TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		},
		Epoch: 3,
		Seq:   9,
	}
}

func TestEncoding(t *testing.T) {
	r := Record{
		Event: lockagent.Event{
			Kind: lockagent.EventGranted, Agent: "host-42", Time: time.Date(2026, 11, 21, 2, 3, 4, 5678, time.FixedZone("", 3600)),
			Lock: "orders/42", Owner: "w", Token: 7, How: lockagent.ByStore, Waited: 1500 * time.Nanosecond, StoreTime: 99, Count: 1,
		},
		Epoch: 2,
		Seq:   5,
	}
	const want = `{"specversion":"1.0","id":"host-42:2:5","source":"/lockagent/agent/host-42",` +
		`"type":"io.lockagent.lock.granted.v1","subject":"orders/42","time":"2026-11-21T01:03:04.000005Z",` +
		`"datacontenttype":"application/json","sequence":"0000000002-0000000000000005",` +
		`"data":{"lock":"orders/42","owner":"w","token":7,"how":"store","count":1,"waited_us":1,"store_time_us":99}}`
	if got := string(Append(nil, r)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(Append([]byte("x"), r)); got != "x"+want {
		t.Errorf("appended %s", got)
	}
}

func TestRoundTripOfEveryKind(t *testing.T) {
	for _, kind := range lockagent.EventKinds() {
		t.Run(kind.String(), func(t *testing.T) {
			for _, want := range []Record{
				fullRecord(kind),
				{Event: lockagent.Event{Kind: kind, Agent: "a"}, Epoch: 1, Seq: 1},
			} {
				text := Append(nil, want)
				got, err := Decode(text)
				if err != nil || got != want {
					t.Errorf("%s\ngot  %+v, %v\nwant %+v", text, got, err, want)
				}
			}
		})
	}
}

// TestFullRecordIsFull keeps the tests above honest when a field is added.
func TestFullRecordIsFull(t *testing.T) {
	var check func(name string, v reflect.Value)
	check = func(name string, v reflect.Value) {
		if v.IsZero() {
			t.Errorf("%s is not set", name)
		}
		if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
			for i := range v.NumField() {
				check(name+"."+v.Type().Field(i).Name, v.Field(i))
			}
		}
	}
	check("Event", reflect.ValueOf(fullRecord(lockagent.EventGranted).Event))
}

// lossReasons returns every reason there is.
func lossReasons() (all []lockagent.LossReason) {
	for r := lockagent.LossReason(1); r.String() != "unknown"; r++ {
		all = append(all, r)
	}
	return all
}

// drawRecord draws any record that can be told exactly.
func drawRecord(t *rapid.T) Record {
	text := func(name string) string { return rapid.String().Draw(t, name) }
	us := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(-9e15, 9e15).Draw(t, name)) * time.Microsecond
	}
	at := func(name string) lockagent.StoreTime { return lockagent.StoreTime(rapid.Int64().Draw(t, name)) }
	var when time.Time
	if rapid.Bool().Draw(t, "timed") {
		when = time.UnixMicro(rapid.Int64Range(-62167219200e6, 253402300799e6).Draw(t, "time")).UTC()
	}
	return Record{
		Event: lockagent.Event{
			Kind:        rapid.SampledFrom(lockagent.EventKinds()).Draw(t, "kind"),
			Agent:       lockagent.AgentID(rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "agent")),
			Time:        when,
			Lock:        lockagent.Name(text("lock")),
			Owner:       lockagent.Owner(text("owner")),
			Request:     rapid.Uint64().Draw(t, "request"),
			Tenure:      rapid.Uint64().Draw(t, "tenure"),
			Token:       lockagent.Token(rapid.Uint64().Draw(t, "token")),
			How:         rapid.SampledFrom([]lockagent.How{0, lockagent.ByStore, lockagent.ByHandOff}).Draw(t, "how"),
			Count:       rapid.Int().Draw(t, "count"),
			Waiters:     rapid.Int().Draw(t, "waiters"),
			Waited:      us("waited"),
			Held:        us("held"),
			Lease:       us("lease"),
			Remaining:   us("remaining"),
			StoreTime:   at("store time"),
			Until:       at("until"),
			Incarnation: text("incarnation"),
			Reason:      rapid.SampledFrom(append(lossReasons(), 0)).Draw(t, "reason"),
			Err:         text("err"),
			Reset:       lockagent.Reset{From: text("from"), To: text("to"), Reason: text("why"), After: at("after"), Before: at("before")},
			TraceParent: text("traceparent"),
		},
		Epoch: rapid.Uint64Range(1, maxEpoch).Draw(t, "epoch"),
		Seq:   rapid.Uint64Range(1, maxSeq).Draw(t, "seq"),
	}
}

func TestRoundTripOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawRecord(t)
		text := Append(nil, want)
		if !json.Valid(text) || strings.ContainsAny(string(text), "\n\r") {
			t.Fatalf("not one line of JSON: %s", text)
		}
		got, err := Decode(text)
		if err != nil || got != want {
			t.Fatalf("%s\ngot  %+v, %v\nwant %+v", text, got, err, want)
		}
	})
}

func TestSequenceSortsAsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type place struct{ epoch, seq uint64 }
		draw := rapid.Custom(func(t *rapid.T) place {
			return place{rapid.Uint64Range(1, maxEpoch).Draw(t, "epoch"), rapid.Uint64Range(1, maxSeq).Draw(t, "seq")}
		})
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		less := a.epoch < b.epoch || a.epoch == b.epoch && a.seq < b.seq
		if got := string(appendSequence(nil, a.epoch, a.seq)) < string(appendSequence(nil, b.epoch, b.seq)); got != less {
			t.Fatalf("%v before %v: %v", a, b, got)
		}
	})
}

func TestTextThatIsNotUTF8(t *testing.T) {
	r := fullRecord(lockagent.EventLost)
	r.Err = "a\xffb\xc3"
	got, err := Decode(Append(nil, r))
	if err != nil || got.Err != "a\ufffdb\ufffd" {
		t.Errorf("got %q, %v", got.Err, err)
	}
}

func TestTimesThatHaveNoText(t *testing.T) {
	for _, when := range []time.Time{{}, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)} {
		r := fullRecord(lockagent.EventLost)
		r.Time = when
		got, err := Decode(Append(nil, r))
		if err != nil || !got.Time.IsZero() {
			t.Errorf("%v: got %v, %v", when, got.Time, err)
		}
	}
}

func TestDecodeIgnoresWhatALaterVersionAdds(t *testing.T) {
	want := fullRecord(lockagent.EventGranted)
	text := strings.Replace(string(Append(nil, want)), `"data":{`, `"colour":"red","data":{"shape":[1,{}],`, 1)
	if got, err := Decode([]byte(text)); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := string(Append(nil, fullRecord(lockagent.EventGranted)))
	for name, change := range map[string][2]string{
		"NoJSON":           {`{"spec`, `"spec`},
		"TrailingText":     {`}}}`, `}}}}`},
		"Version":          {`"specversion":"1.0"`, `"specversion":"0.3"`},
		"ContentType":      {`"application/json"`, `"text/xml"`},
		"Type":             {`.granted.v1`, `.granted.v2`},
		"Source":           {`"/lockagent/agent/`, `"/lockagent/`},
		"Agent":            {`/agent/3f`, `/agent/3/f`},
		"ID":               {`:3:9"`, `:3:8"`},
		"Sequence":         {`0000009",`, `0000008",`},
		"UnpaddedSequence": {`"sequence":"0`, `"sequence":"`},
		"NoSequence":       {`"sequence"`, `"sequenc"`},
		"Time":             {`2026-11-21T`, `2026-13-21T`},
		"TimeOutOfRange":   {`2026-11-21T02:03:04.000005Z`, `9999-12-31T23:59:59-01:00`},
		"Subject":          {`"subject":"billing`, `"subject":"shipping`},
		"NoData":           {`"data":{`, `"date":{`},
		"DataNoObject":     {`"data":{`, `"data":1,"date":{`},
		"How":              {`"handoff"`, `"magic"`},
		"Reason":           {`"denied"`, `"bored"`},
		"Duration":         {`"waited_us":15`, `"waited_us":9223372036854775807`},
		"NegativeToken":    {`"token":`, `"token":-`},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(good, change[0], change[1], 1)
			if bad == good {
				t.Fatalf("%q is not in %s", change[0], good)
			}
			if r, err := Decode([]byte(bad)); err == nil || r != (Record{}) {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

// TestCloudEventsSDKUnderstands holds our encoding against another
// implementation of the specification.
func TestCloudEventsSDKUnderstands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		r.TraceParent = rapid.StringMatching(`(00-[0-9a-f]{32}-[0-9a-f]{16}-0[01])?`).Draw(t, "W3C traceparent")
		var e ce.Event
		if err := json.Unmarshal(Append(nil, r), &e); err != nil {
			t.Fatalf("%s: %v", Append(nil, r), err)
		}
		if err := e.Validate(); err != nil {
			t.Fatalf("%s: %v", Append(nil, r), err)
		}
		subject := string(r.Lock)
		if !attribute(subject) {
			subject = ""
		}
		if e.SpecVersion() != "1.0" || e.ID() != string(appendID(nil, r.Agent, r.Epoch, r.Seq)) ||
			e.Source() != "/lockagent/agent/"+string(r.Agent) || e.Type() != typeOf[r.Kind] ||
			e.Subject() != subject || !e.Time().Equal(r.Time) || e.DataContentType() != "application/json" {
			t.Fatalf("%+v was understood as %v", r, e)
		}
		extensions := map[string]any{"sequence": string(appendSequence(nil, r.Epoch, r.Seq))}
		if r.TraceParent != "" {
			extensions["traceparent"] = r.TraceParent
		}
		if !reflect.DeepEqual(e.Extensions(), extensions) {
			t.Fatalf("got extensions %v, want %v", e.Extensions(), extensions)
		}
		if want := string(appendData(nil, &r.Event)); string(e.Data()) != want {
			t.Fatalf("got data %s, want %s", e.Data(), want)
		}
	})
}

func TestSubjectIsLeftOutIfNotAllowed(t *testing.T) {
	for name, want := range map[lockagent.Name]bool{
		"a": true, "a b": true, "é/ü": true, "\U0001f600": true,
		"": false, " ": false, "a\n": false, "\x7f": false, "\u0085": false, "\ufdd0": false, "\ufffe": false, "\U0010ffff": false,
	} {
		r := Record{Event: lockagent.Event{Kind: lockagent.EventQueued, Agent: "a", Lock: name}, Epoch: 1, Seq: 1}
		text := Append(nil, r)
		if got := strings.Contains(string(text), `"subject":`); got != want {
			t.Errorf("%q: %s", name, text)
		}
		if got, err := Decode(text); err != nil || got != r {
			t.Errorf("%q: got %+v, %v", name, got, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, kind := range lockagent.EventKinds() {
		f.Add(Append(nil, fullRecord(kind)))
	}
	f.Add([]byte(`{"specversion":"1.0"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Decode(text)
		if err != nil {
			return
		}
		again, err := Decode(Append(nil, r))
		if err != nil || again != r {
			t.Errorf("%s\ndecodes to %+v\nand then   %+v, %v", text, r, again, err)
		}
	})
}

func TestAppendAllocatesNothing(t *testing.T) {
	r := fullRecord(lockagent.EventGranted)
	b := Append(nil, r)
	if n := testing.AllocsPerRun(100, func() { b = Append(b[:0], r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	r := fullRecord(lockagent.EventGranted)
	var text []byte
	b.ReportAllocs()
	for b.Loop() {
		text = Append(text[:0], r)
	}
	b.SetBytes(int64(len(text)))
}

func BenchmarkDecode(b *testing.B) {
	text := Append(nil, fullRecord(lockagent.EventGranted))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(text); err != nil {
			b.Fatal(err)
		}
	}
}
