package natslog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

func TestNATSAbsentAtStart(t *testing.T) {
	t.Parallel()
	server := newProcess(t)
	p := newPublisher(t, Config{Connection: Connection{URL: server.url}})
	for i := range 100 {
		p.Record(t.Context(), requested(i))
	}
	waittest.Until(t, "the publisher knows why", func() bool { return p.Stats().Err != nil })
	if got := p.Stats(); got.Queued != 100 || got.Recorded != 100 {
		t.Errorf("got %+v", got)
	}
	server.start()
	flushed(t, p)
	wantStats(t, p, Stats{Recorded: 100, Published: 100})
	wantEverything(t, Connection{URL: server.url}, 100)
}

func TestServerKilled(t *testing.T) {
	t.Parallel()
	serverKilled(t, 2, 4000)
}

// serverKilled kills the server again and again while so many events are recorded.
func serverKilled(t *testing.T, rounds, each int) {
	t.Helper()
	server := newProcess(t)
	server.start()
	p := newPublisher(t, Config{Connection: Connection{URL: server.url}})
	n := 0
	for range rounds {
		for range each {
			p.Record(t.Context(), requested(n))
			n++
		}
		// Kill it in the middle of that.
		waittest.Until(t, "some events are published", func() bool {
			s := p.Stats()
			return s.Published > uint64(n-each+each/10)
		})
		server.kill()
		server.start()
	}
	flushed(t, p)
	wantStats(t, p, Stats{Recorded: uint64(n), Published: uint64(n)})
	wantEverything(t, Connection{URL: server.url}, n)
}

// TestServerRestarted is the same with an embedded server that is stopped in
// order.
func TestServerRestarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var l link
	var server *natsserver.Server
	p := newPublisher(t, Config{Connection: Connection{InProcess: &l}})
	n := 0
	for range 2 {
		server = natstest.Start(t, natsserver.Config{Dir: dir})
		l.use(server)
		const each = 4000
		for range each {
			p.Record(t.Context(), requested(n))
			n++
		}
		waittest.Until(t, "some events are published", func() bool { return p.Stats().Published > uint64(n-each+each/10) })
		l.use(nil)
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	l.use(natstest.Start(t, natsserver.Config{Dir: dir}))
	flushed(t, p)
	wantEverything(t, Connection{InProcess: &l}, n)
}

// TestServerHangs stops the server without closing anything, for so long that the
// publisher notices that nothing is acknowledged, and that the queue overflows.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	server := newProcess(t)
	server.start()
	const queue = 100
	p := newPublisher(t, Config{Connection: Connection{URL: server.url}, QueueSize: queue})
	record := func(n int) {
		for range n {
			p.Record(t.Context(), requested(0))
		}
	}
	record(50)
	flushed(t, p)
	server.pause()
	record(10)
	waittest.Until(t, "the publisher notices", func() bool { return p.Stats().Err != nil })
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		record(queue + 30)
	}()
	waittest.Receive(t, "recording while nothing is acknowledged", recorded)
	wantStats(t, p, Stats{Recorded: 50 + 10 + queue + 30, Published: 50, Dropped: 30, Queued: 10 + queue})
	server.signal(syscall.SIGCONT)
	flushed(t, p)
	record(20)
	flushed(t, p)

	all := written(t, Connection{URL: server.url}, "")
	for i, r := range all {
		want := uint64(i) + 1
		if i >= 60 {
			want += 30
		}
		if r.Seq != want || (i == 60) != (r.Kind == lockagent.EventDropped) {
			t.Fatalf("record %d is number %d, %v", i, r.Seq, r.Kind)
		}
	}
	if len(all) != 50+10+1+queue+20 || all[60].Dropped.String() != "requested=30" {
		t.Errorf("%d records; %v were dropped", len(all), all[60].Dropped)
	}
	if s := p.Stats(); s.DroppedByKind != all[60].Dropped || s.Records != uint64(len(all)) {
		t.Errorf("got %+v", s)
	}
	dropped, ok := errors.AsType[*DroppedError](p.Close(waittest.Context(t)))
	if !ok || dropped.Dropped != 30 || dropped.Unconfirmed != 0 {
		t.Errorf("got %v", dropped)
	}
}

