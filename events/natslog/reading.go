package natslog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

const (
	// readerBeat is how often the server says that it has no message for us. The library makes a new
	// consumer if the server says nothing for twice as long.
	readerBeat = time.Second

	// idleCheck is how long no message may come before a reader looks whether that
	// has another reason than that there is none. The library counts the silence of the server anew
	// when the reader looks, so it must not look before the library has noticed.
	idleCheck = 3 * readerBeat

	// prefetch and prefetchBytes bound the messages that are under way to a reader.
	prefetch      = 4000
	prefetchBytes = 32 << 20
)

// reading is one pass over a stream, with one consumer. One goroutine fetches and decodes the
// messages, and the caller's visits their records.
type reading struct {
	r        *Reader
	stream   jetstream.Stream
	consumer jetstream.Consumer
	since    time.Time // what came before is skipped, until something came that did not
	filter   events.Filter
	last     uint64 // up to which position, or 0 if without end

	before     uint64 // up to which position the stream had messages that it is not to fetch
	at         uint64 // up to which position it has fetched, or 0 if it has fetched nothing
	name       string // of the consumer that the last message came from
	reconnects uint64 // of the connection, when it began

	free  chan *decoded // those that may be filled
	ready chan *decoded // those that may be visited
}

// errReplaced ends a read of what is not the stream any more that it was.
var errReplaced = errors.New("the stream was replaced")

// ahead is how many messages may be decoded before the first of them is visited.
const ahead = 16

// decoded is a message that is decoded.
type decoded struct {
	position uint64
	origin   string
	records  []events.Record
	err      error // behind the records, or nil
}

// read visits the records up to position last, or without end if last is 0. It
// returns the position up to which it has read, or 0 if it has read nothing.
func (r *Reader) read(
	ctx context.Context, stream jetstream.Stream, from From, filter events.Filter, last uint64, visit events.Visit,
) (uint64, error) {
	reconnects := r.nc.Stats().Reconnects
	consumer, err := r.consume(ctx, stream, from, filter)
	if err != nil {
		return 0, r.failed(ctx, nameOf(stream), err)
	}
	defer r.forget(stream, consumer)
	reading := reading{
		r: r, stream: stream, consumer: consumer, since: from.time, filter: filter, last: last, before: from.before(stream),
		name: consumer.CachedInfo().Name, reconnects: reconnects,
		free: make(chan *decoded, ahead), ready: make(chan *decoded, ahead),
	}
	if done, err := reading.ends(ctx, consumer.CachedInfo().NumPending); done || err != nil {
		return 0, err
	}
	messages, err := consumer.Messages(
		jetstream.PullMaxMessagesWithBytesLimit(prefetch, prefetchBytes), jetstream.PullHeartbeat(readerBeat),
	)
	if err != nil {
		return 0, r.failed(ctx, nameOf(stream), err)
	}
	defer messages.Stop()
	return reading.run(ctx, messages, visit)
}

// run visits what fetch decodes. It returns the position up to which it has visited all, when
// fetch has ended.
func (g *reading) run(
	ctx context.Context, messages jetstream.MessagesContext, visit events.Visit,
) (at uint64, err error) {
	fetching, cancel := context.WithCancel(ctx)
	fetched := make(chan error, 1)
	go func() {
		defer close(g.ready)
		fetched <- g.fetch(fetching, messages)
	}()
	defer func() {
		cancel()
		for range g.ready { // until fetch has ended
		}
	}()
	for range ahead {
		g.free <- new(decoded)
	}
	for m := range g.ready {
		if ctx.Err() != nil {
			return at, causeOf(ctx)
		}
		if err := m.visit(&g.filter, visit); err != nil {
			return at, err
		}
		at = max(at, m.position) // what is no copy, in a stream of copies, has no position
		g.free <- m
	}
	return at, <-fetched
}

