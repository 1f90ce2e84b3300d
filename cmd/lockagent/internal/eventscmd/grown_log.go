package eventscmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventlog"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
)

// grownLog is an event log to which agents add.
type grownLog interface {
	// state, replay and tail are those of [events.Reader].
	state(context.Context) (natslog.StreamState, error)
	replay(context.Context, startAt, events.Filter, events.Visit) error
	tail(context.Context, startAt, events.Filter, events.Visit) error
	// failure gives what keeps us from the log its exit code, and says what to do.
	failure(*cobra.Command, error) error
	close()
}

// natsLog is an event log in NATS.
type natsLog struct {
	reader *natslog.Reader
	flags  *eventlog.NATSFlags
}

var _ grownLog = (*natsLog)(nil)

func (l *natsLog) state(ctx context.Context) (natslog.StreamState, error) { return l.reader.State(ctx) }

func (l *natsLog) replay(ctx context.Context, from startAt, filter events.Filter, visit events.Visit) error {
	return l.reader.Replay(ctx, from.inStream(), filter, visit)
}

func (l *natsLog) tail(ctx context.Context, from startAt, filter events.Filter, visit events.Visit) error {
	return l.reader.Tail(ctx, from.inStream(), filter, visit)
}

func (l *natsLog) failure(cmd *cobra.Command, err error) error { return l.flags.Failure(cmd, err) }

func (l *natsLog) close() { l.reader.Close() }
