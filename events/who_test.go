package events

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// holdsOf returns holds that follow each other, one of each process.
func holdsOf(all ...lockagent.Who) (records []Record) {
	for i, w := range all {
		r := goldenHolds()[0]
		r.Seq, r.Token, r.Who = r.Seq+uint64(i), r.Token+lockagent.Token(i), w
		records = append(records, r)
	}
	return records
}

// A table says once who has made all its holds. Holds of different processes are in no table together.
func TestTablesOfWho(t *testing.T) {
	ann := lockagent.Process{Host: "db3", Program: "backup.sh", PID: 1, User: "ann", Command: `backup.sh "x"`}.Who()
	bob := lockagent.Process{Host: "db3", Program: "backup.sh", PID: 2, User: "bob"}.Who()
	var none lockagent.Who
	for _, test := range []struct {
		whos         []lockagent.Who
		tables, said int
	}{
		{[]lockagent.Who{ann, ann, ann}, 1, 1},
		{[]lockagent.Who{ann, ann, bob, bob, none, none}, 3, 2},
		{[]lockagent.Who{ann, bob, ann}, 0, 3},
		{[]lockagent.Who{none, none}, 1, 0},
	} {
		want := holdsOf(test.whos...)
		text := AppendBatch(nil, want)
		if n := bytes.Count(text, []byte(wire.TableType)); n != test.tables {
			t.Errorf("%v: %d tables, want %d", test.whos, n, test.tables)
		}
		if n := bytes.Count(text, []byte(`"who":`)); n != test.said {
			t.Errorf("%v: said %d times, want %d", test.whos, n, test.said)
		}
		var got []Record
		err := DecodeMessage(BatchContentType, text, func(r Record) error {
			got = append(got, r)
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
	}
	text := changedTable(t, `"columns":[`, `"columns":["who",`)
	if err := DecodeMessage(BatchContentType, text, func(Record) error { return nil }); err == nil ||
		!strings.Contains(err.Error(), `"who" cannot be a column`) {
		t.Error(err)
	}
}

// A text that comes again is read once. That it has something unknown is seen each time.
func TestWhoIsReadAgain(t *testing.T) {
	d := newDecoder()
	for _, says := range []string{
		`{"pid":7}`, `{"pid":7}`, `{"pid":8}`, `{"pid":7,"uid":0}`, `{"pid":7,"uid":0}`, `{}`, `{}`, `null`,
		`{"pid":7}`,
	} {
		text := []byte(
			`{"specversion":"1.0","id":"1:1","source":"/lockagent/agent/a","type":"io.lockagent.lock.queued.v1",` +
				`"data":{"who":` + says + `}}`,
		)
		var r Record
		if err := d.decode(text, &r); err != nil {
			t.Fatalf("%s: %v", says, err)
		}
		var want struct{ PID int }
		if err := json.Unmarshal([]byte(says), &want); err != nil {
			t.Fatal(err)
		}
		if got := r.Who.Process(); got != (lockagent.Process{PID: want.PID}) ||
			(r.Raw != "") != strings.Contains(says, "uid") {
			t.Errorf("%s: got %+v, raw %q", says, got, r.Raw)
		}
	}
	for _, wrong := range []string{`7`, `[]`, `{"pid":7,"pid":7}`, `{"pid":"x"}`} {
		text := []byte(
			`{"specversion":"1.0","id":"1:1","source":"/lockagent/agent/a","type":"io.lockagent.lock.queued.v1",` +
				`"data":{"who":` + wrong + `}}`,
		)
		for range 2 {
			if err := d.decode(text, new(Record)); err == nil || !strings.Contains(err.Error(), "who") {
				t.Errorf("%s: %v", wrong, err)
			}
		}
	}
}

// Who it was is read without memory when it comes again. Of two processes one may take the slot of the other.
func TestWhoIsReadWithoutMemory(t *testing.T) {
	one := lockagent.Process{Host: "db3", PID: 1}.Who()
	records := holdsOf(one, one, one, one)
	for i := range records {
		records[i].Lease += time.Duration(i) * time.Second // so they are in no table
	}
	text := AppendBatch(nil, records)
	d := newDecoder()
	read := func() {
		var out []Record
		d.message.read(text)
		d.message.open('[', "a batch")
		for d.message.more() {
			out = d.event(d.records[:0], true)
			d.records = out
		}
		if err := d.failure(); err != nil || len(out) != 1 || out[0].Who.IsZero() {
			t.Fatal(err, out)
		}
	}
	read()
	if n := testing.AllocsPerRun(100, read); n > 0 {
		t.Errorf("%v allocations to read %d records", n, len(records))
	}
}
