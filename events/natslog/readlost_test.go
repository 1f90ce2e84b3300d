package natslog

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// TestRequestForMessagesLost has the server never hear the first request for messages, as when the member of a cluster
// that has the consumer goes away. The connection stays.
func TestRequestForMessagesLost(t *testing.T) {
	t.Parallel()
	var l link
	l.use(natstest.Start(t, natsserver.Config{}))
	c := Connection{InProcess: &l}
	p := newPublisher(t, Config{Connection: c})
	const n = 10
	for i := range n {
		p.Record(t.Context(), apart(i))
	}
	flushed(t, p)
	var got []uint64
	for name, read := range map[string]func(*Reader) error{
		"Replay": func(r *Reader) error { return r.Replay(waittest.Context(t), From{}, events.Filter{}, seqs(&got, 0)) },
		"Tail": func(r *Reader) error {
			if err := r.Tail(waittest.Context(t), From{}, events.Filter{}, seqs(&got, n)); !errors.Is(err, errEnough) {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var lost atomic.Bool
			l.tap(func(text []byte) bool {
				return !bytes.Contains(text, []byte(".CONSUMER.MSG.NEXT.")) || lost.Swap(true)
			})
			got = nil
			if err := read(newReader(t, c)); err != nil || len(got) != n || !lost.Load() {
				t.Errorf("got %d of %d records, %v; a request was lost: %v", len(got), n, err, lost.Load())
			}
		})
	}
}

// behind is a message of a consumer that knows of none behind it.
type behind struct{ jetstream.Msg }

func (m behind) Metadata() (*jetstream.MsgMetadata, error) {
	meta, err := m.Msg.Metadata()
	if err == nil {
		meta.NumPending = 0
	}
	return meta, err
}

// threeRecords returns a connection to a server whose stream has three messages.
func threeRecords(t *testing.T) Connection {
	t.Helper()
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c})
	for i := range 3 {
		p.Record(t.Context(), apart(i))
	}
	flushed(t, p)
	return c
}

// TestConsumerBehindTheStream has a member of a cluster deliver that does not have all of the stream yet. What the
// consumer does not know of is no end.
func TestConsumerBehindTheStream(t *testing.T) {
	t.Parallel()
	c := threeRecords(t)
	r := newReader(t, c)
	stream, err := r.stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		filter events.Filter
		from   From
		ended  [4]bool // before the first, and behind each
	}{
		"All":       {events.Filter{}, From{}, [4]bool{false, false, false, true}},
		"Second":    {events.Filter{Lock: "orders/1"}, From{}, [4]bool{false, false, true, true}},
		"FromThere": {events.Filter{Lock: "orders/0"}, FromPosition(2), [4]bool{true, true, true, true}},
		"None":      {events.Filter{Lock: "orders/7"}, From{}, [4]bool{true, true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			own, err := r.consume(t.Context(), stream, test.from, test.filter)
			if err != nil {
				t.Fatal(err)
			}
			all, err := r.consume(t.Context(), stream, From{}, events.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			g := &reading{
				r: r, stream: stream, consumer: own, filter: test.filter, last: 3,
				name: all.CachedInfo().Name, free: make(chan *decoded, 1), ready: make(chan *decoded, 1),
			}
			var ended [4]bool
			if ended[0], err = g.ends(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				m, err := all.Next()
				if err != nil {
					t.Fatal(err)
				}
				g.free <- new(decoded)
				if ended[i+1], err = g.take(t.Context(), behind{m}); err != nil {
					t.Fatal(err)
				}
				<-g.ready
			}
			if ended != test.ended {
				t.Errorf("ended: %v, want %v", ended, test.ended)
			}
		})
	}
}

// catchingUp is a server that stores more messages once it has made a consumer.
type catchingUp struct {
	jetstream.JetStream
	store func()
}

func (s catchingUp) OrderedConsumer(
	ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig,
) (jetstream.Consumer, error) {
	consumer, err := s.JetStream.OrderedConsumer(ctx, stream, cfg)
	s.store()
	return consumer, err
}

// TestFromTimeBehindTheStream has a member of a cluster look up a time that does not have the messages around that
// time yet. It begins with the next one that it stores, which is from before.
func TestFromTimeBehindTheStream(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		filter events.Filter
		want   []uint64
	}{
		"All":    {events.Filter{}, []uint64{5, 6}},
		"Before": {events.Filter{Lock: "orders/3"}, nil},
		"After":  {events.Filter{Lock: "orders/5"}, []uint64{6}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A busy machine may store the first record only after the time: then the test begins anew,
			// with more time.
			ahead := 50 * time.Millisecond
			waittest.Until(t, "the first record is stored before the time", func() bool {
				ahead *= 2
				return fromTimeBehindTheStream(t, ahead, test.filter, test.want)
			})
		})
	}
}

