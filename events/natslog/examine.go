package natslog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Examination is what [Examine] finds out about a NATS that has the event log, for an operator.
type Examination struct {
	Version string // of the server

	// Unusable is why JetStream or the stream cannot be used, or nil. It is [ErrNotPermitted] if we may not.
	Unusable error

	// Found says that there is a stream. Otherwise the first publisher makes it, unless there is a Flaw.
	Found  bool
	Events uint64 // messages, which may have several events each
	Bytes  uint64
	// Flaw is why the stream would lose events, or why it cannot be made, or nil. It is a [*StreamError].
	Flaw error
	// Unknown is why nobody can tell whether a stream that is not there can be made, or nil.
	Unknown error
	// Weaker lists the settings that are weaker than those of a new stream. It is empty if there are none.
	Weaker string
}

// Examine connects to NATS, and tells what an operator may want to mend. It changes nothing. The error is that of
// [Connect] if there is no connection.
func Examine(ctx context.Context, cfg ReaderConfig) (*Examination, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	nc, err := Connect(cfg.Connection)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	e := &Examination{Version: nc.ConnectedServerVersion()}
	js, err := cfg.JetStream(nc)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	subjects := cfg.Prefix + ".>"
	stream, err := findStream(ctx, js, cfg.Stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		others, err := takers(ctx, js, cfg.Stream, subjects)
		switch {
		case len(others) > 0:
			e.Flaw = takenBy(others, cfg.Stream, subjects)
		case err != nil:
			e.Unknown = fmt.Errorf("events: ask which streams have subjects of %s: %w", subjects, refusal(nc, err))
		}
		return e, nil
	case err != nil:
		e.Unusable = fmt.Errorf("events: examine stream %q: %w", cfg.Stream, refusal(nc, err))
		return e, nil
	}
	info := stream.CachedInfo()
	fresh := Config{Stream: cfg.Stream, Prefix: cfg.Prefix, Replicas: 1, MaxBytes: -1}
	want := fresh.stream()
	e.Found, e.Events, e.Bytes = true, info.State.Msgs, info.State.Bytes
	e.Flaw, e.Weaker = askFlaw(ctx, js, &info.Config, subjects, subjects), differences(&info.Config, &want)
	return e, nil
}

// refusal is why a call failed. One that is not permitted has no answer.
func refusal(nc *nats.Conn, err error) error {
	if refused := nc.LastError(); refused != nil {
		err = errors.Join(refused, err)
	}
	return explained(err)
}
