package natslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/queue"
)

// resume begins a session. It makes sure that the stream exists and keeps its messages. It
// settles the messages that the stream has already; all others will be sent. It makes a few
// round trips, however many messages are in doubt.
func (s *sender) resume(ctx context.Context) error {
	stream, err := s.stream(ctx)
	if err != nil {
		return err
	}
	if err := checkPayload(s.nc); err != nil {
		return err
	}
	s.p.mu.Lock()
	s.session++ // what is said of earlier sessions does not count any more
	s.p.mu.Unlock()
	s.log = stream
	info := stream.CachedInfo()
	stored, err := s.stored(ctx, stream, info)
	if err != nil {
		return err
	}
	// After that: if what is stored is of another publisher, its last message is there by now.
	if err := s.checkEpoch(ctx); err != nil {
		return err
	}

	s.p.mu.Lock()
	s.p.outbox.settleAll(func(m *queue.Message) bool { return stored[m.ID] }, s.p.settled)
	s.position = info.State.LastSeq
	s.p.outbox.begin()
	s.p.mu.Unlock()
	if len(stored) > 0 || s.p.Stats().Queued == 0 {
		s.p.recovered() // before anybody learns that nothing is queued
	}
	s.p.mu.Lock()
	s.p.endFlushes()
	s.p.mu.Unlock()
	return nil
}

// checkPayload returns an error if the server takes no messages of the size that we need.
func checkPayload(nc *nats.Conn) error {
	if most := nc.MaxPayload(); most < queue.MaxMessage {
		return fmt.Errorf(
			"the NATS server takes messages of %d bytes only; set its max_payload to %d or more", most, queue.MaxMessage,
		)
	}
	return nil
}

// checkEpoch looks at the last record of the agent in the stream. It returns ErrEpoch if ours
// would be taken for repetitions, and ErrIdentity if another publisher uses our identity.
func (s *sender) checkEpoch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	s.looked = time.Now()
	m, id, err := lastIn(ctx, s.log, s.agent, s.p.cfg.Agent)
	if m == nil || err != nil {
		return err
	}
	own := s.p.cfg.Epoch
	switch {
	case id.Epoch < own:
		s.packer.Follows = events.Place{Epoch: id.Epoch, Seq: id.Last}
		return nil
	case id.Epoch > own || !s.begun:
		return fmt.Errorf("%w: it has epoch %d of agent %s, and this is epoch %d", ErrEpoch, id.Epoch, s.p.cfg.Agent, own)
	case !s.made(m, id):
		return fmt.Errorf("%w: message %v in the stream is of another publisher", ErrIdentity, id)
	}
	return nil
}

// lastIn returns the last message of an agent in a stream, with its id, or nil. subject is that of all messages of the
// agent.
func lastIn(
	ctx context.Context, stream jetstream.Stream, subject string, agent lockagent.AgentID,
) (*jetstream.RawStreamMsg, queue.MessageID, error) {
	m, err := stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, queue.MessageID{}, nil
	}
	if err != nil {
		return nil, queue.MessageID{}, fmt.Errorf("look for the last record of the agent: %w", err)
	}
	m, err = lastOf(agent, m, func(from, end uint64) (last *jetstream.RawStreamMsg, err error) {
		err = readFrom(ctx, stream, subject, from, false, func(m jetstream.Msg, at uint64) {
			other := &jetstream.RawStreamMsg{Sequence: at, Header: m.Headers(), Data: m.Data()}
			if _, ok := idOf(other, agent); ok && at < end {
				last = other
			}
		})
		return last, err
	})
	if err != nil {
		return nil, queue.MessageID{}, fmt.Errorf(
			"look for the last record of the agent before what is of somebody else: %w", err,
		)
	}
	if m == nil {
		return nil, queue.MessageID{}, nil
	}
	id, _ := idOf(m, agent)
	return m, id, nil
}

// lastOf returns the last message of an agent, or nil. last is the last one under the subjects of the
// agent. Somebody else may have put it there. Then lastOf goes backward in growing steps: look returns
// the last message of the agent from a position on and before another one, or nil.
func lastOf(
	agent lockagent.AgentID, last *jetstream.RawStreamMsg, look func(from, end uint64) (*jetstream.RawStreamMsg, error),
) (*jetstream.RawStreamMsg, error) {
	if _, ok := idOf(last, agent); ok {
		return last, nil
	}
	end := last.Sequence
	for step := uint64(1); end > 1; step *= 2 {
		from := end - min(step, end-1)
		if found, err := look(from, end); found != nil || err != nil {
			return found, err
		}
		end = from
	}
	return nil, nil
}

