package natslog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/queue"
)

const (
	// ackTimeout is how long nothing may be acknowledged before the server is
	// taken to have lost what was sent, and how long other answers may take.
	ackTimeout = 5 * time.Second

	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// sender is the goroutine of a [Publisher] that moves records from the queue to
// the stream. It works in sessions. A session ends with the first thing that goes
// wrong; the next one finds out what the stream has, and sends the rest again.
//
// No record is stored twice. What was sent in an earlier session is looked up in
// the stream first, however long ago that was. The server may still have had something
// in its hands at that moment. The message id catches that: the stream remembers it
// for two minutes.
//
// Messages are stored in their order, with one exception. The stream may refuse or lose a
// message, and take another one that was under way behind it. The numbers of the records tell.
type sender struct {
	p      *Publisher
	packer queue.Packer
	agent  string      // the subjects of all records of this agent
	status chan signal // capacity 1: the connection is up, or closed
	warned map[string]bool

	nc    *nats.Conn // nil before the first connection
	gone  chan signal
	post  func(*nats.Msg) error // hands a message to nc, which copies it
	js    jetstream.JetStream
	log   jetstream.Stream
	inbox string // acknowledgements go to <inbox>.<session>.<index>

	begun   bool      // a message was sent, in any session
	looked  time.Time // when the stream was asked for the last record of the agent
	created time.Time // when the stream was made
	items   []*queue.Item
	text    []byte
	body    []byte
	msg     nats.Msg

	// Guarded by p.mu, for acknowledgements come in on another goroutine.
	deaf     error // why the connection hears no answers, or nil
	session  uint64
	end      context.CancelCauseFunc // ends the session, or the attempt to begin one
	sendings []sending               // of this session, in their order
	position uint64                  // the last in the stream that is known of
}

type signal = struct{}

var errDisconnected = errors.New("disconnected from NATS")

// disconnected is errDisconnected, with its cause if there is one.
func disconnected(cause error) error {
	if cause == nil {
		return errDisconnected
	}
	return fmt.Errorf("%w: %w", errDisconnected, cause)
}

func newSender(p *Publisher) *sender {
	return &sender{
		p:      p,
		packer: queue.NewPacker(p.cfg.Agent, p.cfg.Epoch, p.cfg.Prefix),
		agent:  agentSubjects(p.cfg.Prefix, p.cfg.Agent),
		status: make(chan signal, 1),
		warned: make(map[string]bool),
	}
}

func (s *sender) run(ctx context.Context) {
	defer close(s.p.done)
	defer s.disconnect()
	backoff := minBackoff
	for {
		before := s.p.Stats().Messages
		err := s.work(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, ErrEpoch) || errors.Is(err, ErrIdentity) {
			s.p.fail(err)
			return
		}
		s.p.stall(err)
		if s.p.Stats().Messages > before {
			backoff = minBackoff
		}
		select {
		case <-time.After(backoff):
			backoff = min(2*backoff, maxBackoff)
		case <-ctx.Done():
			return
		}
	}
}

// work is one session. It returns what went wrong with it, or when ctx ends.
func (s *sender) work(ctx context.Context) (err error) {
	if err := s.connect(ctx); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer func() { s.giveUp(err) }()
	s.p.mu.Lock()
	s.end = end
	deaf := s.deaf
	s.p.mu.Unlock()
	if deaf != nil {
		s.disconnect() // it subscribes only once
		return deaf
	}
	if !s.nc.IsConnected() {
		return errDisconnected // the news of it came before there was a session
	}
	if err = s.resume(ctx); err == nil {
		err = s.send(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // what the error comes from
	}
	return err
}

// fail ends the session, if there is one, for what the client library tells.
func (s *sender) fail(err error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.end != nil {
		s.end(err)
	}
}

// connect returns when the connection is up.
func (s *sender) connect(ctx context.Context) error {
	if s.nc == nil || s.nc.IsClosed() {
		if err := s.dial(); err != nil {
			return err
		}
	}
	for !s.nc.IsConnected() {
		select {
		case <-s.status:
			if s.nc.IsClosed() {
				return disconnected(s.nc.LastError())
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// dial makes a new connection, because there was none or because the server
// closed it for good, as it does after a violation of its protocol.
func (s *sender) dial() error {
	s.disconnect()
	s.p.mu.Lock()
	s.deaf = nil
	s.p.mu.Unlock()
	gone := make(chan signal)
	changed := func(*nats.Conn) {
		select {
		case s.status <- signal{}:
		default:
		}
	}
	nc, err := Connect(s.p.cfg.Connection, nats.Name("lockagent "+string(s.p.cfg.Agent)),
		nats.RetryOnFailedConnect(true),
		nats.ConnectHandler(changed),
		nats.ReconnectHandler(changed),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { s.p.stall(explained(err)) }),
		nats.ErrorHandler(s.p.cfg.errorHandler(s.complained)),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) { s.fail(disconnected(cmp.Or(err, nc.LastError()))) }),
		nats.ClosedHandler(func(nc *nats.Conn) {
			s.fail(disconnected(nc.LastError()))
			changed(nc)
			close(gone)
		}))
	if err != nil {
		return err
	}
	s.nc, s.gone, s.post, s.inbox = nc, gone, nc.PublishMsg, nc.NewInbox()
	if s.js, err = s.p.cfg.JetStream(nc); err != nil {
		return err
	}
	_, err = nc.Subscribe(s.inbox+".*.*", s.acknowledged)
	return err
}

// complained ends the session if a permission is missing, which is then told as its end. The server does
// not answer what it does not permit.
func (s *sender) complained(err error) (told bool) {
	if !errors.Is(err, ErrNotPermitted) || dispensable(err) {
		return false
	}
	if missing, ok := errors.AsType[*PermissionError](err); ok && missing.Operation == "subscribe" {
		s.p.mu.Lock()
		s.deaf = err
		s.p.mu.Unlock()
	}
	s.fail(err)
	return true
}

func (s *sender) disconnect() {
	if s.nc != nil {
		s.nc.Close()
		<-s.gone
		s.nc = nil
	}
}

// agentSubjects are the subjects of all events of an agent.
func agentSubjects(prefix string, agent lockagent.AgentID) string {
	return prefix + "." + string(agent) + ".>"
}
