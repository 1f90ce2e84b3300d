package natslog

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/queue"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// queuedOf returns what a publisher queues.
func queuedOf(all ...lockagent.Event) []*queue.Item {
	p := unstarted(Config{QueueSize: len(all), Linger: time.Second})
	for _, e := range all {
		p.Record(context.Background(), e)
	}
	return p.queue.Take(time.Hour, len(all), nil)
}

// TestLargestRecord makes a record whose texts are all cut.
func TestLargestRecord(t *testing.T) {
	p := queue.NewPacker("me", 3, "p.q")
	long := strings.Repeat("\x01", 2*wire.MaxText)
	e := lockagent.Event{
		Kind: lockagent.EventRefused, Store: long, Lock: lockagent.Name(long), LockKind: lockagent.LockKind(long),
		Mode: lockagent.Mode(long), Owner: lockagent.Owner(long), Incarnation: long, Permit: lockagent.PermitID(long),
		Holder: long, Operator: long, Err: long,
		Reset:   lockagent.Reset{From: long, To: long, Reason: long, Store: long},
		Process: lockagent.Process{Host: long, Program: long, Version: long, User: long, Command: long}, TraceParent: long,
		Who: lockagent.Process{Host: long, Program: long, Version: long, User: long, Command: long}.Who(),
	}
	m := p.Pack(queuedOf(e), events.Drops{}, 0, time.Time{})[0]
	if bytes := len(p.Encode(nil, m)); queue.MaxMessage-bytes-len(m.TraceParent)-512 < 0 {
		t.Errorf("the message has %d bytes", bytes)
	}
	umlauts := lockagent.Event{
		Kind: lockagent.EventRefused, Owner: lockagent.Owner("x" + strings.Repeat("ü", wire.MaxText)),
	}
	r := recordsIn(t, &p, p.Pack(queuedOf(umlauts), events.Drops{}, 0, time.Time{})[0])[0]
	if want := "x" + strings.Repeat("ü", wire.MaxText/2-1); string(r.Owner) != want {
		t.Errorf("cut to %d bytes, want %d", len(r.Owner), len(want))
	}
}

// TestLongTextsAreNotKept: of a text that is too long the queue keeps what will be sent, and not the rest.
func TestLongTextsAreNotKept(t *testing.T) {
	const long, records = 100_000, 200
	bytes := heapTaken(func() any {
		p := unstarted(Config{QueueSize: records, Linger: time.Second})
		for i := range records {
			p.Record(context.Background(), lockagent.Event{
				Kind: lockagent.EventRequested, Lock: "orders/42", Request: uint64(i + 1),
				Err: strings.Repeat("no reply; ", long/10),
			})
		}
		return p
	})
	if bytes > records*long/10 {
		t.Errorf("%d bytes for %d records with texts of %d", bytes, records, long)
	}
}

// heapTaken returns how many bytes of memory are in use more after fill, as long as what it returns is.
func heapTaken(fill func() any) (bytes int64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := fill()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// recordsIn decodes a message of p.
func recordsIn(t testing.TB, p *queue.Packer, m *queue.Message) []events.Record {
	t.Helper()
	kind := events.ContentType
	if m.Batch() {
		kind = events.BatchContentType
	}
	var all []events.Record
	err := events.DecodeMessage(kind, p.Encode(nil, m), func(r events.Record) error {
		all = append(all, r)
		return nil
	})
	if err != nil || len(all) != len(m.Items) || all[len(all)-1].Seq != m.Last {
		t.Fatalf("message %s: %v; it has %d of %d records, up to %d", m.ID, err, len(all), len(m.Items), m.Last)
	}
	return all
}
