package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
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
		var facts []lockagent.Event
		for _, r := range want {
			facts = append(facts, r.Event)
		}
		p := newPacker(testAgent, want[0].Epoch, "p")
		p.last = want[0].Seq - 1
		for name, text := range map[string][]byte{"AppendBatch": AppendBatch(nil, want), "Packer": p.encode(nil, p.pack(itemsOf(facts...), Drops{}, 0, time.Time{})[0])} {
			if n := bytes.Count(text, []byte(tableType)); n != test.tables {
				t.Errorf("%s of %v: %d tables, want %d", name, test.whos, n, test.tables)
			}
			if n := bytes.Count(text, []byte(`"who":`)); n != test.said {
				t.Errorf("%s of %v: said %d times, want %d", name, test.whos, n, test.said)
			}
			var got []Record
			err := DecodeMessage(BatchContentType, text, func(r Record) error {
				got = append(got, r)
				return nil
			})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: got %+v, %v\nwant %+v", name, got, err, want)
			}
		}
	}
	text := changedTable(t, `"columns":[`, `"columns":["who",`)
	if err := DecodeMessage(BatchContentType, text, func(Record) error { return nil }); err == nil || !strings.Contains(err.Error(), `"who" cannot be a column`) {
		t.Error(err)
	}
}

// A text that comes again is read once. That it has something unknown is seen each time.
func TestWhoIsReadAgain(t *testing.T) {
	d := newDecoder()
	for _, says := range []string{`{"pid":7}`, `{"pid":7}`, `{"pid":8}`, `{"pid":7,"uid":0}`, `{"pid":7,"uid":0}`, `{}`, `{}`, `null`, `{"pid":7}`} {
		text := []byte(`{"specversion":"1.0","id":"1:1","source":"/lockagent/agent/a","type":"io.lockagent.lock.queued.v1","data":{"who":` + says + `}}`)
		var r Record
		if err := d.decode(text, &r); err != nil {
			t.Fatalf("%s: %v", says, err)
		}
		var want struct{ PID int }
		if err := json.Unmarshal([]byte(says), &want); err != nil {
			t.Fatal(err)
		}
		if got := r.Who.Process(); got != (lockagent.Process{PID: want.PID}) || (r.Raw != "") != strings.Contains(says, "uid") {
			t.Errorf("%s: got %+v, raw %q", says, got, r.Raw)
		}
	}
	for _, wrong := range []string{`7`, `[]`, `{"pid":7,"pid":7}`, `{"pid":"x"}`} {
		text := []byte(`{"specversion":"1.0","id":"1:1","source":"/lockagent/agent/a","type":"io.lockagent.lock.queued.v1","data":{"who":` + wrong + `}}`)
		for range 2 {
			if err := d.decode(text, new(Record)); err == nil || !strings.Contains(err.Error(), "who") {
				t.Errorf("%s: %v", wrong, err)
			}
		}
	}
}

// Facts of many processes are queued, packed and read without memory for each.
func TestWhoNeedsNoMemory(t *testing.T) {
	var whos []lockagent.Who
	for pid := range 4 {
		whos = append(whos, lockagent.Process{Host: "db3", PID: pid + 1}.Who())
	}
	q, i := newQueue(1000, time.Second), 0
	cycle := func() {
		i++
		grant := lockagent.Event{Kind: lockagent.EventGranted, Lock: "orders", Request: uint64(i), Who: whos[i%len(whos)]}
		q.add(0, &grant)
		q.add(0, &lockagent.Event{Kind: lockagent.EventReleased, Lock: "orders", Request: uint64(i), Who: whos[i%len(whos)]})
		q.gone(q.take(time.Hour, 1, nil))
	}
	cycle()
	if n := testing.AllocsPerRun(100, cycle); n > 1 { // the slice that take returns
		t.Errorf("%v allocations for a hold", n)
	}
	records := holdsOf(whos...)
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

// The fold keeps who has a lock, who waits, and for whom. The report and its JSON say it.
func TestFoldTellsWho(t *testing.T) {
	daemon := lockagent.Process{Host: "db3", Program: "lockagent", PID: 1}
	backup := lockagent.Process{Host: "db3", Program: "backup.sh", PID: 4711, User: "root", Command: "backup.sh --full"}
	fold := NewFold(FoldConfig{})
	for i, e := range []lockagent.Event{
		{Kind: lockagent.EventAgentStarted, Process: daemon},
		{Kind: lockagent.EventGranted, Lock: "a", Owner: "0/KK5FN", Request: 1, Tenure: 1, Token: 1, Count: 1, Who: backup.Who()},
		{Kind: lockagent.EventQueued, Lock: "a", Owner: "d/2", Request: 2, Holder: "0/KK5FN", Who: daemon.Who()},
	} {
		e.Agent = "d"
		fold.Apply(Record{Event: e, Epoch: 1, Seq: uint64(i) + 1})
	}
	for l := range fold.Locks() {
		h, w := l.Holders[0], l.Waiters[0]
		if h.Who.Process() != backup || w.Who.Process() != daemon || w.Behind.Who != h.Who {
			t.Errorf("got %+v, %+v, %+v", h, w, w.Behind)
		}
		if got, want := h.who(), "backup.sh (pid 4711, root@db3), token 1, agent d, lockagent on db3, pid 1"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, want := fmt.Sprint(w.Behind), "backup.sh (pid 4711, root@db3) of agent d, lockagent on db3, pid 1"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, want := WhoText(w.Who, w.Owner, w.Agent, h.Process), "/2"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		text, err := json.Marshal(&l)
		var back LockState
		if err != nil || json.Unmarshal(text, &back) != nil || back.Holders[0].Who != h.Who || back.Waiters[0].Who != w.Who || back.Waiters[0].Behind.Who != h.Who {
			t.Errorf("%s, %v: %+v", text, err, back)
		}
		if want := `"who":{"host":"db3","program":"backup.sh","pid":4711,"user":"root","command":"backup.sh --full"}`; !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s does not have %s", text, want)
		}
		h.Who = Who{}
		if text, err := json.Marshal(&h); err != nil || bytes.Contains(text, []byte(`"who"`)) {
			t.Errorf("%s, %v", text, err)
		}
	}
}
