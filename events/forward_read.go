package events

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
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
	id       messageID
	position uint64 // in the source
	pending  uint64 // messages behind it in the source
}

// gather waits for the next messages to forward, and returns those that are there. It returns
// earlier if messages of the source are lost.
func (s *forwardSession) gather() ([]entry, error) {
	var batch []entry
	for size := 0; len(batch) < s.f.limit && size < forwardBatchBytes; {
		m, err := s.receive(len(batch) == 0)
		if m == nil || err != nil {
			return batch, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, atEnd(SourceEnd, err)
		}
		if meta.Consumer != s.reader.consumer {
			return nil, atEnd(SourceEnd, errors.New("the consumer was replaced"))
		}
		if position := meta.Sequence.Stream; position > s.next {
			s.discarded(Range{s.next, position - 1})
			s.held, s.next = m, position
			return batch, nil
		}
		s.next = meta.Sequence.Stream + 1
		e, err := s.take(m, meta)
		if err != nil {
			return nil, err
		}
		if e != nil {
			batch = append(batch, *e)
			size += e.msg.Size()
		} else if len(batch) == 0 && meta.NumPending == 0 {
			s.f.flows() // there is nothing to forward
		}
	}
	return batch, nil
}

// discarded notes that the source has removed messages that were not forwarded.
func (s *forwardSession) discarded(r Range) {
	n := r.Last - r.First + 1
	s.lose(r)
	s.f.count(func(st *ForwardStats) { st.Discarded += n })
	s.f.complain(slog.LevelError, "events: messages were discarded before they were forwarded",
		"messages", n, "first", r.First, "last", r.Last, "all", s.f.Stats().Discarded)
}

// lose notes messages that will not be forwarded. They follow those that are noted already.
func (s *forwardSession) lose(r Range) {
	if s.lost.Last > 0 {
		r.First = s.lost.First
	}
	s.lost, s.lastLoss = r, r.Last
}

// take returns m as it is to be sent, or nil if it is not to be forwarded.
func (s *forwardSession) take(m jetstream.Msg, meta *jetstream.MsgMetadata) (*entry, error) {
	position := meta.Sequence.Stream
	id, ok := parseMessageID(m.Headers().Get(jetstream.MsgIDHeader))
	agent, rest, named := s.parseSource(m.Subject())
	if !ok || !named || agent != id.agent {
		s.foreign(m.Subject(), position)
		return nil, nil
	}
	k, err := s.mark(id.agent)
	if err != nil {
		return nil, err
	}
	if k.has(id, position) {
		s.f.count(func(st *ForwardStats) { st.Present++ })
		return nil, nil
	}
	e := &entry{id: id, position: position, pending: meta.NumPending}
	e.msg = nats.Msg{Subject: s.hub.cfg.Prefix + "." + rest, Data: m.Data(), Header: s.headers(m.Headers(), position)}
	return e, nil
}

// parseSource returns the agent that a subject of the source names, and what follows the prefix. It
// returns false if it is not the subject of an agent.
func (s *forwardSession) parseSource(subject string) (agent lockagent.AgentID, rest string, ok bool) {
	rest, ok = strings.CutPrefix(subject, s.source.cfg.Prefix+".")
	name, _, more := strings.Cut(rest, ".")
	agent = lockagent.AgentID(name)
	return agent, rest, ok && more && validAgent(agent)
}

// foreign notes a message that is not from a publisher. Nobody can tell whether the hub has it, so
// it is not forwarded.
func (s *forwardSession) foreign(subject string, position uint64) {
	s.f.count(func(st *ForwardStats) { st.Foreign++ })
	s.f.complain(slog.LevelWarn, "events: messages that are not from a publisher are not forwarded", "position", position, "subject", subject)
}
