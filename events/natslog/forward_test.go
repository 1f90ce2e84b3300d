package natslog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/queue"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// forwarding is a forwarder at work.
type forwarding struct {
	*Forwarder
	stop func() // waits until it has ended
}

// forward starts a forwarder that ends with the test at the latest.
func forward(t testing.TB, from, to Connection) *forwarding {
	t.Helper()
	return forwardWith(t, ForwardConfig{Source: ReaderConfig{Connection: from}, Hub: ReaderConfig{Connection: to}})
}

func forwardWith(t testing.TB, cfg ForwardConfig) *forwarding {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = testLogger(t)
	}
	f, err := NewForwarder(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	once := false
	w := &forwarding{Forwarder: f}
	w.stop = func() {
		cancel(errEnough)
		if once {
			return
		}
		once = true
		if err := <-ended; !errors.Is(err, errEnough) || !errors.Is(err, context.Canceled) {
			t.Errorf("the forwarder returned %v", err)
		}
	}
	t.Cleanup(w.stop)
	return w
}

// streamFor makes a stream as a publisher does, with what a test wants to be different.
func streamFor(t testing.TB, js jetstream.JetStream, change func(*jetstream.StreamConfig)) jetstream.Stream {
	t.Helper()
	cfg := jetstream.StreamConfig{
		Name: DefaultStream, Subjects: []string{events.AllSubjects}, AllowAtomicPublish: true, AllowDirect: true,
	}
	if change != nil {
		change(&cfg)
	}
	stream, err := js.CreateStream(waittest.Context(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// put publishes the message of some records of an agent, as a publisher does.
func put(t testing.TB, js jetstream.JetStream, id queue.MessageID) {
	t.Helper()
	m := &nats.Msg{
		Subject: events.DefaultPrefix + "." + string(id.Agent) + ".lock.orders.42",
		Data:    []byte("records " + id.String()),
		Header: nats.Header{
			"Content-Type": {events.ContentType}, "traceparent": {"00-1-2-01"}, jetstream.MsgIDHeader: {id.String()},
			jetstream.ExpectedStreamHeader: {DefaultStream},
		},
	}
	if _, err := js.PublishMsg(waittest.Context(t), m); err != nil {
		t.Fatal(err)
	}
}

// puts publishes messages of one record each.
func puts(t testing.TB, js jetstream.JetStream, agent string, from, to uint64) {
	t.Helper()
	for n := from; n <= to; n++ {
		put(t, js, queue.MessageID{Agent: lockagent.AgentID(agent), Epoch: 1, First: n, Last: n})
	}
}

// copied is what of a message must be the same in both streams.
type copied struct{ id, subject, header, body string }

// byAgent returns the messages of a stream, for each agent.
func byAgent(t testing.TB, js jetstream.JetStream) map[string][]copied {
	t.Helper()
	all := make(map[string][]copied)
	for _, m := range messages(t, js, DefaultStream) {
		message := copiedOf(m.Subject, m.Header, m.Data)
		agent, _, _ := strings.Cut(message.id, ":")
		all[agent] = append(all[agent], message)
	}
	return all
}

// state returns the state of a stream, which is zero if there is none. It is patient: a server that was
// killed answers no question that it was asked before.
func state(t testing.TB, js jetstream.JetStream) (s jetstream.StreamState) {
	t.Helper()
	waittest.Until(t, "the server says what the stream has", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		stream, err := js.Stream(ctx, DefaultStream)
		if err == nil {
			s = stream.CachedInfo().State
		}
		return err == nil || errors.Is(err, jetstream.ErrStreamNotFound)
	})
	return s
}

// count returns how many messages the stream has.
func count(t testing.TB, js jetstream.JetStream) uint64 {
	t.Helper()
	return state(t, js).Msgs
}

// arrived waits until the hub has n messages.
func arrived(t testing.TB, hub jetstream.JetStream, n uint64) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("the hub has %d messages", n), func() bool { return count(t, hub) >= n })
}

// wantCopy fails the test unless the hub has what the source has, in its order for each agent.
func wantCopy(t testing.TB, source, hub jetstream.JetStream) {
	t.Helper()
	want, got := byAgent(t, source), byAgent(t, hub)
	for agent := range want {
		if !slices.Equal(got[agent], want[agent]) {
			t.Errorf("agent %s: the hub has\n%v\nwant\n%v", agent, ids(got[agent]), ids(want[agent]))
		}
	}
	if len(got) != len(want) {
		t.Errorf("the hub has agents %v", slices.Collect(maps.Keys(got)))
	}
}

