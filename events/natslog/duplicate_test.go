package natslog

import (
	"bytes"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/events/internal/queue"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// TestDuplicateOfTheFirstMessage has the first message of a publisher get lost on its way. When the
// publisher sends it again, the stream has a message of this id. It came there at the last moment:
// after the publisher has looked for it.
func TestDuplicateOfTheFirstMessage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		moment  string // what the publisher says at that moment
		foreign bool   // the message is of another publisher
		anew    bool   // somebody has made the stream anew in the meantime
	}{
		"Foreign":           {moment: "HPUB lockagent.v1.", foreign: true},
		"ForeignInALook":    {moment: "$JS.API.CONSUMER.CREATE.", foreign: true},
		"Own":               {moment: "HPUB lockagent.v1."},
		"OwnInAnotherPlace": {moment: "HPUB lockagent.v1.", anew: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := natstest.Start(t, natsserver.Config{})
			direct := Connection{InProcess: server}
			js := client(t, direct)
			neighbour := newPublisher(t, Config{Connection: direct, Agent: "neighbour"})
			record := func(n int) {
				neighbour.Record(t.Context(), requested(n))
				flushed(t, neighbour)
			}
			record(0)

			var l link
			l.use(server)
			lost, again, stored := make(chan signal), make(chan signal), make(chan signal)
			l.tap(func(text []byte) bool {
				if !bytes.Contains(text, []byte("HPUB lockagent.v1.")) {
					return true
				}
				close(lost)
				l.tap(func(text []byte) bool {
					if bytes.Contains(text, []byte(test.moment)) {
						l.tap(nil)
						close(again)
						<-stored
					}
					return true
				})
				return false
			})
			p := newPublisher(t, Config{Connection: Connection{InProcess: &l}})
			p.Record(t.Context(), requested(0))
			<-lost
			record(1) // so there is something to look at
			if test.anew {
				if err := js.DeleteStream(waittest.Context(t), DefaultStream); err != nil {
					t.Fatal(err)
				}
			}
			l.cut()
			<-again
			m := own(p)
			if test.foreign {
				m.Data = bytes.ReplaceAll(m.Data, []byte(`"w"`), []byte(`"v"`))
			}
			if _, err := js.PublishMsg(waittest.Context(t), m); err != nil {
				t.Fatal(err)
			}
			close(stored)

			if test.foreign {
				if err := p.Flush(waittest.Context(t)); err == nil {
					t.Error("it takes the message for its own")
				}
				wantStopped(t, p, ErrIdentity)
				if s := p.Stats(); s.Published != 0 {
					t.Errorf("got %+v", s)
				}
				return
			}
			p.Record(t.Context(), requested(1))
			flushed(t, p)
			wantStats(t, p, Stats{Recorded: 2, Published: 2})
			n := 0
			for _, r := range written(t, direct, "") {
				if r.Agent == eventstest.Agent {
					if n++; r.Seq != uint64(n) || r.Request != uint64(n)-1 {
						t.Errorf("record %d is number %d of request %d", n, r.Seq, r.Request)
					}
				}
			}
			if n != 2 {
				t.Errorf("%d records", n)
			}
		})
	}
}

// own returns the first message in the outbox of p, as p publishes it.
func own(p *Publisher) *nats.Msg {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.outbox.messages[0]
	packer := queue.NewPacker(p.cfg.Agent, p.cfg.Epoch, p.cfg.Prefix)
	return &nats.Msg{
		Subject: m.Subject, Data: packer.Encode(nil, m),
		Header: nats.Header{"Content-Type": {events.ContentType}, jetstream.MsgIDHeader: {m.ID}},
	}
}

// TestRepeated lists which duplicates a publisher takes for its own.
func TestRepeated(t *testing.T) {
	for name, test := range map[string]struct {
		last    uint64
		records int
		sent    int
		want    error
	}{
		"NeverSentBefore":      {last: 1, records: 1, sent: 1, want: ErrIdentity},
		"LaterNeverSentBefore": {last: 9, records: 4, sent: 1, want: ErrIdentity},
		"First":                {last: 1, records: 1, sent: 2, want: errRepeated},
		"Later":                {last: 9, records: 4, sent: 2},
	} {
		t.Run(name, func(t *testing.T) {
			m := queue.Message{Last: test.last, Items: make([]*queue.Item, test.records), Sent: test.sent, Floor: 7}
			if err := repeated(&m, 5); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}
