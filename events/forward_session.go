package events

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
)

const (
	// forwardTimeout is how long an answer may take, that to a batch of [forwardBatchBytes] too.
	forwardTimeout = 10 * time.Second

	// forwardAhead is how many messages are read ahead while a batch is under way, and as many
	// again are under way themselves.
	forwardAhead = forwardBatch
)

// forwardSession is what a [Forwarder] knows while nothing goes wrong. It is made of what the two
// streams say, and thrown away with its connections after any error.
type forwardSession struct {
	f   *Forwarder
	ctx context.Context // ends with the session; its cause says why

	from, to *forwardEnd
	source   jetstream.Stream
	hub      jetstream.Stream
	origin   string            // of the source; see [origin]
	teller   lockagent.AgentID // tells the hub what is missing
	atomic   bool              // the hub takes batches

	marks    map[lockagent.AgentID]mark
	next     uint64 // where the next message of the source should stand
	lost     Range  // messages of the source that were lost and are not told yet; Last is 0 if there are none
	lastLoss uint64 // where the last lost message stood, or 0

	reader *forwardReader
	held   jetstream.Msg // read, but not looked at yet; or nil

	id      string // names this session to the hub
	inbox   string // answers of the hub go to <inbox>.<number of what was sent>
	answers chan *nats.Msg
	sent    uint64
}

// forwardEnd is one of two connections. It does not come back when it is interrupted.
type forwardEnd struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	gone chan signal // closed when the connection is closed
}

func (e *forwardEnd) close() {
	e.nc.Close()
	<-e.gone
}

// connect connects to one end. Whatever goes wrong with the connection later ends the session.
func (f *Forwarder) connect(c *Connection, which string, fail context.CancelCauseFunc) (*forwardEnd, error) {
	e := &forwardEnd{gone: make(chan signal)}
	nc, err := c.dial("lockagent forwarder", nats.NoReconnect(),
		nats.ErrorHandler(c.errorHandler(func(err error) { fail(fmt.Errorf("%s: %w", which, err)) })),
		nats.ClosedHandler(func(nc *nats.Conn) {
			fail(errors.Join(fmt.Errorf("%s: the connection was closed", which), nc.LastError()))
			close(e.gone)
		}))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", which, err)
	}
	e.nc = nc
	if e.js, err = c.jetStream(nc); err != nil {
		e.close()
		return nil, fmt.Errorf("%s: %w", which, err)
	}
	return e, nil
}

// session forwards until something is wrong, and returns what it was.
func (f *Forwarder) session(parent context.Context) error {
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	s := &forwardSession{
		f:       f,
		ctx:     ctx,
		marks:   make(map[lockagent.AgentID]mark),
		id:      rand.Text(),
		answers: make(chan *nats.Msg, 4),
	}
	var err error
	if s.from, err = f.connect(&f.cfg.From.Connection, "source", fail); err != nil {
		return err
	}
	defer s.from.close()
	if s.to, err = f.connect(&f.cfg.To.Connection, "hub", fail); err != nil {
		return err
	}
	defer s.to.close()
	err = s.run()
	if cause := context.Cause(ctx); cause != nil {
		return cause // it is why err is
	}
	return err
}

// run never returns nil.
func (s *forwardSession) run() error {
	if err := s.open(); err != nil {
		return err
	}
	if err := s.listen(); err != nil {
		return err
	}
	if err := s.resume(); err != nil {
		return err
	}
	var err error
	if s.reader, err = s.read(s.next); err != nil {
		return fmt.Errorf("read the source: %w", err)
	}
	defer s.reader.stop()
	for {
		batch, err := s.gather()
		if err != nil {
			return err
		}
		if err := s.store(batch); err != nil {
			return err
		}
		if s.lost.Last > 0 {
			if err := s.tell(); err != nil {
				return err
			}
		}
	}
}

// open finds both streams.
func (s *forwardSession) open() (err error) {
	cfg := &s.f.cfg
	if s.source, err = findStream(s.ctx, s.from.js, cfg.From.Stream); err != nil {
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			err = fmt.Errorf("%w: %s", ErrNoStream, cfg.From.Stream)
		}
		return fmt.Errorf("source: %w", err)
	}
	s.hub, err = findStream(s.ctx, s.to.js, cfg.To.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s.hub, err = s.makeHub()
	}
	if err != nil {
		return fmt.Errorf("hub: stream %q: %w", cfg.To.Stream, err)
	}
	source, hub := s.source.CachedInfo(), s.hub.CachedInfo()
	if flaw := flawOf(&hub.Config, cfg.To.Prefix+".>", cfg.To.Prefix+".>"); flaw != nil {
		return fmt.Errorf("hub: %w", flaw)
	}
	if source.Config.Name == hub.Config.Name && source.Created.Equal(hub.Created) {
		return &lockagent.OptionError{Option: "To", Reason: "it is the same stream as From"}
	}
	s.origin = originOf(source.Created)
	s.teller = lockagent.AgentID("forwarder-" + s.origin)
	s.atomic = hub.Config.AllowAtomicPublish
	if !s.atomic && !s.f.warned {
		s.f.warned = true
		s.f.cfg.Logger.Warn("events: the stream of the hub takes no batches, so each message costs a round trip; set allow_atomic in its configuration", "stream", cfg.To.Stream)
	}
	return nil
}

func findStream(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	return js.Stream(ctx, name)
}

func (s *forwardSession) makeHub() (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(s.ctx, forwardTimeout)
	defer cancel()
	to := &s.f.cfg.To
	cfg := Config{Stream: to.Stream, Prefix: to.Prefix, Replicas: 1, MaxBytes: s.f.cfg.MaxBytes, MaxAge: s.f.cfg.MaxAge}
	return s.to.js.CreateStream(ctx, cfg.stream())
}

// listen subscribes to the answers of the hub.
func (s *forwardSession) listen() error {
	if v := s.to.nc.ConnectedServerVersion(); tooOld(v) {
		return fmt.Errorf("hub: it runs nats-server %s; forwarding needs 2.11 or later", v)
	}
	s.inbox = s.to.nc.NewInbox()
	_, err := s.to.nc.Subscribe(s.inbox+".*", func(m *nats.Msg) {
		select {
		case s.answers <- m:
		case <-s.ctx.Done():
		}
	})
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// tooOld reports whether a server of version v cannot compare the last message of an agent with
// what we expect. An unknown version is not too old.
func tooOld(v string) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(v, "%d.%d", &major, &minor); n < 2 {
		return false
	}
	return major < 2 || major == 2 && minor < 11
}
