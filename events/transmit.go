package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
)

const (
	// window bounds how many events are under way: enough to keep a server on the
	// other side of a continent busy.
	window = 1024

	// maxText bounds each text of an event, so that no event is too large for a
	// server. Names and owners that are valid are shorter.
	maxText = 1024
)

// send publishes what is in the queue, and what comes, until something is wrong.
func (s *sender) send(ctx context.Context) error {
	tick := time.NewTicker(ackTimeout)
	defer tick.Stop()
	var progress progress
	for {
		if it, index, ok := s.take(); ok {
			if err := s.publish(&it, index); err != nil {
				return err
			}
			select {
			case err := <-s.broken:
				return err
			case <-ctx.Done():
				return ctx.Err()
			default:
				continue
			}
		}
		select {
		case <-s.p.wake:
		case err := <-s.broken:
			return err
		case <-tick.C:
			s.p.mu.Lock()
			ok := progress.made(&s.p.queue)
			s.p.mu.Unlock()
			if !ok {
				return fmt.Errorf("nothing was acknowledged for %v", ackTimeout)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// progress notices that no acknowledgement came between two looks at the queue.
type progress struct {
	waited bool // there was something to be acknowledged
	head   uint64
}

func (p *progress) made(q *queue) bool {
	before := *p
	*p = progress{waited: q.head < q.next, head: q.head}
	return !before.waited || !p.waited || before.head != p.head
}

// take returns a copy of the next item to send. If there is none, the sender is
// woken when there may be one.
func (s *sender) take() (item, uint64, bool) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	it, index := s.p.queue.take(window)
	if it == nil {
		s.p.idle = true
		return item{}, 0, false
	}
	if index >= s.sent {
		s.sent = index + 1
		it.floor = s.position
	}
	return *it, index, true
}

func (s *sender) publish(it *item, index uint64) error {
	bound(&it.event)
	e := &it.event
	s.body = Append(s.body[:0], Record{Event: *e, Epoch: s.p.cfg.Epoch, Seq: it.seq})
	s.subject = AppendSubject(s.subject[:0], DefaultPrefix, e.Agent, e.Kind, e.Lock)
	s.text = append(append(s.text[:0], s.inbox...), '.')
	s.text = strconv.AppendUint(s.text, s.session, 10) // written by this goroutine only
	s.text = append(s.text, '.')
	s.text = strconv.AppendUint(s.text, index, 10)
	s.msg.Subject, s.msg.Reply, s.msg.Data = string(s.subject), string(s.text), s.body

	s.text = appendID(s.text[:0], e.Agent, s.p.cfg.Epoch, it.seq)
	if s.msg.Header == nil {
		s.msg.Header = nats.Header{"Content-Type": {ContentType}, jetstream.MsgIDHeader: {""}}
	}
	s.msg.Header[jetstream.MsgIDHeader][0] = string(s.text)
	delete(s.msg.Header, "traceparent")
	if e.TraceParent != "" {
		s.msg.Header["traceparent"] = []string{e.TraceParent}
	}
	switch err := s.nc.PublishMsg(&s.msg); { // copies everything
	case errors.Is(err, nats.ErrMaxPayload):
		s.reject(index, err)
		return nil
	case errors.Is(err, nats.ErrReconnectBufExceeded): // there is no buffer
		return errDisconnected
	default:
		return err
	}
}

// reject drops an item that the server will never take, so that it does not hold
// up those behind it.
func (s *sender) reject(index uint64, err error) {
	s.p.mu.Lock()
	s.p.settle(index, false)
	s.p.mu.Unlock()
	s.p.cfg.Logger.Error("events: an event was refused and is dropped", "err", err)
}

// errTooLarge is the code of a message that exceeds the limit of its stream.
const errTooLarge jetstream.ErrorCode = 10054

// acknowledged takes what the server answers to a published event.
func (s *sender) acknowledged(m *nats.Msg) {
	session, index, err := parseReply(m.Subject)
	if err != nil {
		s.p.cfg.Logger.Warn("events: unexpected message", "subject", m.Subject)
		return
	}
	var answer struct {
		Stream string              `json:"stream"`
		Seq    uint64              `json:"seq"`
		Error  *jetstream.APIError `json:"error"`
	}
	if m.Header.Get("Status") == "503" {
		err = fmt.Errorf("no stream takes the subject; add %q to the subjects of stream %q", AllSubjects, s.p.cfg.Stream)
	} else if err = json.Unmarshal(m.Data, &answer); err == nil {
		switch {
		case answer.Error != nil:
			err = answer.Error
		case answer.Stream != s.p.cfg.Stream:
			err = fmt.Errorf("stream %q takes the subjects of stream %q", answer.Stream, s.p.cfg.Stream)
		}
	}

	switch {
	case err == nil:
		s.p.recovered() // before anybody learns that the queue is empty
		s.p.mu.Lock()
		s.position = max(s.position, answer.Seq)
		s.p.settle(index, true)
		s.p.mu.Unlock()
	case answer.Error != nil && answer.Error.ErrorCode == errTooLarge:
		s.reject(index, err)
	default:
		s.p.mu.Lock()
		current := session == s.session
		s.p.mu.Unlock()
		if current {
			s.fail(err)
		}
	}
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

// bound cuts what is too long to be sent. Only requests that were refused for
// their names, and texts for people, are ever that long.
func bound(e *lockagent.Event) {
	for _, text := range []*string{
		(*string)(&e.Lock), (*string)(&e.Owner), &e.Incarnation, &e.Err,
		&e.Reset.From, &e.Reset.To, &e.Reset.Reason, &e.TraceParent,
	} {
		if len(*text) <= maxText {
			continue
		}
		end := maxText
		for end > maxText-utf8.UTFMax && !utf8.RuneStart((*text)[end]) {
			end--
		}
		*text = (*text)[:end]
	}
}
