package queue

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// TestRowSize makes tables with the largest numbers, and owners whose bytes take six.
func TestRowSize(t *testing.T) {
	const most = math.MaxInt64
	for _, owner := range []string{"", "\x01", strings.Repeat("\x01", 100)} {
		e := lockagent.Event{
			Kind: lockagent.EventHeld, Time: time.Unix(wire.LastSecond, 999_999_999), Lock: "a", Owner: lockagent.Owner(owner),
			Request: math.MaxUint64, Tenure: math.MaxUint64,
			Token: math.MaxUint64, How: lockagent.ByHandOff, Waited: math.MinInt64, Held: math.MinInt64,
			StoreTime: math.MinInt64, Until: math.MinInt64,
			Confirmed: math.MinInt64, Returned: math.MinInt64,
		}
		p := NewPacker("me", 1, "lockagent.v1")
		p.Last = most
		m := p.Pack(itemsOf(slices.Repeat([]lockagent.Event{e}, wire.MaxRecords)...), events.Drops{}, 0, time.Time{})[0]
		text := string(p.Encode(nil, m))
		if strings.Count(text, wire.TableType) != 1 || len(text) > 2*m.Size || len(text) > 2*maxBatchBytes {
			t.Errorf(
				"owners of %d bytes: %d bytes for %d records, and the size is said to be %d", len(owner), len(text), len(m.Items),
				m.Size,
			)
		}
		if len(owner) < 2 && len(m.Items) != wire.MaxRecords {
			t.Errorf("owners of %d bytes: %d records", len(owner), len(m.Items))
		}
	}
}

// TestSizeOfMixture: what looks like a table, but is none, counts as events.
func TestSizeOfMixture(t *testing.T) {
	for name, change := range map[string]func(*lockagent.Event){
		"Lease": func(e *lockagent.Event) { e.Lease = time.Second },
		"Kind":  func(e *lockagent.Event) { e.Kind = lockagent.EventGranted },
	} {
		all := make([]lockagent.Event, 3*wire.MaxRecords)
		for i := range all {
			all[i] = eventstest.Typical(1)
			all[i].Confirmed = all[i].StoreTime
			if i%2 == 1 {
				change(&all[i])
			}
		}
		p := NewPacker("me", 1, "lockagent.v1")
		p.Last = 1
		for _, m := range p.Pack(itemsOf(all...), events.Drops{}, 0, time.Time{}) {
			size := 0
			for _, it := range m.Items {
				size += it.Size()
			}
			if m.Size != size || len(m.Items) < 2 {
				t.Errorf("%s: %d records have the size %d, want %d", name, len(m.Items), m.Size, size)
			}
		}
	}
}

// TestAgentsWriteAsAppendBatch: the packer and AppendBatch say the same of random holds.
func TestAgentsWriteAsAppendBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := make([]events.Record, rapid.IntRange(2, 20).Draw(t, "holds"))
		all := make([]lockagent.Event, len(want))
		for i := range want {
			e := eventstest.Typical(uint64(i))
			e.Owner = lockagent.Owner(rapid.String().Draw(t, "owner"))
			e.Who = lockagent.Process{PID: rapid.IntRange(0, 2).Draw(t, "pid")}.Who()
			e.Held = time.Duration(rapid.Int64Range(-9e15, 9e15).Draw(t, "held")) * time.Microsecond
			if e.Confirmed = e.StoreTime; rapid.Bool().Draw(t, "renewed") {
				e.Confirmed++
			}
			want[i], all[i] = events.Record{Event: e, Epoch: 3, Seq: uint64(i) + 5}, e
		}
		p := NewPacker(eventstest.Agent, 3, "p")
		p.Last = 4
		text := p.Encode(nil, p.Pack(itemsOf(all...), events.Drops{}, 0, time.Time{})[0])
		if batch := events.AppendBatch(nil, want); string(text) != string(batch) {
			t.Fatalf("the agent sends %s\nAppendBatch says %s", text, batch)
		}
	})
}

// BenchmarkPack measures how records become messages: events, or tables.
func BenchmarkPack(b *testing.B) {
	for name, renewed := range map[string]lockagent.StoreTime{"Events": 1, "Tables": 0} {
		b.Run(name, func(b *testing.B) {
			p := NewPacker(eventstest.Agent, 1, "lockagent.v1")
			var all []lockagent.Event
			for i := range lockagent.StoreTime(1000) {
				e := eventstest.Typical(uint64(i))
				e.StoreTime += i
				e.Confirmed = e.StoreTime + renewed
				all = append(all, e)
			}
			items := itemsOf(all...)
			b.ReportAllocs()
			bytes := 0
			var body []byte
			for b.Loop() {
				for _, m := range p.Pack(items, events.Drops{}, 0, time.Time{}) {
					body = p.Encode(body[:0], m)
					bytes += len(body)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(items)), "ns/record")
			b.ReportMetric(float64(bytes)/float64(b.N)/float64(len(items)), "B/record")
		})
	}
}
