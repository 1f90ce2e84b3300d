package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/eventstest"
)

// changed returns an encoded event with one change.
func changed(t *testing.T, kind lockagent.EventKind, from, to string) []byte {
	t.Helper()
	good := Append(nil, fullRecord(kind))
	bad := bytes.Replace(good, []byte(from), []byte(to), 1)
	if bytes.Equal(bad, good) {
		t.Fatalf("%q is not in %s", from, good)
	}
	return bad
}

// TestLaterVersion passes what this version does not know through the decoder and back.
func TestLaterVersion(t *testing.T) {
	full := fullRecord(lockagent.EventGranted)
	but := func(change func(*Record)) Record {
		r := full
		change(&r)
		return r
	}
	same := but(func(*Record) {})
	for name, test := range map[string]struct {
		from, to string
		want     Record // but for its Raw
	}{
		"Attribute":      {`"data":{`, `"colour":"red","data":{`, same},
		"Field":          {`"data":{`, `"data":{"shape":[1,{"a":null}],`, same},
		"FieldOfReset":   {`"reset":{`, `"reset":{"depth":1.5e300,`, same},
		"FieldOfGrace":   {`"grace":{`, `"grace":{"depth":[],`, same},
		"FieldOfProcess": {`"process":{`, `"process":{"uid":0,`, same},
		"FieldOfWho":     {`"who":{`, `"who":{"uid":0,`, same},
		"FieldOfFollows": {`"follows":{`, `"follows":{"host":true,`, same},
		"DroppedKind":    {`"dropped":{`, `"dropped":{"upgraded":7,`, same},
		"OtherCase":      {`"owner"`, `"Owner"`, but(func(r *Record) { r.Owner = "" })},
		"Reason":         {`"denied"`, `"bored"`, but(func(r *Record) { r.Reason = lockagent.LostUnknown })},
		"How":            {`"handoff"`, `"magic"`, but(func(r *Record) { r.How = 0 })},
		"Kind":           {`lock.granted.v1`, `lock.upgraded.v1`, but(func(r *Record) { r.Kind = 0 })},
		"KindOfOther":    {`lock.granted.v1`, `daemon.moved.v1`, but(func(r *Record) { r.Kind = 0 })},
		"Version": {`lock.granted.v1`, `lock.granted.v2`, Record{
			Event: lockagent.Event{Agent: full.Agent, Time: full.Time, Lock: full.Lock, TraceParent: full.TraceParent},
			Epoch: full.Epoch, Seq: full.Seq, OtherVersion: true,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			text := changed(t, lockagent.EventGranted, test.from, test.to)
			want := test.want
			want.Raw = string(text)
			got, err := Decode(text)
			if err != nil || !got.Equal(&want) {
				t.Errorf("%s\ngot  %+v, %v\nwant %+v", text, got, err, want)
			}
			if again := Append(nil, got); !bytes.Equal(again, text) {
				t.Errorf("got  %s\nwant %s", again, text)
			}
		})
	}
	t.Run("Lines", func(t *testing.T) {
		spread := strings.ReplaceAll(string(changed(t, lockagent.EventGranted, `"data":{`, `"data":{"shape":1,`)), `,"`,
			",\r\n\t\"")
		got, err := Decode([]byte("\n" + spread + "\n"))
		if err != nil || strings.ContainsAny(got.Raw, "\r\n") {
			t.Fatalf("got %q, %v", got.Raw, err)
		}
		if again, err := Decode([]byte(got.Raw)); err != nil || !again.Equal(&got) {
			t.Errorf("got %+v, %v", again, err)
		}
	})
}

