package natslog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// contextEnded returns a context that has ended.
func contextEnded() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx, cancel
}

// TestTwoPublishersOfOneIdentity both find a stream without records of theirs. Only one of them may
// publish anything.
func TestTwoPublishersOfOneIdentity(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	js := client(t, c)
	looks, err := js.Conn().SubscribeSync("$JS.API.DIRECT.GET." + DefaultStream + ".>")
	if err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().FlushWithContext(waittest.Context(t)); err != nil {
		t.Fatal(err)
	}
	first, second := newPublisher(t, Config{Connection: c}), newPublisher(t, Config{Connection: c})
	for range 2 {
		if _, err := looks.NextMsgWithContext(waittest.Context(t)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 10 {
		first.Record(t.Context(), requested(n))
	}
	flushed(t, first)
	for n := range 20 {
		second.Record(t.Context(), requested(n))
	}
	if err := second.Flush(waittest.Context(t)); !errors.Is(err, lockagent.ErrClosed) {
		t.Errorf("flush: %v", err)
	}
	why := ErrIdentity
	if errors.Is(second.Stats().Err, ErrEpoch) { // it was slow, and looked again before it began
		why = ErrEpoch
	}
	wantStopped(t, second, why)
	for n := range 10 {
		first.Record(t.Context(), requested(10+n))
	}
	if err := first.Close(waittest.Context(t)); err != nil {
		t.Error(err)
	}
	wantEverything(t, c, 20)
	if got := second.Stats().Published; got != 0 {
		t.Errorf("the second publisher believes that %d events are published", got)
	}
}

// TestForeignMessagesHideNoEpoch has somebody else put messages behind the last record of an agent, who has
// the permissions of the docs.
func TestForeignMessagesHideNoEpoch(t *testing.T) {
	s := documentedServer(t, documented(t, "conf"))
	c := asUser(t, s, "agent-1")
	p := newPublisher(t, Config{Connection: c, Agent: "agent-1", Epoch: 5})
	for i := range 3 {
		p.Record(t.Context(), requested(i))
		flushed(t, p)
	}
	if err := p.Close(waittest.Context(t)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", "agent-2:5:1", "agent-1:5", "", "agent-2:9:9"} {
		putForeign(t, c, "lockagent.v1.agent-1.lock.x", id)
	}
	latest := func(want events.Place) {
		t.Helper()
		r, err := OpenReader(ReaderConfig{Connection: c})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if got, err := r.Latest(waittest.Context(t), "agent-1"); got != want || err != nil {
			t.Errorf("the latest is %v, %v, want %v", got, err, want)
		}
	}
	latest(events.Place{Epoch: 5, Seq: 3})
	again := newPublisher(t, Config{Connection: c, Agent: "agent-1", Epoch: 5})
	again.Record(t.Context(), requested(9))
	wantStopped(t, again, ErrEpoch)

	next := newPublisher(t, Config{Connection: c, Agent: "agent-1", Epoch: 6})
	next.Record(t.Context(), lockagent.Event{Kind: lockagent.EventAgentStarted})
	if err := next.Close(waittest.Context(t)); err != nil {
		t.Fatal(err)
	}
	latest(events.Place{Epoch: 6, Seq: 1})
	all := written(t, asUser(t, s, "auditor"), "")
	if last := all[len(all)-1]; len(all) != 4 || last.Epoch != 6 || last.Follows != (events.Place{Epoch: 5, Seq: 3}) {
		t.Errorf("%d records, the last is %+v", len(all), last)
	}
}

// TestForeignMessagesAlone are not taken for a life of the agent.
func TestForeignMessagesAlone(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	r, err := OpenReader(ReaderConfig{Connection: c})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	nothing := func(of string) {
		t.Helper()
		if got, err := r.Latest(waittest.Context(t), eventstest.Agent); got != (events.Place{}) || err != nil {
			t.Errorf("%s: the latest is %v, %v", of, got, err)
		}
	}
	nothing("no stream")
	streamFor(t, client(t, c), nil)
	nothing("an empty stream")
	for range 10 {
		putForeign(t, c, "lockagent.v1."+string(eventstest.Agent)+".lock.x", "")
	}
	nothing("a stream of somebody else")
	p := newPublisher(t, Config{Connection: c})
	p.Record(t.Context(), requested(0))
	flushed(t, p)
}

// TestAnotherPublisherWasThere has records in the stream, when the connection is back, that nobody but
// a publisher of the same identity can have made.
func TestAnotherPublisherWasThere(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		id    string
		doubt bool // whether our own second record has the first of these numbers
		want  error
	}{
		"Later":       {"%s:1:5", false, ErrIdentity},
		"LaterBatch":  {"%s:1:2-9", false, ErrIdentity},
		"Same":        {"%s:1:2", true, ErrIdentity},
		"LaterEpoch":  {"%s:2:1", false, ErrEpoch},
		"Settled":     {"%s:1:1", false, nil},
		"EarlierLife": {"%s:0:7", false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l link
			server := natstest.Start(t, natsserver.Config{})
			l.use(server)
			js := client(t, Connection{InProcess: server})
			p := newPublisher(t, Config{Connection: Connection{InProcess: &l}})
			p.Record(t.Context(), requested(0))
			flushed(t, p)
			publish := func() {
				m := &nats.Msg{
					Subject: "lockagent.v1." + string(eventstest.Agent) + ".lock.x", Data: []byte("{}"), Header: nats.Header{},
				}
				if _, err := js.PublishMsg(
					waittest.Context(t), m, jetstream.WithMsgID(fmt.Sprintf(test.id, eventstest.Agent)),
				); err != nil {
					t.Fatal(err)
				}
			}
			if test.doubt {
				publish() // ours will be taken for a repetition, and we do not learn it
				l.mute(true)
				p.Record(t.Context(), requested(1))
				waittest.Until(t, "it is sent", func() bool {
					p.mu.Lock()
					defer p.mu.Unlock()
					return p.outbox.doubt() != nil
				})
			} else {
				l.use(nil)
				publish()
			}
			l.mute(false)
			l.cut()
			l.use(server)
			p.Record(t.Context(), requested(1))
			if test.want == nil {
				flushed(t, p)
				return
			}
			wantStopped(t, p, test.want)
		})
	}
}