// TestAcknowledgementsLostForLong has the stream store messages whose
// acknowledgements are lost, and lets the publisher come back only after the
// stream has forgotten their ids. It may ask the server only a few times.
func TestAcknowledgementsLostForLong(t *testing.T) {
	t.Parallel()
	var l link
	server := natstest.Start(t, natsserver.Config{})
	l.use(server)
	direct := Connection{InProcess: server}
	js := client(t, direct)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: DefaultStream, Subjects: []string{events.AllSubjects, "probe"}, Duplicates: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	other := newPublisher(t, Config{Connection: direct, Agent: "other"})
	p := newPublisher(t, Config{Connection: Connection{InProcess: &l}})
	record := func(n int) { // each is a message
		for range n {
			e := requested(0)
			e.Lock = lockagent.Name(lockagent.NewAgentID())
			p.Record(t.Context(), e)
			other.Record(t.Context(), e)
		}
	}
	stored := func(n uint64) {
		t.Helper()
		waittest.Until(t, fmt.Sprintf("%d messages are stored", n), func() bool {
			info, err := stream.Info(t.Context())
			return err == nil && info.State.Msgs == n
		})
	}
	record(10)
	flushed(t, p)
	flushed(t, other)

	l.mute(true)
	record(500)
	flushed(t, other)
	stored(20 + 500 + 500)
	if got := p.Stats(); got.Published >= 510 {
		t.Fatalf("acknowledgements came through: %+v", got)
	}
	l.use(nil)
	l.mute(false)
	l.cut()
	probe := func() bool {
		ack, err := js.PublishMsg(t.Context(), &nats.Msg{
			Subject: "probe", Header: nats.Header{jetstream.MsgIDHeader: {string(eventstest.Agent) + ":1:510"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return !ack.Duplicate
	}
	waittest.Until(t, "the stream forgets the message ids", probe)

	questions, err := js.Conn().SubscribeSync("$JS.API.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().FlushWithContext(waittest.Context(t)); err != nil {
		t.Fatal(err)
	}
	record(1)
	l.use(server)
	flushed(t, p)
	wantStats(t, p, Stats{Recorded: 511, Published: 511})
	if n, _, err := questions.Pending(); err != nil || n > 10 {
		t.Errorf("the server was asked %d times, %v", n, err)
	}
	stored(20 + 500 + 500 + 1 + 2)
	seen := make(map[uint64]bool)
	for _, r := range written(t, direct, "") {
		if r.Agent != eventstest.Agent {
			continue
		}
		if seen[r.Seq] || r.Seq > 511 {
			t.Errorf("record %d is stored twice", r.Seq)
		}
		seen[r.Seq] = true
	}
	if len(seen) != 511 {
		t.Errorf("%d records are stored", len(seen))
	}
}

// TestStreamMadeAnew has an operator make the stream anew while a message is in doubt. The new stream stores it,
// the acknowledgement is lost too, and the next connection comes when the message ids are forgotten.
func TestStreamMadeAnew(t *testing.T) {
	t.Parallel()
	for name, connected := range map[string]bool{"WhileConnected": true, "WhileAway": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l link
			server := natstest.Start(t, natsserver.Config{})
			l.use(server)
			direct := Connection{InProcess: server}
			js := client(t, direct)
			cfg := jetstream.StreamConfig{
				Name: DefaultStream, Subjects: []string{events.AllSubjects, "probe"}, Duplicates: 100 * time.Millisecond,
			}
			anew := func() {
				_ = js.DeleteStream(t.Context(), DefaultStream)
				if _, err := js.CreateStream(t.Context(), cfg); err != nil {
					t.Fatal(err)
				}
			}
			keepStreams(t, js)
			anew()
			p := newPublisher(t, Config{Connection: Connection{InProcess: &l}})
			n := 0
			record := func() {
				p.Record(t.Context(), requested(n))
				n++
			}
			for range 20 {
				record()
				flushed(t, p)
			}
			// mutedBy lets no acknowledgement of the next message through.
			mutedBy := func(act func()) {
				sent := make(chan signal)
				l.tap(func(text []byte) bool {
					if bytes.Contains(text, []byte("HPUB lockagent.v1.")) {
						l.mute(true)
						l.tap(nil)
						close(sent)
					}
					return true
				})
				act()
				<-sent
			}
			away := func() {
				l.use(nil)
				l.cut()
				l.mute(false)
			}
			stored := func(n uint64) {
				t.Helper()
				waittest.Until(t, fmt.Sprintf("%d messages are stored", n), func() bool { return count(t, js) == n })
			}
			if connected {
				anew()
				mutedBy(record)
			} else {
				mutedBy(record)
				stored(21)
				away()
				anew()
				mutedBy(func() { l.use(server) })
			}
			stored(1)
			away()
			waittest.Until(t, "the stream forgets the message ids", func() bool {
				ack, err := js.PublishMsg(t.Context(), &nats.Msg{
					Subject: "probe", Header: nats.Header{jetstream.MsgIDHeader: {fmt.Sprint("probe", n)}},
				})
				if err != nil {
					t.Fatal(err)
				}
				return !ack.Duplicate && ack.Sequence > 2
			})
			l.use(server)
			flushed(t, p)
			record()
			flushed(t, p)
			var got []uint64
			for _, r := range written(t, direct, "") {
				got = append(got, r.Seq)
			}
			if !slices.Equal(got, []uint64{21, 22}) {
				t.Errorf("the new stream has %v", got)
			}
		})
	}
}

// keepStreams has the server keep its directory of streams. Without another stream, the server removes
// it a moment after the last stream, also if there is one again.
func keepStreams(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	if _, err := js.CreateStream(
		t.Context(), jetstream.StreamConfig{Name: "ANOTHER", Subjects: []string{"another"}},
	); err != nil {
		t.Fatal(err)
	}
}

// TestStreamMadeAnewIsNoticed has an operator make the stream anew under a connection that lasts.
func TestStreamMadeAnewIsNoticed(t *testing.T) {
	t.Parallel()
	direct := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	js := client(t, direct)
	keepStreams(t, js)
	var log heard
	direct.Logger = log.logger()
	p := newPublisher(t, Config{Connection: direct})
	for n := range 3 {
		p.Record(t.Context(), requested(n))
		flushed(t, p)
	}
	if err := js.DeleteStream(t.Context(), DefaultStream); err != nil {
		t.Fatal(err)
	}
	streamFor(t, js, nil)
	p.Record(t.Context(), requested(3))
	flushed(t, p)
	if n := count(t, js); n != 1 || log.count("the stream has lost events") != 1 {
		t.Errorf("%d messages are stored; it logs\n%s", n, &log)
	}
}

// TestConnectionClosedForGood has the server say something after which the client
// library gives up.
func TestConnectionClosedForGood(t *testing.T) {
	server := natstest.Start(t, natsserver.Config{})
	var l link
	l.use(server)
	var log heard
	p := newPublisher(t, Config{Connection: Connection{InProcess: &l, Logger: log.logger()}})
	p.Record(t.Context(), requested(0))
	flushed(t, p)
	l.lie("-ERR 'Maximum Boredom Exceeded'\r\n")
	p.Record(t.Context(), requested(1))
	flushed(t, p)
	if log.count("disconnected from NATS: ") == 0 || log.count(`\n`) > 0 {
		t.Errorf("it does not say in one line why:\n%s", &log)
	}
	p.Record(t.Context(), requested(2))
	flushed(t, p)
	wantEverything(t, Connection{InProcess: server}, 3)
}

// TestAcknowledgementLost has one acknowledgement disappear on a connection that
// is well otherwise.
func TestAcknowledgementLost(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natsserver.Config{})
	var l link
	l.use(server)
	p := newPublisher(t, Config{Connection: Connection{InProcess: &l}})
	p.Record(t.Context(), requested(0))
	flushed(t, p)
	l.lie("+OK\r\n")
	p.Record(t.Context(), requested(1))
	flushed(t, p)
	wantEverything(t, Connection{InProcess: server}, 2)
}
