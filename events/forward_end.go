package events

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// forwardEnd is one of two streams, with a connection that does not come back when it is interrupted.
type forwardEnd struct {
	cfg    *ReaderConfig
	nc     *nats.Conn
	js     jetstream.JetStream
	gone   chan signal // closed when the connection is closed
	stream jetstream.Stream
}

// connect connects to one end. fail is told what goes wrong with the connection later.
func connect(name string, cfg *ReaderConfig, fail context.CancelCauseFunc) (*forwardEnd, error) {
	e := &forwardEnd{cfg: cfg, gone: make(chan signal)}
	nc, err := cfg.dial("lockagent forwarder", nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { fail(atEnd(name, explained(err))) }),
		nats.ClosedHandler(func(nc *nats.Conn) {
			fail(atEnd(name, errors.Join(errDisconnected, nc.LastError())))
			close(e.gone)
		}))
	if err != nil {
		return nil, atEnd(name, err)
	}
	e.nc = nc
	if e.js, err = cfg.jetStream(nc); err != nil {
		e.close()
		return nil, atEnd(name, err)
	}
	return e, nil
}

func (e *forwardEnd) close() {
	e.nc.Close()
	<-e.gone
}

// find finds the stream.
func (e *forwardEnd) find(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	if e.stream, err = e.js.Stream(ctx, e.cfg.Stream); errors.Is(err, jetstream.ErrStreamNotFound) {
		err = ErrNoStream
	}
	return e.explain(err)
}

func (e *forwardEnd) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("stream %q: %w", e.cfg.Stream, err)
}