// TestRefusedForAMoment has a stream take a message while it refuses the one before it, and the
// answers get lost. Everything must be there once in the end. The order is not kept, which the
// numbers tell.
func TestRefusedForAMoment(t *testing.T) {
	t.Parallel()
	var l link
	server := natstest.Start(t, natsserver.Config{})
	l.use(server)
	js := client(t, Connection{InProcess: server})
	cfg := jetstream.StreamConfig{
		Name: DefaultStream, Subjects: []string{events.AllSubjects}, MaxBytes: 20_000, Discard: jetstream.DiscardNew,
	}
	stream, err := js.CreateStream(waittest.Context(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := newPublisher(t, Config{Connection: Connection{InProcess: &l}, Linger: maxLinger})
	p.Record(t.Context(), requested(0))
	flushed(t, p)

	l.mute(true)
	small := func(n int) lockagent.Event {
		e := requested(n)
		e.Lock = lockagent.Name(fmt.Sprint("small/", n))
		return e
	}
	p.Record(t.Context(), small(1))
	const large = 100 // more than the stream takes
	for n := range large {
		p.Record(t.Context(), requested(2+n))
	}
	p.Record(t.Context(), small(large+2))
	// This one makes all leave at once.
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventLost, Lock: "lost", Request: large + 3})
	waittest.Until(t, "the small messages are stored, and the large one is not", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs == 4
	})
	l.mute(false)
	l.cut()

	// The stream is still full, which the publisher says.
	waittest.Until(t, "the publisher knows why", func() bool {
		err := p.Stats().Err
		refusal, ok := errors.AsType[*jetstream.APIError](err)
		return ok && refusal.ErrorCode == 10077
	})
	if got := p.Stats(); got.Published != 4 || got.Queued != large {
		t.Errorf("got %+v", got)
	}
	done, cancel := contextEnded()
	defer cancel()
	if err := p.Flush(done); err == nil {
		t.Error("all is flushed")
	}

	cfg.MaxBytes = 1 << 20
	if _, err := js.UpdateStream(waittest.Context(t), cfg); err != nil {
		t.Fatal(err)
	}
	flushed(t, p)
	wantStats(t, p, Stats{Recorded: large + 4, Published: large + 4})
	all := written(t, Connection{InProcess: server}, "")
	if len(all) != large+4 || all[2].Seq != large+3 || all[3].Seq != large+4 {
		t.Fatalf("%d records", len(all))
	}
	inOrder := slices.Concat(all[:2], all[4:], all[2:4])
	for i, r := range inOrder {
		if r.Seq != uint64(i)+1 || r.Request != uint64(i) {
			t.Errorf("record %d is number %d of request %d", i, r.Seq, r.Request)
		}
	}
}
