package events

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// ackTimeout is how long nothing may be acknowledged before the server is
	// taken to have lost what was sent, and how long other answers may take.
	ackTimeout = 5 * time.Second

	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// sender is the goroutine of a [Publisher] that moves events from the queue to
// the stream. It works in sessions. A session ends with the first thing that goes
// wrong; the next one finds out what the stream has, and sends the rest again.
//
// No event is stored twice. What was sent in an earlier session is looked up in
// the stream first, so it does not matter how long ago that was; what the server
// may still have had in its hands at that moment is caught by the message id,
// which the stream remembers for two minutes.
type sender struct {
	p      *Publisher
	agent  string      // the subjects of all events of this agent
	broken chan error  // capacity 1: why the session must end, or cannot begin
	status chan signal // capacity 1: the connection is up, or closed

	nc    *nats.Conn // nil before the first connection
	gone  chan signal
	js    jetstream.JetStream
	inbox string // acknowledgements go to <inbox>.<session>.<index>
	sent  uint64 // no item from this index on was ever sent

	body, subject, text []byte // buffers for what is being sent
	msg                 nats.Msg

	// Guarded by p.mu, for acknowledgements come in on another goroutine.
	session  uint64
	position uint64 // the last in the stream that is known of
}

type signal = struct{}

var errDisconnected = errors.New("disconnected from NATS")

func newSender(p *Publisher) *sender {
	return &sender{
		p:      p,
		agent:  DefaultPrefix + "." + string(p.cfg.Agent) + ".>",
		broken: make(chan error, 1),
		status: make(chan signal, 1),
	}
}

func (s *sender) run(ctx context.Context) {
	defer close(s.p.done)
	defer s.disconnect()
	backoff := minBackoff
	for {
		before := s.p.Stats().Published
		err := s.work(ctx)
		if ctx.Err() != nil {
			return
		}
		s.p.stall(err)
		if s.p.Stats().Published > before {
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
func (s *sender) work(ctx context.Context) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	if err := s.resume(ctx); err != nil {
		return err
	}
	return s.send(ctx)
}

func (s *sender) fail(err error) {
	select {
	case s.broken <- err:
	default:
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
		case err := <-s.broken:
			s.p.stall(err)
		case <-s.status:
			if s.nc.IsClosed() {
				return errors.Join(errDisconnected, s.nc.LastError())
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// What broke before this session has nothing under way is not to break it.
	select {
	case err := <-s.broken:
		s.p.cfg.Logger.Debug("events: connected again", "after", err)
	default:
	}
	return nil
}

// dial makes a new connection, because there was none or because the server
// closed it for good, as it does after a violation of its protocol.
func (s *sender) dial() error {
	s.disconnect()
	gone := make(chan signal)
	changed := func(*nats.Conn) {
		select {
		case s.status <- signal{}:
		default:
		}
	}
	nc, err := s.p.cfg.dial("lockagent "+string(s.p.cfg.Agent),
		nats.RetryOnFailedConnect(true),
		nats.ConnectHandler(changed),
		nats.ReconnectHandler(changed),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { s.fail(err) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { s.fail(errors.Join(errDisconnected, err)) }),
		nats.ClosedHandler(func(nc *nats.Conn) {
			s.fail(errors.Join(errDisconnected, nc.LastError()))
			changed(nc)
			close(gone)
		}))
	if err != nil {
		return err
	}
	s.nc, s.gone, s.inbox = nc, gone, nc.NewInbox()
	if s.js, err = s.p.cfg.jetStream(nc); err != nil {
		return err
	}
	_, err = nc.Subscribe(s.inbox+".*.*", s.acknowledged)
	return err
}

func (s *sender) disconnect() {
	if s.nc != nil {
		s.nc.Close()
		<-s.gone
		s.nc = nil
	}
}

// stall notes why nothing is published. It logs the first reason, and those that
// follow it only for those who look for them.
func (p *Publisher) stall(err error) {
	p.mu.Lock()
	first := p.stalled == nil
	p.stalled = err
	p.mu.Unlock()
	if first {
		p.cfg.Logger.Warn("events: nothing is published until this is over; events wait in the queue", "err", err)
	} else {
		p.cfg.Logger.Debug("events: still nothing is published", "err", err)
	}
}

// recovered notes that publishing goes on: something was acknowledged, or there
// is nothing to publish.
func (p *Publisher) recovered() {
	p.mu.Lock()
	was, dropped := p.stalled, p.dropped
	p.stalled = nil
	p.mu.Unlock()
	if was != nil {
		p.cfg.Logger.Info("events: publishing again", "dropped", dropped)
	}
}
