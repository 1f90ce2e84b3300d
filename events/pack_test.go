package events

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// itemsOf makes items of events, as the queue would.
func itemsOf(all ...lockagent.Event) []*item {
	items := make([]*item, len(all))
	for i, e := range all {
		items[i] = &item{facts: 1, order: uint64(i)}
		items[i].fact = factOf(&e)
	}
	return items
}

// unpacked decodes a message of p.
func unpacked(t testing.TB, p *packer, m *message) []Record {
	t.Helper()
	kind := ContentType
	if m.batch() {
		kind = BatchContentType
	}
	var all []Record
	err := DecodeMessage(kind, p.encode(nil, m), func(r Record) error {
		all = append(all, r)
		return nil
	})
	if err != nil || len(all) != len(m.items) || all[len(all)-1].Seq != m.last {
		t.Fatalf("message %s: %v; it has %d of %d records, up to %d", m.id, err, len(all), len(m.items), m.last)
	}
	return all
}

// sketch says of each message its id, its subject without what all have, and its records.
func sketch(t testing.TB, p *packer, messages []*message) []string {
	t.Helper()
	var all []string
	for _, m := range messages {
		text := strings.TrimPrefix(m.id, "me:3:") + " " + strings.TrimPrefix(m.subject, "p.q.me.")
		for _, r := range unpacked(t, p, m) {
			text += fmt.Sprintf(" %v%d", r.Kind, r.Request)
		}
		if m.traceParent != "" {
			text += " traced"
		}
		all = append(all, text)
	}
	return all
}

func TestMessages(t *testing.T) {
	p := newPacker("me", 3, "p.q")
	p.follows = Place{2, 77}
	started := lockagent.Event{Kind: lockagent.EventAgentStarted}
	traced := step(lockagent.EventGranted, "b", 3)
	traced.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	nameless := step(lockagent.EventRefused, "", 9)
	first := p.pack(itemsOf(
		started,
		step(lockagent.EventGranted, "a", 1), step(lockagent.EventGranted, "a", 2), traced, step(lockagent.EventReleased, "a", 2),
		step(lockagent.EventLost, "a", 4),
		step(lockagent.EventGranted, "b", 5), step(lockagent.EventGranted, "a", 6), step(lockagent.EventGranted, "b", 7),
		nameless,
		step(lockagent.EventGranted, "b", 8),
		lockagent.Event{Kind: lockagent.EventAlive},
	), Drops{}, 100, time.Time{})
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
	if r := unpacked(t, &p, first[0])[0]; r.Follows != (Place{2, 77}) || r.Agent != "me" || r.Epoch != 3 {
		t.Errorf("got %+v", r)
	}
	for _, m := range first {
		if m.from != 100 || m.facts != len(m.items) {
			t.Errorf("message %s: %+v", m.id, m)
		}
		if id, ok := parseMessageID(m.id); !ok || id != (messageID{"me", 3, m.first(), m.last}) {
			t.Errorf("id %s is understood as %v", m.id, id)
		}
	}
}

// TestDropsAreTold drops something between two messages.
func TestDropsAreTold(t *testing.T) {
	p := newPacker("me", 3, "p.q")
	var missing Drops
	missing.Add(lockagent.EventRequested)
	missing.Add(lockagent.EventGranted)
	missing.Add(lockagent.EventGranted)
	// The very first message is never about drops: see pack.
	got := sketch(t, &p, p.pack(itemsOf(step(lockagent.EventGranted, "a", 1), step(lockagent.EventGranted, "a", 2)), missing, 0, time.Time{}))
	if want := []string{"1 lock.a granted1", "5 dropped.= dropped0", "6 lock.a granted2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	messages := p.pack(nil, missing, 0, time.Time{})
	if r := unpacked(t, &p, messages[0]); len(messages) != 1 || r[0].Seq != 10 || r[0].Dropped != missing {
		t.Errorf("got %+v", r)
	}
}

// TestBatchesAreBounded makes batches that are full of records, and of bytes.
func TestBatchesAreBounded(t *testing.T) {
	for name, text := range map[string]string{"Small": "", "Large": strings.Repeat("x", maxText), "Escaped": strings.Repeat("\x01", 500)} {
		t.Run(name, func(t *testing.T) {
			p := newPacker("me", 3, "p.q")
			p.last = 1
			const n = 3*MaxRecords + 5
			all := make([]lockagent.Event, n)
			for i := range all {
				all[i] = lockagent.Event{Kind: lockagent.EventGranted, Lock: "a", Request: uint64(i) + 1, Err: text}
			}
			next := uint64(2)
			messages := p.pack(itemsOf(all...), Drops{}, 0, time.Time{})
			for i, m := range messages {
				bytes := len(p.encode(nil, m))
				if bytes > 2*maxBatchBytes || len(m.items) > MaxRecords {
					t.Errorf("message %s has %d records and %d bytes", m.id, len(m.items), bytes)
				}
				if i < len(messages)-1 && len(m.items) < MaxRecords && m.size+m.items[0].size() <= maxBatchBytes {
					t.Errorf("message %s has %d records only", m.id, len(m.items))
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