// fromTimeBehindTheStream reports whether the first record was stored before the time that is read from.
func fromTimeBehindTheStream(t *testing.T, ahead time.Duration, filter events.Filter, want []uint64) (before bool) {
	t.Helper()
	c := threeRecords(t)
	p := newPublisher(t, Config{Connection: c, Agent: "other"})
	r := newReader(t, c)
	stream, err := r.stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	since := time.Now().Add(ahead)
	r.js = catchingUp{r.js, func() {
		p.Record(t.Context(), apart(3))
		flushed(t, p)
		before = time.Now().Before(since)
		waittest.Until(t, "the time has come", func() bool { return !time.Now().Before(since) })
		p.Record(t.Context(), apart(4))
		p.Record(t.Context(), apart(5))
		flushed(t, p)
	}}
	var got []uint64
	_, err = r.read(waittest.Context(t), stream, FromTime(since), filter, 6, func(r *events.Record, err error) error {
		got = append(got, r.Position)
		return err
	})
	if before && (err != nil || !slices.Equal(got, want)) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	return before
}

// TestEndIsAskedOfTheLeader: a member of a cluster that does not have all of the stream yet may answer direct requests.
func TestEndIsAskedOfTheLeader(t *testing.T) {
	t.Parallel()
	c := threeRecords(t)
	nc := connected(t, c)
	direct, err := nc.SubscribeSync("$JS.API.DIRECT.GET.>")
	if err != nil {
		t.Fatal(err)
	}
	settle := func() {
		t.Helper()
		if err := nc.FlushWithContext(waittest.Context(t)); err != nil {
			t.Fatal(err)
		}
	}
	settle()
	r := newReader(t, c)
	stream, err := r.stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g := &reading{r: r, stream: stream, last: 3}
	left := func(want bool, why string) {
		t.Helper()
		if got, err := g.anyLeft(t.Context(), 3); err != nil || got != want {
			t.Errorf("%s: it says %v, %v", why, got, err)
		}
	}
	left(true, "there is one more")
	g.filter.Lock = "orders/0"
	left(false, "the last one is of another lock")
	if err := stream.DeleteMsg(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	g.filter.Lock = ""
	left(false, "the last one was removed")
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	left(false, "all were removed")
	settle()
	if n, _, err := direct.Pending(); n != 0 || err != nil {
		t.Errorf("%d direct requests, %v", n, err)
	}
	if _, err := stream.GetMsg(t.Context(), 1); !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("a message that was removed: %v", err)
	}
	if _, err := direct.NextMsgWithContext(waittest.Context(t)); err != nil {
		t.Errorf("the test does not see direct requests: %v", err)
	}
}

// TestReplayOfAStreamThatIsReplaced: the end of the new stream is not taken for that of the old one.
func TestReplayOfAStreamThatIsReplaced(t *testing.T) {
	t.Parallel()
	for name, anew := range map[string]bool{"Made anew": true, "Gone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := threeRecords(t)
			r := newReader(t, c)
			stream, err := r.stream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			js := client(t, c)
			if err := js.DeleteStream(t.Context(), DefaultStream); err != nil {
				t.Fatal(err)
			}
			if anew {
				streamFor(t, js, nil)
			}
			g := &reading{r: r, stream: stream, last: 3}
			if left, err := g.anyLeft(t.Context(), 2); err == nil {
				t.Errorf("it says %v, and no error", left)
			}
		})
	}
}

// narrow is a stream as a server has it that does not know all of it yet: its consumers see the messages of one
// subject only.
type narrow struct {
	jetstream.Stream
	subject string
}

func (s narrow) CreateConsumer(ctx context.Context, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	cfg.FilterSubject = s.subject
	return s.Stream.CreateConsumer(ctx, cfg)
}

// TestResumeBehindTheStream: a publisher that resumes does not take what a server has for all that the stream has. It
// would send the rest twice.
func TestResumeBehindTheStream(t *testing.T) {
	c := threeRecords(t)
	stream, err := newReader(t, c).stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := "lockagent.v1." + string(eventstest.Agent) + ".>"
	for name, test := range map[string]struct {
		sees string
		from uint64
		read int
		fail bool
	}{
		"All":          {all, 1, 3, false},
		"TheLast":      {all, 3, 1, false},
		"BehindTheEnd": {all, 4, 0, false},
		"OneOfThree":   {"lockagent.v1.*.*.orders.0", 1, 1, true},
		"NoneOfThree":  {"lockagent.v1.nobody.>", 1, 0, true},
		"NoneOfNone":   {"lockagent.v1.nobody.>", 4, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			read := 0
			err := readFrom(t.Context(), narrow{stream, test.sees}, all, test.from, true, func(jetstream.Msg, uint64) { read++ })
			if read != test.read || (err != nil) != test.fail {
				t.Errorf("%d read, %v", read, err)
			}
		})
	}
	if err := readFrom(t.Context(), stream, "lockagent.v1.nobody.>", 1, true, nil); err != nil {
		t.Errorf("an agent without messages: %v", err)
	}
}
