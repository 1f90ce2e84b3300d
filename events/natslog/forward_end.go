package natslog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// forwardEnd is one of two streams, with a connection that does not come back when it is interrupted.
type forwardEnd struct {
	cfg    *ReaderConfig
	nc     *nats.Conn
	js     jetstream.JetStream
	gone   chan signal // closed when the connection is closed
	stream jetstream.Stream
}

// openEnd connects to one end. fail is told what goes wrong with the connection later.
func openEnd(name string, cfg *ReaderConfig, fail context.CancelCauseFunc) (*forwardEnd, error) {
	e := &forwardEnd{cfg: cfg, gone: make(chan signal)}
	nc, err := Connect(cfg.Connection, nats.Name("lockagent forwarder"), nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if err = explained(err); !dispensable(err) {
				fail(atEnd(name, err))
			}
		}),
		nats.ClosedHandler(func(nc *nats.Conn) {
			fail(atEnd(name, disconnected(nc.LastError())))
			close(e.gone)
		}))
	if err != nil {
		return nil, atEnd(name, err)
	}
	e.nc = nc
	if e.js, err = cfg.JetStream(nc); err != nil {
		e.close()
		return nil, atEnd(name, err)
	}
	return e, nil
}

func (e *forwardEnd) close() {
	e.nc.Close()
	<-e.gone
}

// find finds the stream, by findStream or leaderOf.
func (e *forwardEnd) find(
	ctx context.Context, by func(context.Context, jetstream.JetStream, string) (jetstream.Stream, error),
) (stream jetstream.Stream, err error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	if stream, err = by(ctx, e.js, e.cfg.Stream); errors.Is(err, jetstream.ErrStreamNotFound) {
		err = ErrNoStream
	}
	return stream, e.explain(err)
}

// agents returns the agents that have messages of one of the kinds, or any if there is none.
func (e *forwardEnd) agents(ctx context.Context, kinds ...lockagent.EventKind) (map[lockagent.AgentID]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	filters := []string{e.cfg.Prefix + ".>"}
	for i, kind := range kinds {
		filters = append(filters[:i], e.cfg.Prefix+".*."+events.Class(kind)+".>")
	}
	agents := make(map[lockagent.AgentID]bool)
	for _, filter := range filters {
		info, err := e.stream.Info(ctx, jetstream.WithSubjectFilter(filter))
		if err != nil {
			return nil, err
		}
		for subject := range info.State.Subjects {
			if agent, _, ok := e.parse(subject); ok {
				agents[agent] = true
			}
		}
	}
	return agents, nil
}

// parse returns the agent that a subject names, and what follows the prefix. It returns false if it
// is not the subject of an agent.
func (e *forwardEnd) parse(subject string) (agent lockagent.AgentID, rest string, ok bool) {
	rest, ok = strings.CutPrefix(subject, e.cfg.Prefix+".")
	name, _, more := strings.Cut(rest, ".")
	agent, err := lockagent.ParseAgentID(name)
	return agent, rest, ok && more && err == nil
}

func (e *forwardEnd) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("stream %q: %w", e.cfg.Stream, err)
}
