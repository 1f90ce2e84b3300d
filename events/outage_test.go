package events

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

func TestNATSAbsentAtStart(t *testing.T) {
	t.Parallel()
	server := newProcess(t)
	p := newPublisher(t, Config{Connection: Connection{URL: server.url}})
	for i := range 100 {
		p.Record(t.Context(), requested(i))
	}
	eventually(t, "the publisher knows why", func() bool { return p.Stats().Err != nil })
	if got := p.Stats(); got.Queued != 100 || got.Recorded != 100 {
		t.Errorf("got %+v", got)
	}
	server.start()
	flushed(t, p)
	if got := p.Stats(); got != (Stats{Recorded: 100, Published: 100}) {
		t.Errorf("got %+v", got)
	}
	wantEverything(t, Connection{URL: server.url}, 100)
}

// TestServerKilled kills the server again and again while events are recorded.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	server := newProcess(t)
	server.start()
	p := newPublisher(t, Config{Connection: Connection{URL: server.url}})
	const rounds, each = 4, 2000 // more than the publisher has under way
	n := 0
	for range rounds {
		for range each {
			p.Record(t.Context(), requested(n))
			n++
		}
		// Kill it in the middle of that.
		eventually(t, "some events are published", func() bool {
			s := p.Stats()
			return s.Published > s.Recorded-each+each/10
		})
		server.kill()
		server.start()
	}
	flushed(t, p)
	if got := p.Stats(); got != (Stats{Recorded: uint64(n), Published: uint64(n)}) {
		t.Errorf("got %+v", got)
	}
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
	for range 3 {
		server = natstest.Start(t, natsserver.Config{Dir: dir})
		l.use(server)
		for range 1500 { // more than the publisher has under way
			p.Record(t.Context(), requested(n))
			n++
		}
		eventually(t, "some events are published", func() bool { return p.Stats().Published > uint64(n-1300) })
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
			p.Record(t.Context(), requested(n))
		}
	}
	record(50)
	flushed(t, p)
	server.signal(syscall.SIGSTOP)
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		record(queue + 30)
	}()
	select {
	case <-recorded: // while nothing is acknowledged
	case <-time.After(patience):
		t.Fatal("recording waits for the server")
	}
	if got := p.Stats(); got.Dropped != 30 || got.Queued != queue {
		t.Errorf("got %+v", got)
	}
	eventually(t, "the publisher notices", func() bool { return p.Stats().Err != nil })
	server.signal(syscall.SIGCONT)
	flushed(t, p)
	record(20)
	flushed(t, p)

	all, report := replayed(t, Connection{URL: server.url}, "")
	want := Gap{Agent: testAgent, Epoch: 1, Range: Range{50 + queue + 1, 50 + queue + 30}}
	if len(all) != 50+queue+20 || report.Duplicates != 0 || !slices.Equal(report.Gaps.First, []Gap{want}) {
		t.Errorf("%d records; %v", len(all), report)
	}
	if got := p.Stats(); got != (Stats{Recorded: 50 + queue + 30 + 20, Published: 50 + queue + 20, Dropped: 30}) {
		t.Errorf("got %+v", got)
	}
	dropped, ok := errors.AsType[*DroppedError](p.Close(testContext(t)))
	if !ok || dropped.Dropped != 30 || dropped.Unconfirmed != 0 {
		t.Errorf("got %v", dropped)
	}
}

// TestAcknowledgementsLostForLong has the stream store events whose
// acknowledgements are lost, and lets the publisher come back only after the
// stream has forgotten their message ids.
func TestAcknowledgementsLostForLong(t *testing.T) {
	t.Parallel()
	var l link
	server := natstest.Start(t, natsserver.Config{})
	l.use(server)
	direct := Connection{InProcess: server}
	js := client(t, direct)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: DefaultStream, Subjects: []string{AllSubjects}, Duplicates: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	other := newPublisher(t, Config{Connection: direct, Agent: "other"})
	p := newPublisher(t, Config{Connection: Connection{InProcess: &l}})
	stored := func(n uint64) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d messages are stored", n), func() bool {
			info, err := stream.Info(t.Context())
			return err == nil && info.State.Msgs == n
		})
	}
	for i := range 10 {
		p.Record(t.Context(), requested(i))
		other.Record(t.Context(), requested(i))
	}
	flushed(t, p)
	flushed(t, other)

	l.mute(true)
	for i := range 500 {
		p.Record(t.Context(), requested(i))
		other.Record(t.Context(), requested(i))
	}
	flushed(t, other)
	stored(20 + 500 + 500)
	if got := p.Stats(); got.Published >= 510 {
		t.Fatalf("acknowledgements came through: %+v", got)
	}
	l.use(nil)
	l.mute(false)
	l.cut()
	probe := func() bool {
		ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "lockagent.v1.probe", Header: nats.Header{jetstream.MsgIDHeader: {string(testAgent) + ":1:510"}}})
		if err != nil {
			t.Fatal(err)
		}
		return !ack.Duplicate
	}
	eventually(t, "the stream forgets the message ids", probe)

	p.Record(t.Context(), requested(500))
	l.use(server)
	flushed(t, p)
	if got := p.Stats(); got != (Stats{Recorded: 511, Published: 511}) {
		t.Errorf("got %+v", got)
	}
	stored(20 + 500 + 500 + 1 + 1)
	if _, report := replayed(t, direct, ""); report.Duplicates != 0 || report.Gaps.Count != 0 {
		t.Errorf("%v", report)
	}
}

// TestConnectionClosedForGood has the server say something after which the client
// library gives up.
func TestConnectionClosedForGood(t *testing.T) {
	server := natstest.Start(t, natsserver.Config{})
	var l link
	l.use(server)
	p := newPublisher(t, Config{Connection: Connection{InProcess: &l}})
	p.Record(t.Context(), requested(1))
	flushed(t, p)
	l.lie("-ERR 'Maximum Boredom Exceeded'\r\n")
	p.Record(t.Context(), requested(2))
	flushed(t, p)
	p.Record(t.Context(), requested(3))
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
	p.Record(t.Context(), requested(1))
	flushed(t, p)
	l.lie("+OK\r\n")
	p.Record(t.Context(), requested(2))
	flushed(t, p)
	wantEverything(t, Connection{InProcess: server}, 2)
}