// idOf returns the id of a message, and whether it is of the agent.
func idOf(m *jetstream.RawStreamMsg, agent lockagent.AgentID) (queue.MessageID, bool) {
	id, ok := queue.ParseMessageID(m.Header.Get(jetstream.MsgIDHeader))
	return id, ok && id.Agent == agent
}

// made reports whether m is a message that this publisher made.
func (s *sender) made(m *jetstream.RawStreamMsg, id queue.MessageID) bool {
	if id.Last > s.packer.Last {
		return false
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	for _, own := range s.p.outbox.messages {
		if own.First() <= id.Last && id.Last <= own.Last {
			return bytes.Equal(s.packer.Encode(nil, own), m.Data)
		}
	}
	return true // it was settled before
}

// stored returns the ids of the messages of this agent that the stream may have taken without
// our knowing. It makes four round trips if anything is in doubt, and none otherwise.
//
// The stream may have the last message without some earlier ones, if it refused these for
// a moment.
func (s *sender) stored(
	ctx context.Context, stream jetstream.Stream, info *jetstream.StreamInfo,
) (map[string]bool, error) {
	s.p.mu.Lock()
	oldest := s.p.outbox.doubt()
	anew := !s.created.IsZero() && !info.Created.Equal(s.created)
	lost := info.State.LastSeq < s.position || anew && s.position > 0
	if lost {
		s.position = info.State.LastSeq
		s.p.outbox.lower(info.State.LastSeq, anew)
	}
	s.created = info.Created
	s.p.mu.Unlock()
	if lost {
		s.p.cfg.Logger.Error("events: the stream has lost events", "stream", s.p.cfg.Stream)
	}
	if oldest == nil || oldest.Floor >= info.State.LastSeq {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	ids := make(map[string]bool)
	err := readFrom(ctx, stream, s.agent, oldest.Floor+1, true, func(m jetstream.Msg, _ uint64) {
		ids[m.Headers().Get(jetstream.MsgIDHeader)] = true
	})
	if err != nil {
		return nil, fmt.Errorf("look for events sent before: %w", err)
	}
	return ids, nil
}

// readFrom calls visit for the messages with a subject from a position on, or for their headers.
func readFrom(
	ctx context.Context, stream jetstream.Stream, subject string, from uint64, headersOnly bool,
	visit func(m jetstream.Msg, position uint64),
) error {
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		FilterSubject:     subject,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       from,
		AckPolicy:         jetstream.AckNonePolicy,
		HeadersOnly:       headersOnly,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: 2 * ackTimeout,
	})
	if err != nil {
		return err
	}
	info := consumer.CachedInfo()
	defer func() { _ = stream.DeleteConsumer(ctx, info.Name) }() // or the server does, after a while
	end := from - 1
	if pending := int(info.NumPending); pending > 0 {
		if end, err = fetch(ctx, consumer, pending, visit); err != nil {
			return err
		}
	}
	// In a cluster the consumer may be on a server that was away, and that does not have all of the stream yet. With
	// direct access the same server may answer here. Then the rest is sent twice, and is a repetition to readers: the
	// right to ask the leader would let each agent read the log of all.
	switch last, err := stream.GetLastMsgForSubject(ctx, subject); {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil
	case err != nil:
		return err
	case last.Sequence > end && last.Sequence >= from:
		return fmt.Errorf("the server sent messages up to position %d, and the stream has one at %d", end, last.Sequence)
	}
	return nil
}

// fetch calls visit for the next messages, and returns the position of the last.
func fetch(
	ctx context.Context, consumer jetstream.Consumer, n int, visit func(m jetstream.Msg, position uint64),
) (end uint64, err error) {
	batch, err := consumer.Fetch(n, jetstream.FetchContext(ctx))
	if err != nil {
		return 0, err
	}
	got := 0
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return 0, err
		}
		got++
		end = meta.Sequence.Stream
		visit(m, end)
	}
	// The client library takes a batch that stays short for complete.
	if err := batch.Error(); err != nil || got >= n {
		return end, err
	}
	return 0, fmt.Errorf("the server sent %d of %d messages", got, n)
}

// dispensable reports whether err is that we may not delete an own consumer, or not ask who else has our subjects.
// Both can be done without.
func dispensable(err error) bool {
	missing, ok := errors.AsType[*PermissionError](err)
	return ok &&
		(strings.Contains(missing.Subject, ".CONSUMER.DELETE.") || strings.HasSuffix(missing.Subject, ".API.STREAM.NAMES"))
}
