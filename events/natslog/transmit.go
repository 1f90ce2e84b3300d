package natslog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/queue"
)

// send publishes what is due, until something is wrong.
func (s *sender) send(ctx context.Context) error {
	tick := time.NewTicker(ackTimeout)
	defer tick.Stop()
	timer := time.NewTimer(forEver)
	defer timer.Stop()
	var progress progress
	for {
		if err := s.forward(ctx); err != nil {
			return err
		}
		timer.Reset(s.p.rests(time.Since(s.p.began)))
		select {
		case <-s.p.wake:
		case <-timer.C:
		case <-tick.C:
			if !progress.made(s.p) {
				return errSilent
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errSilent is what a server that hangs looks like. But a NATS server says nothing either when
// its disk is full.
var errSilent = fmt.Errorf(
	"nothing was acknowledged for %v: the NATS server hangs, or cannot write to its disk", ackTimeout,
)

// forward moves what is due from the queue to the outbox, and what is there to the server.
func (s *sender) forward(ctx context.Context) error {
	for {
		items, missing, from := s.p.leave(time.Since(s.p.began), s.items[:0])
		if len(items) > 0 || missing != (events.Drops{}) {
			messages := s.packer.Pack(items, missing, from, time.Now())
			s.p.arrive(messages)
			clear(messages) // or it keeps memory of records that are settled later
			clear(items)
			s.items = items
		}
		sent, err := s.transmit(ctx)
		if err != nil {
			return err
		}
		if len(items) == 0 && !sent {
			return nil
		}
	}
}

// transmit sends what may be sent of the outbox.
func (s *sender) transmit(ctx context.Context) (sent bool, err error) {
	announced := uint64(0) // up to which index
	for ctx.Err() == nil {
		s.p.mu.Lock()
		m, index := s.p.outbox.take()
		s.p.mu.Unlock()
		if m == nil {
			return sent, nil
		}
		if !s.begun && time.Since(s.looked) > ackTimeout {
			// Another publisher may have begun with our identity in the meantime.
			if err := s.checkEpoch(ctx); err != nil {
				return sent, err
			}
		}
		s.begun = true
		s.p.mu.Lock()
		if m.Sent == 0 {
			m.Floor = s.position
		}
		m.Sent++ // before it is: the answer comes on another goroutine
		s.p.mu.Unlock()
		if s.p.cfg.Sending != nil && index >= announced {
			announced = s.announce(index)
		}
		if err := s.publish(m, index); err != nil {
			return sent, err
		}
		sent = true
	}
	return sent, ctx.Err()
}

func (s *sender) publish(m *queue.Message, index uint64) error {
	s.text = append(append(s.text[:0], s.inbox...), '.')
	s.text = strconv.AppendUint(s.text, s.session, 10) // written by this goroutine only
	s.text = append(s.text, '.')
	s.text = strconv.AppendUint(s.text, index, 10)
	s.body = s.packer.Encode(s.body[:0], m)
	s.msg.Subject, s.msg.Reply, s.msg.Data = m.Subject, string(s.text), s.body

	if s.msg.Header == nil {
		s.msg.Header = nats.Header{"Content-Type": {""}, jetstream.MsgIDHeader: {""}}
	}
	s.msg.Header["Content-Type"][0] = events.ContentType
	if m.Batch() {
		s.msg.Header["Content-Type"][0] = events.BatchContentType
	}
	s.msg.Header[jetstream.MsgIDHeader][0] = m.ID
	delete(s.msg.Header, "traceparent")
	if m.TraceParent != "" {
		s.msg.Header["traceparent"] = []string{m.TraceParent}
	}
	err := s.post(&s.msg)
	if errors.Is(err, nats.ErrReconnectBufExceeded) { // there is no buffer
		return errDisconnected
	}
	return err
}

// progress notices that no acknowledgement came between two looks at the outbox.
type progress struct {
	waited bool // there was something to be acknowledged
	first  uint64
}

func (g *progress) made(p *Publisher) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := *g
	*g = progress{waited: p.outbox.first < p.outbox.next, first: p.outbox.first}
	return !before.waited || !g.waited || before.first != g.first
}

// acknowledged takes what the server answers to a message.
func (s *sender) acknowledged(m *nats.Msg) {
	session, index, err := parseReply(m.Subject)
	if err != nil {
		s.p.cfg.Logger.Warn("events: unexpected message", "subject", m.Subject)
		return
	}
	answer, err := parseAnswer(m, s.p.cfg.Stream, s.agent)
	if err == nil {
		s.p.recovered() // before anybody learns that nothing is queued
	}
	endSendings(s.settleBy(session, index, answer, err), nil)
}

// settleBy ends the session if something is wrong with the answer. It returns the sendings that are
// over.
func (s *sender) settleBy(session, index uint64, answer answered, err error) (over []sending) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if session != s.session {
		return nil // what it says is looked up in the stream
	}
	if err == nil {
		if !answer.Duplicate && answer.Seq <= s.position {
			err = errAnew // the next session looks what there is
		} else {
			s.position = max(s.position, answer.Seq)
			err = s.settle(index, answer)
		}
	}
	if err != nil {
		s.end(err)
	}
	return s.over()
}

var errAnew = errors.New("the stream ended before the place where it ends now; it was made anew")

// settle takes message i out of the outbox. s.p.mu must be held.
func (s *sender) settle(i uint64, answer answered) error {
	o := &s.p.outbox
	if answer.Duplicate && i == o.first && o.next > i {
		if err := repeated(o.at(i), answer.Seq); err != nil {
			return err
		}
	}
	full := o.full
	m, err := o.settle(i)
	if err != nil || m == nil {
		return err
	}
	s.p.settled(m)
	s.p.endFlushes()
	if o.next < o.end() || full && !o.full {
		s.p.wakeUp()
	}
	return nil
}

var errRepeated = errors.New("the stream has the first message of this epoch already; it will be compared")

// repeated returns an error if the copy of the message that the stream has, at a position, is
// perhaps not ours.
//
// A message that was never sent before has no copy of ours. One that was sent before may never have reached the
// server. For the first message of the epoch the next session compares the copy with it. All
// others follow when the first one is known to be ours, and then nobody else has this identity.
func repeated(m *queue.Message, position uint64) error {
	switch {
	case m.Sent == 1:
		return fmt.Errorf("%w: message %s of another publisher is in the stream", ErrIdentity, m.ID)
	case m.First() == 1:
		m.Floor = min(m.Floor, position-1) // the stream may have been made anew
		return errRepeated
	}
	return nil
}

// parseReply returns the last two tokens of the subject of an acknowledgement.
func parseReply(subject string) (session, index uint64, err error) {
	tokens := strings.Split(subject, ".")
	if len(tokens) < 2 {
		return 0, 0, errors.New("too short")
	}
	tokens = tokens[len(tokens)-2:]
	session, err1 := strconv.ParseUint(tokens[0], 10, 64)
	index, err2 := strconv.ParseUint(tokens[1], 10, 64)
	return session, index, errors.Join(err1, err2)
}