// visit visits the records of a message that the filter selects.
func (m *decoded) visit(filter *events.Filter, visit events.Visit) error {
	for i := range m.records {
		if r := &m.records[i]; filter.Match(r) {
			if err := visit(r, nil); err != nil {
				return err
			}
		}
	}
	if m.err != nil {
		return visit(&events.Record{Position: m.position, Origin: m.origin}, m.err)
	}
	return nil
}

// fetch decodes messages until the end or an error.
func (g *reading) fetch(ctx context.Context, messages jetstream.MessagesContext) error {
	for {
		if done, err := g.while(ctx, messages); done || err != nil {
			return err
		}
	}
}

// while reads for as long as idleCheck. A timer for each message would take longer than the
// message itself. It reports whether the end is reached.
func (g *reading) while(ctx context.Context, messages jetstream.MessagesContext) (done bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, idleCheck)
	defer cancel()
	for idle := true; ; idle = false {
		m, err := messages.Next(jetstream.NextContext(bounded))
		switch {
		case err == nil:
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return false, g.r.failed(ctx, nameOf(g.stream), err)
		case idle:
			return g.idle(ctx)
		default:
			return false, nil
		}
		if done, err := g.take(ctx, m); done || err != nil {
			return done, err
		}
	}
}

// idle is called when no message came for a while. It reports whether the end is reached.
func (g *reading) idle(ctx context.Context) (done bool, err error) {
	if g.last == 0 {
		if g.r.nc.Stats().Reconnects != g.reconnects {
			return false, &interruption{errors.New("the connection was interrupted")}
		}
		return false, g.follow(ctx, g.consumer.CachedInfo().Name)
	}
	return g.ends(ctx, 0) // what was left may have been removed
}

// anyLeft reports whether there are messages for the filter from a position on, up to last.
func (g *reading) anyLeft(ctx context.Context, from uint64) (bool, error) {
	bounded, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	leader, err := leaderOf(bounded, g.r.js, nameOf(g.stream))
	if err != nil {
		return false, err
	}
	if commonEnd(g.stream, leader) < g.last {
		return false, errReplaced
	}
	for _, subject := range g.filter.Subjects(g.r.cfg.Prefix) {
		m, err := getNext(ctx, leader, from, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil || m.Sequence <= g.last {
			return true, err
		}
	}
	return false, nil
}

// getNext returns the first message with a subject from a position on.
func getNext(
	ctx context.Context, stream jetstream.Stream, from uint64, subject string,
) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	return stream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(subject))
}

// take takes a message. It reports whether the end is reached.
func (g *reading) take(ctx context.Context, m jetstream.Msg) (done bool, err error) {
	meta, err := m.Metadata()
	if err != nil {
		return false, g.r.failed(ctx, nameOf(g.stream), err)
	}
	position := meta.Sequence.Stream
	if g.last > 0 && position > g.last {
		return true, nil
	}
	if err := g.follow(ctx, meta.Consumer); err != nil {
		return false, err
	}
	if !meta.Timestamp.Before(g.since) {
		g.since = time.Time{} // the clocks of servers differ: what follows may seem to be earlier
		select {
		case d := <-g.free:
			g.decode(d, m, meta)
			g.ready <- d
		case <-ctx.Done():
			return false, causeOf(ctx)
		}
	}
	g.at = position
	return g.ends(ctx, meta.NumPending)
}

// follow notes which consumer is read now. If the library has made a new one, it may be that of another stream, which
// has nothing to say for a long time behind the position that was reached.
func (g *reading) follow(ctx context.Context, consumer string) error {
	if consumer == g.name {
		return nil
	}
	now, err := g.r.named(ctx, nameOf(g.stream))
	if err != nil {
		return err
	}
	if commonEnd(g.stream, now) < max(g.at, g.before) {
		return &interruption{errReplaced}
	}
	g.name = consumer
	return nil
}