// ids returns the numbers of messages in short.
func ids(all []copied) string {
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "%s ", m.id[strings.IndexByte(m.id, ':')+1:])
	}
	return b.String()
}

// ends are two servers in this process.
type ends struct {
	from, to    Connection
	source, hub jetstream.JetStream
}

func newEnds(t testing.TB) ends {
	from := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	to := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	return ends{from, to, client(t, from), client(t, to)}
}

func TestForward(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	f := forward(t, e.from, e.to)
	waittest.Until(t, "it says why nothing is forwarded", func() bool { return errors.Is(f.Stats().Err, ErrNoStream) })
	streamFor(t, e.source, nil)
	put(t, e.source, queue.MessageID{Agent: "a", Epoch: 1, First: 1, Last: 256})
	for n := uint64(1); n <= 300; n++ {
		put(t, e.source, queue.MessageID{Agent: "b", Epoch: 7, First: n, Last: n})
		put(t, e.source, queue.MessageID{Agent: "a", Epoch: 1, First: 256 + n, Last: 256 + n})
	}
	put(t, e.source, queue.MessageID{Agent: "a", Epoch: 2, First: 1, Last: 1})
	arrived(t, e.hub, 602)
	wantCopy(t, e.source, e.hub)
	waittest.Until(t, "all is counted", func() bool { return f.Stats().Forwarded == 602 })
	if got := f.Stats(); got.Behind != 0 || got.Err != nil || got.Present != 0 {
		t.Errorf("got %+v", got)
	}
	f.stop()

	// Another one begins where this one was.
	puts(t, e.source, "c", 1, 10)
	f = forward(t, e.from, e.to)
	arrived(t, e.hub, 612)
	wantCopy(t, e.source, e.hub)
	if got := f.Stats(); got.Forwarded > 10 || got.Present != 0 {
		t.Errorf("got %+v", got)
	}
}

// A forwarder that goes on does not ask for the subjects of all locks. An agent of which the source has no
// sign of life, and that it does not know of, gets nothing twice.
func TestForwardAsksForFewSubjects(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	streamFor(t, e.source, nil)
	streamFor(t, e.hub, func(cfg *jetstream.StreamConfig) { cfg.Duplicates = 100 * time.Millisecond })
	p := newPublisher(t, Config{Connection: e.from, Agent: "known"})
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventAgentStarted})
	flushed(t, p)
	puts(t, e.source, "unknown", 1, 30)
	f := forward(t, e.from, e.to)
	arrived(t, e.hub, 31)
	f.stop()

	questions, err := e.source.Conn().SubscribeSync("$JS.API.STREAM.INFO." + DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.source.Conn().FlushWithContext(waittest.Context(t)); err != nil {
		t.Fatal(err)
	}
	puts(t, e.source, "unknown", 31, 40)
	f = forward(t, e.from, e.to)
	arrived(t, e.hub, 41)
	waittest.Until(t, "all is counted", func() bool { return f.Stats().Forwarded == 10 })
	f.stop()
	wantCopy(t, e.source, e.hub)
	if got := f.Stats(); got.Forwarded != 10 || got.Present != 30 || got.Discarded != 0 {
		t.Errorf("got %+v", got)
	}
	asked := 0
	for range 4 { // two more ask for the stream and for its leader
		m, err := questions.NextMsgWithContext(waittest.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(m.Data), "subjects_filter") {
			asked++
		}
		if strings.Contains(string(m.Data), `"lockagent.v1.\u003e"`) || strings.Contains(string(m.Data), `"lockagent.v1.>"`) {
			t.Errorf("it asks for all subjects: %s", m.Data)
		}
	}
	if asked != 2 {
		t.Errorf("it asks for subjects %d times", asked)
	}
}

// The records of a real publisher can be read at the hub, and the audit of the hub is the one of the
// source.
func TestForwardedRecords(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	p := newPublisher(t, Config{Connection: e.from})
	forward(t, e.from, e.to)
	for i := range 100 {
		p.Record(t.Context(), requested(i))
	}
	flushed(t, p)
	arrived(t, e.hub, count(t, e.source))
	wantCopy(t, e.source, e.hub)
	want, _ := replayed(t, e.from, "")
	got, report := replayed(t, e.to, "")
	if len(got) != len(want) || report.Duplicates != 0 || report.RecordHoles.Count != 0 {
		t.Errorf("%d records, want %d; %v", len(got), len(want), report)
	}
}

