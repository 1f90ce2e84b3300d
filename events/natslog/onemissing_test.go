package natslog

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/events/internal/logtest"
	"github.com/lockagent/lockagent/events/internal/wire"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

// TestOneMissing deletes one record of a long log in a real stream. The audit names exactly that one.
func TestOneMissing(t *testing.T) {
	t.Parallel()
	const records, deleted = 3000, 1777
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	js := client(t, c)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: DefaultStream, Subjects: []string{events.AllSubjects},
	})
	if err != nil {
		t.Fatal(err)
	}
	all := wholeHolds(records)
	for len(all) > 0 {
		n := 1
		for n < min(wire.MaxRecords, len(all)) && all[0].Seq != deleted && all[n].Seq != deleted &&
			sameMessage(&all[0], &all[n]) {
			n++
		}
		body, contentType := logtest.BatchOf(all[:n]), events.BatchContentType
		if n == 1 {
			body, contentType = events.Append(nil, all[0]), events.ContentType
		}
		m := nats.NewMsg(string(events.AppendSubject(nil, events.DefaultPrefix, all[0].Agent, all[0].Kind, all[0].Lock)))
		m.Header.Set("Content-Type", contentType)
		m.Data = body
		if _, err := js.PublishMsgAsync(m); err != nil {
			t.Fatal(err)
		}
		all = all[n:]
	}
	<-js.PublishAsyncComplete()

	found, report := replayed(t, c, "")
	if report.Verdict != audit.Proven || report.Events != records {
		t.Fatalf("before: %v", report)
	}
	i := slices.IndexFunc(found, func(r events.Record) bool { return r.Seq == deleted })
	if err := stream.DeleteMsg(t.Context(), found[i].Position); err != nil {
		t.Fatal(err)
	}
	_, report = replayed(t, c, "")
	want := []audit.RecordHole{{Agent: eventstest.Agent, Epoch: 1, Range: events.Range{First: deleted, Last: deleted}}}
	if report.Verdict != audit.Incomplete || report.Events != records-1 || !slices.Equal(report.RecordHoles.First, want) {
		t.Errorf("got %v", report)
	}
}

// sameMessage reports whether two records may travel together.
func sameMessage(a, b *events.Record) bool {
	return a.Lock == b.Lock && !events.Urgent(a.Kind) && !events.Urgent(b.Kind)
}

// wholeHolds is the log of an agent that has several locks in turn, for many holds each.
func wholeHolds(n int) []events.Record {
	const each = 50 // holds in a tenure
	now := lockagent.StoreTime(time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC).UnixMicro())
	all := []events.Record{{Event: lockagent.Event{Kind: lockagent.EventAgentStarted}}}
	for len(all) < n-1 {
		k := uint64(len(all))
		tenure := (k-1)/each + 1
		e := eventstest.Typical(k)
		if k%2500 == 0 {
			e = lockagent.Event{Kind: lockagent.EventAlive, StoreTime: now}
		} else {
			e.Lock = lockagent.Name([]string{"a", "b", "c", "d"}[tenure%4])
			e.Tenure, e.Token, e.How = tenure, lockagent.Token(now), lockagent.ByHandOff
			if (k-1)%each == 0 {
				e.How = lockagent.ByStore
			}
			e.Held, e.StoreTime, e.Confirmed, e.Until = 500*time.Microsecond, now, now, now+600
			if k%each == 0 || k%each == each-1 && (k+1)%2500 == 0 {
				e.Returned = e.Until
			}
			now += 4000
		}
		all = append(all, events.Record{Event: e})
	}
	all = append(all, events.Record{Event: lockagent.Event{Kind: lockagent.EventAgentStopped}})
	for i := range all {
		r := &all[i]
		r.Agent, r.Store, r.Epoch, r.Seq, r.Time = eventstest.Agent, "store", 1, uint64(i)+1, time.UnixMicro(int64(now)).UTC()
	}
	return all
}