// ends reports whether the end is reached, when the consumer says how many messages are pending. If it
// says none, the stream is asked. In a cluster the consumer may be on a server that was away, and that does not have
// all of the stream yet.
func (g *reading) ends(ctx context.Context, pending uint64) (bool, error) {
	if g.last == 0 || g.at < g.last && pending > 0 {
		return false, nil
	}
	// The server that has the consumer looked up where a time begins. What it did not have yet comes behind that.
	at := max(g.at, g.consumer.CachedInfo().Delivered.Stream)
	if at >= g.last {
		return true, nil
	}
	left, err := g.anyLeft(ctx, at+1)
	if err != nil {
		return false, g.r.failed(ctx, nameOf(g.stream), err)
	}
	return !left, nil
}

// decode decodes a message, up to the first record that is wrong.
func (g *reading) decode(d *decoded, m jetstream.Msg, meta *jetstream.MsgMetadata) {
	d.position, d.origin = meta.Sequence.Stream, m.Headers().Get(events.OriginHeader)
	stored := meta.Timestamp.UTC()
	if nameOf(g.stream) != g.r.cfg.Stream {
		d.position, stored = placeOfCopy(g.r.cfg.Stream, m), time.Time{} // the server's time is that of the copying
	}
	d.records = d.records[:0]
	err := events.DecodeMessage(m.Headers().Get("Content-Type"), m.Data(), func(r events.Record) error {
		d.records = append(d.records, r)
		return nil
	})
	place := place{prefix: g.r.cfg.Prefix, subject: m.Subject()}
	for i := range d.records {
		r := &d.records[i]
		if wrong := place.fits(r); wrong != nil {
			d.records, err = d.records[:i], wrong
			break
		}
		r.Position, r.Stored, r.Origin = d.position, stored, d.origin
	}
	d.err = nil
	if err != nil {
		d.err = &events.DecodeError{Position: d.position, Subject: m.Subject(), Err: err}
	}
}

// place is where a message was found, and what its records are about.
type place struct {
	prefix, subject string

	known bool // one record fits
	agent lockagent.AgentID
	class string
	lock  lockagent.Name
}

// fits returns an error unless r belongs into the message.
func (p *place) fits(r *events.Record) error {
	class := events.Class(r.Kind)
	if p.known && r.Agent == p.agent && r.Lock == p.lock && class == p.class {
		return nil
	}
	if r.Kind == 0 { // its class and its lock are not known for sure
		if begin := p.prefix + "." + string(r.Agent) + "."; !strings.HasPrefix(p.subject, begin) {
			return fmt.Errorf("it is an event for a subject that begins with %q", begin)
		}
		return nil
	}
	var space [256]byte
	if subject := events.AppendSubject(space[:0], p.prefix, r.Agent, r.Kind, r.Lock); string(subject) != p.subject {
		return fmt.Errorf("it is an event for subject %q", string(subject))
	}
	p.known, p.agent, p.class, p.lock = true, r.Agent, class, r.Lock
	return nil
}

func (r *Reader) consume(
	ctx context.Context, stream jetstream.Stream, from From, filter events.Filter,
) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	cfg := jetstream.OrderedConsumerConfig{
		FilterSubjects:    filter.Subjects(r.cfg.Prefix),
		DeliverPolicy:     from.policy,
		OptStartSeq:       from.position,
		InactiveThreshold: time.Minute,
		// The library waits between attempts without regard to any context.
		MaxResetAttempts: 1,
	}
	if !from.time.IsZero() {
		cfg.OptStartTime = &from.time
	}
	return r.js.OrderedConsumer(ctx, nameOf(stream), cfg)
}

// forget removes the consumer from the server, which would do so by itself later.
func (r *Reader) forget(stream jetstream.Stream, consumer jetstream.Consumer) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = r.js.DeleteConsumer(ctx, nameOf(stream), consumer.CachedInfo().Name)
}

func nameOf(stream jetstream.Stream) string { return stream.CachedInfo().Config.Name }