// The connection to the hub is lost with all acknowledgements, until long after the hub has forgotten
// the message ids.
func TestForwardAfterALongOutage(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	var l link
	l.use(e.to.InProcess.(*natsserver.Server))
	streamFor(t, e.source, nil)
	streamFor(t, e.hub, func(cfg *jetstream.StreamConfig) { cfg.Duplicates = 100 * time.Millisecond })
	f := forward(t, e.from, Connection{InProcess: &l})
	puts(t, e.source, "a", 1, 50)
	waittest.Until(t, "all are acknowledged", func() bool { return f.Stats().Forwarded == 50 })

	l.mute(true)
	puts(t, e.source, "a", 51, 60)
	arrived(t, e.hub, 51) // what was sent is stored, and the forwarder does not know
	if got := f.Stats(); got.Forwarded >= 51 {
		t.Fatalf("an acknowledgement came through: %+v", got)
	}
	l.use(nil)
	l.mute(false)
	l.cut()
	probe := &nats.Msg{Subject: "lockagent.v1.probe.x.y", Header: nats.Header{jetstream.MsgIDHeader: {"a:1:51"}}}
	stored := uint64(0)
	waittest.Until(t, "the hub forgets the message ids", func() bool {
		ack, err := e.hub.PublishMsg(t.Context(), probe)
		if err != nil {
			t.Fatal(err)
		}
		stored = ack.Sequence
		return !ack.Duplicate
	})
	stream, err := e.hub.Stream(t.Context(), DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), stored); err != nil {
		t.Fatal(err)
	}

	l.use(e.to.InProcess.(*natsserver.Server))
	puts(t, e.source, "b", 1, 10)
	arrived(t, e.hub, 70)
	if got := hubIDs(t, e.hub); len(got) != 70 {
		t.Errorf("the hub has %d messages: %v", len(got), got)
	}
}

// hubIDs returns the ids of the messages that the hub has, in its order, also if some were deleted.
func hubIDs(t testing.TB, js jetstream.JetStream) []string {
	t.Helper()
	stream, err := js.Stream(waittest.Context(t), DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(waittest.Context(t), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m.Header.Get(jetstream.MsgIDHeader))
	}
	return all
}

// Two forwarders of one stream do no harm. The hub remembers no message id for long enough to help.
func TestForwardTwice(t *testing.T) {
	t.Parallel()
	for name, atomic := range map[string]bool{"Batches": true, "Singly": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnds(t)
			streamFor(t, e.source, nil)
			streamFor(t, e.hub, func(cfg *jetstream.StreamConfig) {
				cfg.Duplicates = 100 * time.Millisecond
				cfg.AllowAtomicPublish = atomic
			})
			first, second := forward(t, e.from, e.to), forward(t, e.from, e.to)
			n := uint64(0)
			waittest.Until(t, "they meet", func() bool {
				puts(t, e.source, "a", n+1, n+10)
				// An agent that neither of them knew when it began.
				puts(t, e.source, fmt.Sprint("b", n), 1, 10)
				n += 10
				return first.Stats().Conflicts+second.Stats().Conflicts >= 4
			})
			arrived(t, e.hub, 2*n)
			first.stop()
			second.stop()
			wantCopy(t, e.source, e.hub)
			t.Logf("%d messages, %d and %d forwarded, %d and %d conflicts", 2*n,
				first.Stats().Forwarded, second.Stats().Forwarded, first.Stats().Conflicts, second.Stats().Conflicts)
		})
	}
}

// Both connections are cut again and again.
func TestForwardCut(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	var from, to link
	from.use(e.from.InProcess.(*natsserver.Server))
	to.use(e.to.InProcess.(*natsserver.Server))
	streamFor(t, e.source, nil)
	streamFor(t, e.hub, func(cfg *jetstream.StreamConfig) { cfg.Duplicates = 100 * time.Millisecond })
	f := forward(t, Connection{InProcess: &from}, Connection{InProcess: &to})
	const rounds, each = 6, 100
	for round := range uint64(rounds) {
		puts(t, e.source, "a", round*each+1, (round+1)*each)
		arrived(t, e.hub, round*each+1+round*each/rounds) // somewhere in the middle of it
		if round%2 == 0 {
			from.cut()
		} else {
			to.cut()
		}
	}
	arrived(t, e.hub, rounds*each)
	f.stop()
	wantCopy(t, e.source, e.hub)
}