// TestOrderOfAttributes puts the data in front of the type that says what it means.
func TestOrderOfAttributes(t *testing.T) {
	front := func(kind, data string) []byte {
		return []byte(
			`{"data":` + data + `,"type":"` + kind + `","source":"/lockagent/agent/a","id":"3:9","specversion":"1.0"}`,
		)
	}
	want := Record{
		Event: lockagent.Event{Kind: lockagent.EventReleased, Agent: "a", Lock: "x", Count: 2}, Epoch: 3, Seq: 9,
	}
	if got, err := Decode(front("io.lockagent.lock.released.v1", `{"count":2,"lock":"x"}`)); err != nil ||
		!got.Equal(&want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := Decode(front("io.lockagent.lock.released.v1", `{"lock":"x"}`)); err == nil {
		t.Errorf("without a count: got %+v", got)
	}
	if got, err := Decode(front("io.lockagent.lock.released.v2", `[{"count":{}}]`)); err != nil || got.Seq != 9 ||
		got.Raw == "" {
		t.Errorf("another version: got %+v, %v", got, err)
	}
}

func TestNullIsLeftOut(t *testing.T) {
	text := changed(t, lockagent.EventReleased, `"owner":"worker-7"`, `"owner":null`)
	want := fullRecord(lockagent.EventReleased)
	want.Owner = ""
	if got, err := Decode(text); err != nil || !got.Equal(&want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestAttributesOfOthers takes what other programs may add to an event.
func TestAttributesOfOthers(t *testing.T) {
	want := fullRecord(lockagent.EventGranted)
	for _, attribute := range []string{
		`"datacontenttype":"application/json"`, `"sequence":"0000000003-0000000000000009"`, `"sequence":"3-9"`,
		`"sequence":null`,
	} {
		text := changed(t, lockagent.EventGranted, `"data":{`, attribute+`,"data":{`)
		if got, err := Decode(text); err != nil || !got.Equal(&want) {
			t.Errorf("%s: got %+v, %v", attribute, got, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, test := range map[string]struct{ from, to, why string }{
		"NoJSON":           {`{"spec`, `"spec`, `byte 0: string stands where an event is wanted`},
		"Text":             {`{"spec`, `hello {"spec`, `byte 0: 'h' stands where an event is wanted`},
		"TrailingText":     {`}}}`, `}}}}`, `invalid character '}'`},
		"Unfinished":       {`}}}`, `}}`, `unexpected EOF`},
		"Version":          {`"specversion":"1.0"`, `"specversion":"0.3"`, "specversion"},
		"ContentType":      {`"data":{`, `"datacontenttype":"text/xml","data":{`, "datacontenttype"},
		"Type":             {`io.lockagent.lock`, `com.example.lock`, "type"},
		"NoType":           {`"type"`, `"typ"`, "type"},
		"Source":           {`"/lockagent/agent/`, `"/lockagent/`, "source"},
		"Agent":            {`/agent/3f`, `/agent/3/f`, "source"},
		"NoID":             {`"id"`, `"di"`, `id "" is not <epoch>:<sequence>`},
		"IDWithAgent":      {`"id":"`, `"id":"a:`, "is not <epoch>:<sequence>"},
		"IDWithNoEpoch":    {`"id":"3:`, `"id":"`, "is not <epoch>:<sequence>"},
		"EpochOfZero":      {`"id":"3:`, `"id":"0:`, "is not <epoch>:<sequence>"},
		"SequenceOfZero":   {`"id":"3:9"`, `"id":"3:0"`, "is not <epoch>:<sequence>"},
		"PaddedID":         {`"id":"3:9"`, `"id":"3:09"`, "is not <epoch>:<sequence>"},
		"SignedID":         {`"id":"3:9"`, `"id":"3:+9"`, "is not <epoch>:<sequence>"},
		"EpochTooGreat":    {`"id":"3:`, `"id":"10000000000:`, "is not <epoch>:<sequence>"},
		"SequenceTooGreat": {`"id":"3:9"`, `"id":"3:10000000000000000"`, "is not <epoch>:<sequence>"},
		"OtherSequence":    {`"data":{`, `"sequence":"3-8","data":{`, `sequence is "3-8", but id is "3:9"`},
		"OtherEpoch":       {`"data":{`, `"sequence":"4-9","data":{`, `sequence is "4-9", but id is "3:9"`},
		"BadSequence":      {`"data":{`, `"sequence":"9","data":{`, `sequence is "9"`},
		"Time":             {`2026-11-21T`, `2026-13-21T`, "time"},
		"Day":              {`2026-11-21T`, `2026-11-31T`, "time"},
		"TimeOutOfRange":   {`2026-11-21T02:03:04.000005Z`, `9999-12-31T23:59:59-01:00`, "years 0 to 9999"},
		"Subject":          {`"subject":"billing`, `"subject":"shipping`, "is not the lock"},
		"NoData":           {`"data":{`, `"date":{`, "no data"},
		"NullData":         {`"data":{`, `"data":null,"date":{`, "no data"},
		"DataNoObject":     {`"data":{`, `"data":1,"date":{`, "an object is wanted"},
		"Twice":            {`"owner":`, `"owner":"x","owner":`, `duplicate object member name "owner"`},
		"TwiceEscaped":     {`"owner":`, `"\u006fwner":"x","owner":`, `duplicate object member name "owner"`},
		"AttributeTwice":   {`"id":`, `"id":"x","id":`, `duplicate object member name "id"`},
		"ShortSum":         {`"sum":"0f1e2d3c4b5a6978"`, `"sum":"f1e2d3c4b5a6978"`, "16 hexadecimal digits"},
		"LongSum":          {`"sum":"0`, `"sum":"00`, "16 hexadecimal digits"},
		"SumInUpperCase":   {`"sum":"0f`, `"sum":"0F`, "16 hexadecimal digits"},
		"SumThatIsANumber": {`"sum":"0f1e2d3c4b5a6978"`, `"sum":7`, "sum"},
		"NoCount":          {`"count":13`, `"counts":13`, "no count"},
		"NullCount":        {`"count":13`, `"count":null`, "no count"},
		"TextForNumber":    {`"request":11`, `"request":"11"`, `request: string stands where a number is wanted`},
		"NumberForText":    {`"owner":"worker-7"`, `"owner":7`, `owner: number stands where a string is wanted`},
		"NumberForBool":    {`"fixed":true`, `"fixed":1`, `fixed: number stands where true or false is wanted`},
		"Fraction":         {`"request":11`, `"request":1.5`, "the number 1.5 is no integer"},
		"Tiny":             {`"request":11`, `"request":1e-9999999999`, `out of range`},
		"Huge":             {`"request":11`, `"request":1e9999999999`, `out of range`},
		"TooGreat":         {`"request":11`, `"request":18446744073709551616`, `out of range`},
		"Duration":         {`"waited_us":15`, `"waited_us":9223372036854775807`, "out of range"},
		"NegativeToken":    {`"token":`, `"token":-`, "out of range"},
		"Drops":            {`"granted":3`, `"granted":4294967296`, "out of range"},
		"NotUTF8":          {`worker-7`, "worker-\xff", `invalid UTF-8`},
		"NotUTF8Unknown":   {`"data":{`, "\"x\":\"\\n\xc3\",\"data\":{", `invalid UTF-8`},
		"RollNoList":       {`"roll":[`, `"roll":7,"list":[`, `grace: roll: `},
		"RollOfNumbers":    {`"roll":[`, `"roll":[7,`, `grace: roll: number stands where a string is wanted`},
		"RollTwice":        {`"roll":[`, `"roll":[],"roll":[`, `duplicate object member name "roll"`},
		"Deep":             {`"data":{`, `"x":` + strings.Repeat("[", 10_002) + `,"data":{`, `max depth`},
	} {
		t.Run(name, func(t *testing.T) {
			text := changed(t, lockagent.EventGranted, test.from, test.to)
			if r, err := Decode(text); err == nil || r != (Record{}) || !strings.Contains(err.Error(), test.why) {
				t.Errorf("got %+v, %v; want %q", r, err, test.why)
			}
		})
	}
	t.Run("Cut", func(t *testing.T) {
		text := Append(nil, fullRecord(lockagent.EventGranted))
		for i := range text {
			if r, err := Decode(text[:i]); err == nil {
				t.Errorf("%s: got %+v", text[:i], r)
			}
		}
	})
}

// batchOf encodes records as one message.
func batchOf(records []Record) []byte {
	b := []byte{'['}
	for i, r := range records {
		if i > 0 {
			b = append(b, ',')
		}
		b = Append(b, r)
	}
	return append(b, ']')
}

func TestDecodeMessage(t *testing.T) {
	var all []Record
	for i, kind := range lockagent.EventKinds() {
		r := fullRecord(kind)
		r.Seq = uint64(i) + 1
		all = append(all, r)
	}
	batch := batchOf(all)
	var indented bytes.Buffer
	if err := json.Indent(&indented, batch, "", "\t"); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		contentType string
		data        []byte
		want        []Record
		why         string
	}{
		"One":             {ContentType, Append(nil, all[0]), all[:1], ""},
		"OneWithNoType":   {"", Append(nil, all[0]), all[:1], ""},
		"Parameters":      {"Application/CloudEvents+JSON; charset=UTF-8", Append(nil, all[0]), all[:1], ""},
		"Batch":           {BatchContentType, batch, all, ""},
		"BatchParameters": {BatchContentType + ";charset=utf-8", batch, all, ""},
		"Indented":        {BatchContentType, indented.Bytes(), all, ""},
		"BatchOfOne":      {BatchContentType, batchOf(all[:1]), all[:1], ""},
		"EmptyBatch":      {BatchContentType, []byte(" [ ] "), nil, ""},
		"BatchAsOne":      {ContentType, batch, nil, "an event is wanted"},
		"OneAsBatch":      {BatchContentType, Append(nil, all[0]), nil, "a batch of events is wanted"},
		"OtherType":       {"application/json", Append(nil, all[0]), nil, `content type "application/json"`},
		"Unfinished":      {BatchContentType, batch[:len(batch)-1], all, `unexpected EOF`},
		"Trailing":        {BatchContentType, append(bytes.Clone(batch), ','), all, "invalid character ','"},
		"BadSecond": {
			BatchContentType, bytes.Replace(batch, []byte(`"3:2"`), []byte(`"3"`), 1), all[:1],
			"event 2 of the batch: events: decode: id",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []Record
			err := DecodeMessage(test.contentType, test.data, func(r Record) error {
				got = append(got, r)
				return nil
			})
			if !slices.EqualFunc(got, test.want, equal) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
			if test.why == "" && err != nil || test.why != "" &&
				(err == nil || !strings.Contains(err.Error(), test.why)) {
				t.Errorf("got %v, want %q", err, test.why)
			}
		})
	}
	t.Run("VisitEndsIt", func(t *testing.T) {
		n := 0
		err := DecodeMessage(BatchContentType, batch, func(Record) error {
			n++
			return errStop
		})
		if !errors.Is(err, errStop) || n != 1 {
			t.Errorf("got %v after %d", err, n)
		}
	})
}

// TestDecodedTextsAreCopies changes the text after it was decoded.
func TestDecodedTextsAreCopies(t *testing.T) {
	want := fullRecord(lockagent.EventGranted)
	text := Append(nil, want)
	got, err := Decode(text)
	clear(text)
	if err != nil || !got.Equal(&want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestDecodeAllocatesLittle(t *testing.T) {
	r := fullRecord(lockagent.EventGranted)
	r.TraceParent, r.Err, r.Grace = "", "", nil // which come once
	text := Append(nil, r)
	allocations := func() float64 {
		d := newDecoder()
		return testing.AllocsPerRun(100, func() {
			if err := d.decode(text, &r); err != nil {
				t.Fatal(err)
			}
		})
	}
	// Two texts can share a slot of the interner, in one of a hundred.
	if n := min(allocations(), allocations(), allocations(), allocations()); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestInternerIsBounded reads more texts than the interner has room for.
func TestInternerIsBounded(t *testing.T) {
	in := newInterner()
	for i := range 10 * internSlots {
		text := time.Duration(i).String()
		if got := in.text([]byte(text)); got != text {
			t.Fatalf("got %q, want %q", got, text)
		}
	}
	long := strings.Repeat("x", internBytes+1)
	if got := in.text([]byte(long)); got != long {
		t.Errorf("got %q", got)
	}
	for _, text := range in.slots {
		if len(text) > internBytes {
			t.Errorf("it keeps %d bytes", len(text))
		}
	}
}

func benchmarkRecords() map[string]Record {
	return map[string]Record{"typical": typicalRecord(9), "full": fullRecord(lockagent.EventGranted)}
}

func BenchmarkAppend(b *testing.B) {
	for name, r := range benchmarkRecords() {
		b.Run(name, func(b *testing.B) {
			var text []byte
			b.ReportAllocs()
			for b.Loop() {
				text = Append(text[:0], r)
			}
			b.SetBytes(int64(len(text)))
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, r := range benchmarkRecords() {
		b.Run(name, func(b *testing.B) {
			text, d := Append(nil, r), newDecoder()
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if err := d.decode(text, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("scan", func(b *testing.B) {
		// What reading each byte costs, to compare with.
		text, sum := Append(nil, typicalRecord(9)), byte(0)
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			for _, c := range text {
				sum += c
			}
		}
		runtime.KeepAlive(sum)
	})
	all := typicalHolds(100)
	for name, text := range map[string][]byte{"batch": batchOf(all), "table": AppendBatch(nil, all)} {
		b.Run(name, func(b *testing.B) {
			d, n := newDecoder(), 0
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				var err error
				if all, err = d.batch(all[:0], BatchContentType, text); err != nil {
					b.Fatal(err)
				}
				n += len(all)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/record")
		})
	}
}

// typicalRecord is what most records of a busy log are like.
func typicalRecord(seq uint64) Record {
	return Record{Event: eventstest.Typical(seq), Epoch: 3, Seq: seq}
}

var errStop = errors.New("enough")
