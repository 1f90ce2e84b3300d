package natslog

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/queue"
)

// Limits of a batch. The server's own limit is 1000 messages.
const (
	forwardBatch      = 500
	forwardBatchBytes = 1 << 20
)

// Headers of a batch that is stored as a whole or not at all.
const (
	batchIDHeader     = "Nats-Batch-Id"
	batchSeqHeader    = "Nats-Batch-Sequence"
	batchCommitHeader = "Nats-Batch-Commit"
)

// store returns when the hub has the batch.
func (s *forwardSession) store(batch []entry) error {
	for len(batch) > 0 {
		n := 1
		if s.atomic {
			n = len(batch)
		}
		if err := s.storeAtOnce(batch[:n]); err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// storeAtOnce stores all entries or none, and only if the hub has the last message that we know of
// each of their agents.
func (s *forwardSession) storeAtOnce(entries []entry) error {
	last := entries[len(entries)-1]
	answer, err := s.send(entries)
	switch {
	case err == nil:
	case len(entries) == 1 && last.tooLarge(err):
		s.refused(last, err)
		return nil
	default:
		if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == errWrongLast {
			s.f.count(func(st *ForwardStats) { st.Conflicts++ })
		}
		return atEnd(HubEnd, err)
	}
	for i, e := range entries {
		s.stored(e, answer, answer.Seq-uint64(len(entries)-1-i))
	}
	if !answer.Duplicate { // else the hub has an earlier copy, which does not say what is lost
		s.copied()
	}
	s.f.count(func(st *ForwardStats) {
		if answer.Duplicate {
			st.Present++
		} else {
			st.Forwarded += uint64(len(entries))
		}
		st.Behind = last.pending
	})
	s.f.flows()
	s.f.limit = min(2*s.f.limit, forwardBatch)
	return nil
}

// stored notes that the hub has e, at seq.
func (s *forwardSession) stored(e entry, answer answered, seq uint64) {
	before := s.marks[e.id.Agent]
	if answer.Duplicate {
		seq = before.seq // the message was there before, and perhaps it was removed
	}
	s.marks[e.id.Agent] = mark{seq: seq, id: e.id, position: e.position}
}

// tooLarge reports whether the hub refused e because it is larger than what a hub must take. No
// publisher makes such a message. If a smaller one is refused, a setting of the hub was changed, and
// can be changed back.
func (e *entry) tooLarge(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return e.msg.Size() > queue.MaxMessage && (ok && api.ErrorCode == errTooLarge || errors.Is(err, nats.ErrMaxPayload))
}

// send publishes entries, and returns the answer of the hub.
func (s *forwardSession) send(entries []entry) (answered, error) {
	s.sent++
	reply := s.inbox + "." + strconv.FormatUint(s.sent, 10)
	expected := make(map[lockagent.AgentID]bool)
	for i := range entries {
		e := &entries[i]
		h := e.msg.Header
		if i == 0 {
			h[jetstream.ExpectedStreamHeader] = []string{s.hub.cfg.Stream}
			h[events.OriginHeader] = []string{
				e.origins + events.Origin{Stream: s.origin, Position: e.position, Lost: s.lost}.String(),
			}
		} else {
			h[events.OriginHeader] = []string{e.origins + events.Origin{Stream: s.origin, Position: e.position}.String()}
		}
		if !expected[e.id.Agent] {
			expected[e.id.Agent] = true
			h[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(s.marks[e.id.Agent].seq, 10)}
			h[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{s.agentSubjects(e.id.Agent)}
		}
		if len(entries) > 1 {
			h[batchIDHeader] = []string{s.id + "-" + strconv.FormatUint(s.sent, 10)}
			h[batchSeqHeader] = []string{strconv.Itoa(i + 1)}
		}
		if i == 0 { // the hub says here that it cannot take the batch
			e.msg.Reply = reply
		}
		if i == len(entries)-1 {
			e.msg.Reply = reply
			if i > 0 {
				h[batchCommitHeader] = []string{"1"}
			}
		}
		if err := s.hub.nc.PublishMsg(&e.msg); err != nil {
			return answered{}, err
		}
	}
	return s.await(reply)
}

// await returns the answer to what was sent with reply.
func (s *forwardSession) await(reply string) (answered, error) {
	timeout, cancel := context.WithTimeout(s.ctx, forwardTimeout)
	defer cancel()
	for {
		select {
		case m := <-s.answers:
			if m.Subject != reply || len(m.Data) == 0 && len(m.Header) == 0 {
				continue // the beginning of a batch arrived
			}
			return parseAnswer(m, s.hub.cfg.Stream, s.hub.cfg.Prefix+".>")
		case <-timeout.Done():
			return answered{}, fmt.Errorf("no answer: %w", timeout.Err())
		}
	}
}