// The subjects of the hub may begin with something else.
func TestForwardToAnotherPrefix(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	streamFor(t, e.source, nil)
	// What a publisher asked of its server is not asked of the hub, where it would be wrong.
	for n := range uint64(10) {
		id := queue.MessageID{Agent: "a", Epoch: 1, First: n + 1, Last: n + 1}
		_, err := e.source.Publish(
			t.Context(), events.DefaultPrefix+".a.lock.orders.42", nil, jetstream.WithMsgID(id.String()),
			jetstream.WithExpectLastSequence(n),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	streamFor(t, e.hub, func(cfg *jetstream.StreamConfig) { cfg.Name, cfg.Subjects = "HUB", []string{"site.berlin.>"} })
	if _, err := e.hub.Publish(t.Context(), "site.berlin.b.lock.x", nil, jetstream.WithMsgID("b:1:1")); err != nil {
		t.Fatal(err)
	}
	f := forwardWith(t, ForwardConfig{
		Source: ReaderConfig{Connection: e.from}, Hub: ReaderConfig{Connection: e.to, Stream: "HUB", Prefix: "site.berlin"},
	})
	waittest.Until(t, "all is forwarded", func() bool { return f.Stats().Forwarded == 10 })
	f.stop()
	all := messages(t, e.hub, "HUB")
	if len(all) != 11 || all[10].Subject != "site.berlin.a.lock.orders.42" {
		t.Errorf("the hub has %v", all)
	}
}

func TestForwardToItself(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	streamFor(t, e.source, nil)
	end := ReaderConfig{Connection: e.from}
	f, err := NewForwarder(ForwardConfig{Source: end, Hub: end, Logger: testLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Run(waittest.Context(t)); !errors.Is(err, lockagent.ErrBadOption) {
		t.Errorf("got %v", err)
	}
}

func TestForwardConfig(t *testing.T) {
	good := ReaderConfig{Connection: Connection{URL: "nats://127.0.0.1:4222"}}
	for name, cfg := range map[string]ForwardConfig{
		"source NoSource":  {Hub: good},
		"hub NoHub":        {Source: good},
		"hub BadURL":       {Source: good, Hub: ReaderConfig{Connection: Connection{URL: "hub:4222"}}},
		"source BadStream": {Source: ReaderConfig{Connection: good.Connection, Stream: "a.b"}, Hub: good},
		"hub BadPrefix":    {Source: good, Hub: ReaderConfig{Connection: good.Connection, Prefix: "a..b"}},
		"hub BadAge":       {Source: good, Hub: good, MaxAge: -1},
		"hub BadReplicas":  {Source: good, Hub: good, Replicas: 6},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewForwarder(cfg)
			if !errors.Is(err, lockagent.ErrBadOption) && !errors.Is(err, ErrBadURL) {
				t.Errorf("got %v", err)
			}
			want, _, _ := strings.Cut(name, " ")
			if end, ok := errors.AsType[*EndError](err); !ok || end.End != want {
				t.Errorf("got %v, want an error of the %s", err, want)
			}
		})
	}
}

func TestParseMessageID(t *testing.T) {
	for text, want := range map[string]queue.MessageID{
		"a:1:2":                  {Agent: "a", Epoch: 1, First: 2, Last: 2},
		"host-1_x:12:3-300":      {Agent: "host-1_x", Epoch: 12, First: 3, Last: 300},
		"a:1:1-9999999999999999": {Agent: "a", Epoch: 1, First: 1, Last: events.MaxSeq},
	} {
		if got, ok := queue.ParseMessageID(text); !ok || got != want || got.String() != text {
			t.Errorf("%q is %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", "a", "a:1", "a:1:", "a::1", ":1:1", "a:0:1", "a:1:0", "a:1:1-1", "a:1:2-1", "a:1:1-", "a:1:-1", "a:1:01",
		"a:+1:1", "a:1:1:1",
		"a.b:1:1", "a:1:1-2-3", "a:10000000000:1", "a:1:10000000000000000", "a:1:99999999999999999999", " a:1:1", "a:1:1 ",
	} {
		if got, ok := queue.ParseMessageID(text); ok {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

func TestTooOld(t *testing.T) {
	for version, want := range map[string]bool{
		"2.9.10": true, "2.10.29": true, "1.4.1": true, "2.11.0": false, "2.15.2": false, "3.0.0-beta": false, "": false,
	} {
		if got := tooOld(version); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}
