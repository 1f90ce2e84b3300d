package natslog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// copiesOf is the name of the second stream in these tests.
const copiesOf = DefaultStream + "_URGENT"

// forgotten returns a connection to a server whose log had four messages, which have consequences. The log has
// forgotten all but the last one, and there are copies of all.
func forgotten(t *testing.T) Connection { return forgottenBefore(t, 4) }

// forgottenBefore is forgotten with another position of the first message that the log has.
func forgottenBefore(t *testing.T, first uint64) Connection {
	t.Helper()
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c})
	for i := range 4 {
		p.Record(t.Context(), lockagent.Event{
			Kind: lockagent.EventBroken, Lock: lockagent.Name(fmt.Sprint("orders/", i)), Owner: "joe",
		})
	}
	flushed(t, p)
	js := client(t, c)
	awaitCopies(t, js, copiesOf, 4)
	log, err := js.Stream(t.Context(), DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Purge(t.Context(), jetstream.WithPurgeSequence(first)); err != nil {
		t.Fatal(err)
	}
	return c
}

// awaitCopies returns when the server has made so many copies.
func awaitCopies(t *testing.T, js jetstream.JetStream, stream string, want uint64) {
	t.Helper()
	waittest.Until(t, "the server to have made the copies", func() bool {
		s, err := js.Stream(waittest.Context(t), stream)
		return err == nil && s.CachedInfo().State.LastSeq == want
	})
}

// interrupting is a server that interrupts the first reading of the copies behind so many messages.
type interrupting struct {
	jetstream.JetStream
	behind int
	done   bool
}

func (s *interrupting) OrderedConsumer(
	ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig,
) (jetstream.Consumer, error) {
	consumer, err := s.JetStream.OrderedConsumer(ctx, stream, cfg)
	if err != nil || stream != copiesOf || s.done {
		return consumer, err
	}
	s.done = true
	return interruptedConsumer{consumer, s.behind}, nil
}

type interruptedConsumer struct {
	jetstream.Consumer
	behind int
}

func (c interruptedConsumer) Messages(opts ...jetstream.PullMessagesOpt) (jetstream.MessagesContext, error) {
	messages, err := c.Consumer.Messages(opts...)
	return &interruptedMessages{messages, c.behind}, err
}

type interruptedMessages struct {
	jetstream.MessagesContext
	left int
}

func (m *interruptedMessages) Next(opts ...jetstream.NextOpt) (jetstream.Msg, error) {
	if m.left == 0 {
		return nil, errors.New("interrupted by the test")
	}
	m.left--
	return m.MessagesContext.Next(opts...)
}

// positions is a visit that keeps where each record was, and ends with the record at last.
func positions(to *[]uint64, last uint64) events.Visit {
	return func(r *events.Record, err error) error {
		*to = append(*to, r.Position)
		if err == nil && r.Position == last {
			err = errEnough
		}
		return err
	}
}

// A Tail goes on where it was when the reading of the copies is interrupted. A Replay says so.
func TestInterruptedCopies(t *testing.T) {
	t.Parallel()
	long := time.Now()
	c := forgotten(t)
	for name, from := range map[string]From{"All": {}, "FromPosition": FromPosition(1), "FromTime": FromTime(long)} {
		for behind := range 3 {
			t.Run(fmt.Sprint(name, "/", behind), func(t *testing.T) {
				t.Parallel()
				r := newReader(t, c)
				plain := r.js
				r.js = &interrupting{JetStream: plain, behind: behind}
				var got []uint64
				err := r.Tail(waittest.Context(t), from, events.Filter{Urgent: true}, positions(&got, 4))
				if !errors.Is(err, errEnough) || !slices.Equal(got, upTo(1, 4)) {
					t.Errorf("followed %v, %v", got, err)
				}
				r.js, got = &interrupting{JetStream: plain, behind: behind}, nil
				err = r.Replay(waittest.Context(t), from, events.Filter{Urgent: true}, positions(&got, 0))
				if _, ok := errors.AsType[*interruption](err); !ok || !slices.Equal(got, upTo(1, uint64(behind))) {
					t.Errorf("read %v, %v", got, err)
				}
			})
		}
	}
}

// answeringLate is a server that answers the first question for the copies too late.
type answeringLate struct {
	jetstream.JetStream
	done bool
}

func (s *answeringLate) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if name == copiesOf && !s.done {
		s.done = true
		return nil, context.DeadlineExceeded
	}
	return s.JetStream.Stream(ctx, name)
}

