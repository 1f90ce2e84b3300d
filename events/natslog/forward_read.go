package natslog

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/queue"
)

// forwardAhead is how many messages are read ahead while a batch is under way, and as many again are
// under way themselves.
const forwardAhead = forwardBatch

// forwardReader reads ahead in the source.
type forwardReader struct {
	consumer string
	messages chan jetstream.Msg
	failed   chan error // capacity 1
	stop     func()
}

// read reads the source from a position on.
func (s *forwardSession) read(position uint64) (*forwardReader, error) {
	opening, cancel := context.WithTimeout(s.ctx, forwardTimeout)
	defer cancel()
	consumer, err := s.source.stream.OrderedConsumer(opening, jetstream.OrderedConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       position,
		InactiveThreshold: time.Minute,
		MaxResetAttempts:  1,
	})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(forwardAhead))
	if err != nil {
		return nil, err
	}
	r := &forwardReader{
		consumer: consumer.CachedInfo().Name,
		messages: make(chan jetstream.Msg, forwardAhead),
		failed:   make(chan error, 1),
	}
	ctx, cancelRead := context.WithCancel(s.ctx)
	done := make(chan signal)
	go func() {
		defer close(done)
		r.failed <- r.pump(ctx, messages)
	}()
	r.stop = func() {
		cancelRead()
		messages.Stop()
		<-done
		if s.source.nc.IsConnected() { // else the server forgets the consumer by itself, later
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = s.source.stream.DeleteConsumer(ctx, r.consumer)
		}
	}
	return r, nil
}

func (r *forwardReader) pump(ctx context.Context, messages jetstream.MessagesContext) error {
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		select {
		case r.messages <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// receive returns the next message of the source. If wait is false, it returns nil if none is there.
func (s *forwardSession) receive(wait bool) (jetstream.Msg, error) {
	if m := s.held; m != nil {
		s.held = nil
		return m, nil
	}
	if !wait {
		select {
		case m := <-s.reader.messages:
			return m, nil
		default:
			return nil, nil
		}
	}
	select {
	case m := <-s.reader.messages:
		return m, nil
	case err := <-s.reader.failed:
		return nil, atEnd(SourceEnd, err)
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// entry is a message on its way to the hub.
type entry struct {
	msg      nats.Msg
	id       queue.MessageID
	position uint64 // in the source
	origins  string // what the message says of earlier forwarders, with a comma behind it
	pending  uint64 // messages behind it in the source
}

// gather waits for the next messages to forward, and returns those that are there. If the source has
// discarded messages behind them, gone says which. What it returned before is overwritten.
func (s *forwardSession) gather() ([]entry, error) {
	s.batch, s.gone = s.batch[:0], events.Range{}
	for size := 0; len(s.batch) < s.f.limit && size < forwardBatchBytes; {
		m, err := s.receive(len(s.batch) == 0)
		if m == nil || err != nil {
			return s.batch, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, atEnd(SourceEnd, err)
		}
		if meta.Consumer != s.reader.consumer {
			return nil, atEnd(SourceEnd, errors.New("the consumer was replaced"))
		}
		if position := meta.Sequence.Stream; position > s.next {
			s.gone = events.Range{First: s.next, Last: position - 1}
			s.held, s.next = m, position
			return s.batch, nil
		}
		s.next = meta.Sequence.Stream + 1
		e, wanted, err := s.take(m, meta)
		if err != nil {
			return nil, err
		}
		if wanted {
			s.batch = append(s.batch, e)
			size += e.msg.Size()
		} else if len(s.batch) == 0 {
			s.f.reach(s.next - 1)
			if meta.NumPending == 0 {
				s.f.flows() // there is nothing to forward
			}
		}
	}
	return s.batch, nil
}

// take returns m as it is to be sent, and whether it is to be forwarded.
func (s *forwardSession) take(m jetstream.Msg, meta *jetstream.MsgMetadata) (e entry, wanted bool, err error) {
	position := meta.Sequence.Stream
	id, ok := queue.ParseMessageID(m.Headers().Get(jetstream.MsgIDHeader))
	agent, rest, named := s.source.parse(m.Subject())
	if !ok || !named || agent != id.Agent {
		s.foreign(m.Subject(), position)
		return entry{}, false, nil
	}
	k, err := s.mark(agent)
	if err != nil {
		return entry{}, false, err
	}
	if k.has(id, position) {
		s.f.count(func(st *ForwardStats) { st.Present++ })
		return entry{}, false, nil
	}
	h := m.Headers() // of this message only, so it may be changed
	for key := range h {
		if strings.HasPrefix(key, "Nats-") && key != jetstream.MsgIDHeader {
			delete(h, key) // with this the publisher asked the server of the source for something
		}
	}
	origins := h.Get(events.OriginHeader)
	if origins != "" {
		origins += ","
	}
	msg := nats.Msg{Subject: s.hub.cfg.Prefix + "." + rest, Data: m.Data(), Header: h}
	return entry{msg, id, position, origins, meta.NumPending}, true, nil
}

// foreign notes a message that is not from a publisher. Nobody can tell whether the hub has it, so
// it is not forwarded.
func (s *forwardSession) foreign(subject string, position uint64) {
	s.f.count(func(st *ForwardStats) { st.Foreign++ })
	s.f.complain(
		slog.LevelWarn, "events: messages that are not from a publisher are not forwarded", "position", position, "subject",
		subject,
	)
}
