package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// itemsOf makes items of events, as the queue would.
func itemsOf(all ...lockagent.Event) []*Item {
	items := make([]*Item, len(all))
	for i, e := range all {
		items[i] = &Item{facts: 1, Order: uint64(i)}
		items[i].Fact = wire.FactOf(&e)
	}
	return items
}

// unpacked decodes a message of p.
func unpacked(t testing.TB, p *Packer, m *Message) []events.Record {
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

// sketch says of each message its id, its subject without what all have, and its records.
func sketch(t testing.TB, p *Packer, messages []*Message) []string {
	t.Helper()
	var all []string
	for _, m := range messages {
		text := strings.TrimPrefix(m.ID, "me:3:") + " " + strings.TrimPrefix(m.Subject, "p.q.me.")
		for _, r := range unpacked(t, p, m) {
			text += fmt.Sprintf(" %v%d", r.Kind, r.Request)
		}
		if m.TraceParent != "" {
			text += " traced"
		}
		all = append(all, text)
	}
	return all
}

func TestMessages(t *testing.T) {
	p := NewPacker("me", 3, "p.q")
	p.Follows = events.Place{Epoch: 2, Seq: 77}
	started := lockagent.Event{Kind: lockagent.EventAgentStarted}
	traced := eventstest.Step(lockagent.EventGranted, "b", 3)
	traced.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	nameless := eventstest.Step(lockagent.EventRefused, "", 9)
	first := p.Pack(itemsOf(
		started,
		eventstest.Step(lockagent.EventGranted, "a", 1), eventstest.Step(lockagent.EventGranted, "a", 2), traced,
		eventstest.Step(lockagent.EventReleased, "a", 2),
		eventstest.Step(lockagent.EventLost, "a", 4),
		eventstest.Step(lockagent.EventGranted, "b", 5), eventstest.Step(lockagent.EventGranted, "a", 6),
		eventstest.Step(lockagent.EventGranted, "b", 7),
		nameless,
		eventstest.Step(lockagent.EventGranted, "b", 8),
		lockagent.Event{Kind: lockagent.EventAlive},
	), events.Drops{}, 100, time.Time{})
	want := []string{
		"1 agentstarted.= agentstarted0",
		"2-4 lock.a granted1 granted2 released2",
		"5 lock.b granted3 traced",
		"6 lost.a lost4",
		"7-8 lock.b granted5 granted7",
		"9 lock.a granted6",
		"10 lock.= refused9",
		"11 lock.b granted8",
		"12 agent.= alive0",
	}
	if got := sketch(t, &p, first); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if r := unpacked(t, &p, first[0])[0]; r.Follows != (events.Place{Epoch: 2, Seq: 77}) || r.Agent != "me" ||
		r.Epoch != 3 {
		t.Errorf("got %+v", r)
	}
	for _, m := range first {
		if m.From != 100 || m.Facts != len(m.Items) {
			t.Errorf("message %s: %+v", m.ID, m)
		}
		if id, ok := ParseMessageID(m.ID); !ok || id != (MessageID{"me", 3, m.First(), m.Last}) {
			t.Errorf("id %s is understood as %v", m.ID, id)
		}
	}
}

// TestDropsAreTold drops something between two messages.
func TestDropsAreTold(t *testing.T) {
	p := NewPacker("me", 3, "p.q")
	var missing events.Drops
	missing.Add(lockagent.EventRequested)
	missing.Add(lockagent.EventGranted)
	missing.Add(lockagent.EventGranted)
	// The very first message is never about drops: see pack.
	got := sketch(
		t, &p,
		p.Pack(
			itemsOf(eventstest.Step(lockagent.EventGranted, "a", 1), eventstest.Step(lockagent.EventGranted, "a", 2)), missing,
			0, time.Time{},
		),
	)
	if want := []string{"1 lock.a granted1", "5 dropped.= dropped0", "6 lock.a granted2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	messages := p.Pack(nil, missing, 0, time.Time{})
	if r := unpacked(t, &p, messages[0]); len(messages) != 1 || r[0].Seq != 10 || r[0].Dropped != missing {
		t.Errorf("got %+v", r)
	}
}

// TestBatchesAreBounded makes batches that are full of records, and of bytes.
func TestBatchesAreBounded(t *testing.T) {
	for name, text := range map[string]string{
		"Small": "", "Large": strings.Repeat("x", wire.MaxText), "Escaped": strings.Repeat("\x01", 500),
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPacker("me", 3, "p.q")
			p.Last = 1
			const n = 3*wire.MaxRecords + 5
			all := make([]lockagent.Event, n)
			for i := range all {
				all[i] = lockagent.Event{Kind: lockagent.EventGranted, Lock: "a", Request: uint64(i) + 1, Err: text}
			}
			next := uint64(2)
			messages := p.Pack(itemsOf(all...), events.Drops{}, 0, time.Time{})
			for i, m := range messages {
				bytes := len(p.Encode(nil, m))
				if bytes > 2*maxBatchBytes || len(m.Items) > wire.MaxRecords {
					t.Errorf("message %s has %d records and %d bytes", m.ID, len(m.Items), bytes)
				}
				if i < len(messages)-1 && len(m.Items) < wire.MaxRecords && m.Size+m.Items[0].Size() <= maxBatchBytes {
					t.Errorf("message %s has %d records only", m.ID, len(m.Items))
				}
				for _, r := range unpacked(t, &p, m) {
					if r.Seq != next || r.Request != next-1 {
						t.Fatalf("record %d of request %d, want record %d", r.Seq, r.Request, next)
					}
					next++
				}
			}
			if next != n+2 {
				t.Errorf("the records end before %d", next)
			}
		})
	}
}