// Nobody takes the silence of a server for the answer that there are no copies.
func TestLateAnswerAboutCopies(t *testing.T) {
	t.Parallel()
	r := newReader(t, forgotten(t))
	plain := r.js
	r.js = &answeringLate{JetStream: plain}
	var got []uint64
	err := r.Replay(waittest.Context(t), From{}, events.Filter{Urgent: true}, positions(&got, 0))
	if !errors.Is(err, context.DeadlineExceeded) || len(got) > 0 {
		t.Errorf("read %v, %v", got, err)
	}
	r.js, got = &answeringLate{JetStream: plain}, nil
	err = r.Tail(waittest.Context(t), From{}, events.Filter{Urgent: true}, positions(&got, 4))
	if !errors.Is(err, errEnough) || !slices.Equal(got, upTo(1, 4)) {
		t.Errorf("followed %v, %v", got, err)
	}
}

// What the log forgets while its copies are read is read from the copies, too.
func TestLogForgetsWhileItsCopiesAreRead(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(*Reader) func(context.Context, From, events.Filter, events.Visit) error{
		"Replay": func(r *Reader) func(context.Context, From, events.Filter, events.Visit) error { return r.Replay },
		"Tail":   func(r *Reader) func(context.Context, From, events.Filter, events.Visit) error { return r.Tail },
	} {
		c := forgottenBefore(t, 2)
		log, err := client(t, c).Stream(t.Context(), DefaultStream)
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		visit := positions(&got, 4)
		replay := read(newReader(t, c))
		err = replay(waittest.Context(t), From{}, events.Filter{Urgent: true}, func(r *events.Record, err error) error {
			if r.Position == 1 {
				if err := log.Purge(t.Context(), jetstream.WithPurgeSequence(4)); err != nil {
					t.Error(err)
				}
			}
			return visit(r, err)
		})
		if !errors.Is(err, errEnough) || !slices.Equal(got, []uint64{1, 2, 3, 4}) {
			t.Errorf("%s: read %v, %v", name, got, err)
		}
	}
}

// Copies that are removed while they are read are no log that nobody has made yet.
func TestCopiesAreRemoved(t *testing.T) {
	t.Parallel()
	c := forgotten(t)
	r := newReader(t, c)
	js := client(t, c)
	r.js = removing{r.js, func() {
		if err := js.DeleteStream(t.Context(), copiesOf); err != nil {
			t.Error(err)
		}
	}}
	err := r.Replay(t.Context(), From{}, events.Filter{Urgent: true}, positions(new([]uint64), 0))
	if err == nil || errors.Is(err, ErrNoStream) || !strings.Contains(err.Error(), copiesOf) {
		t.Errorf("got %v", err)
	}
}

// removing is a server whose copies are removed just before they are read.
type removing struct {
	jetstream.JetStream
	remove func()
}

func (s removing) OrderedConsumer(
	ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig,
) (jetstream.Consumer, error) {
	if stream == copiesOf {
		s.remove()
	}
	return s.JetStream.OrderedConsumer(ctx, stream, cfg)
}

// A consumer that the library makes anew while the copies are read is compared with the copies, and not with the log.
func TestNewConsumerOfTheCopies(t *testing.T) {
	t.Parallel()
	c := forgotten(t)
	r := newReader(t, c)
	copies, err := r.named(t.Context(), copiesOf)
	if err != nil {
		t.Fatal(err)
	}
	g := reading{r: r, stream: copies, at: 3, name: "a consumer"}
	if err := g.follow(t.Context(), "another consumer"); err != nil {
		t.Errorf("the copies are what they were: %v", err)
	}
	js := client(t, c)
	if err := js.DeleteStream(t.Context(), copiesOf); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), copies.CachedInfo().Config); err != nil {
		t.Fatal(err)
	}
	if err := g.follow(t.Context(), "a third consumer"); err == nil {
		t.Error("it does not notice that the copies were made anew")
	}
}

// The server's time of a copy is when it was made. So nobody learns that time as the one at which the log took the
// record.
func TestTimesOfCopies(t *testing.T) {
	t.Parallel()
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c})
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventBroken, Lock: "orders/42", Owner: "joe"})
	flushed(t, p)
	js := client(t, c)
	taken := messages(t, js, DefaultStream)[0].Time
	log, err := js.Stream(t.Context(), DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), copiesOf); err != nil {
		t.Fatal(err)
	}
	between := time.Now()
	if err := makeUrgent(t.Context(), js, &log.CachedInfo().Config, events.DefaultPrefix); err != nil {
		t.Fatal(err)
	}
	awaitCopies(t, js, copiesOf, 1)
	if copied := messages(t, js, copiesOf)[0].Time; copied.Before(between) {
		t.Errorf("the log took it at %v, and the copy says %v", taken, copied)
	}
	if err := log.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]From{"All": {}, "FromTime": FromTime(between)} {
		var got []events.Record
		reader, urgent := newReader(t, c), events.Filter{Urgent: true}
		err := reader.Replay(waittest.Context(t), from, urgent, func(r *events.Record, err error) error {
			got = append(got, *r)
			return err
		})
		// Of a time it is too much rather than too little.
		if err != nil || len(got) != 1 || got[0].Position != 1 || !got[0].Stored.IsZero() {
			t.Errorf("%s: read %+v, %v", name, got, err)
		}
	}
}
