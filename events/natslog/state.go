package natslog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// StreamState is what a stream has at one moment.
type StreamState struct {
	Name    string
	Created time.Time

	// First and Last are the positions of the first and the last message. If there is none, Last
	// is less than First.
	First, Last uint64

	// Begins is when the first message was stored. It is zero if there is none.
	Begins time.Time

	// Limits are those of the stream.
	Limits Limits

	// Missing is how many messages between them are not there, although nothing but age removes messages.
	Missing uint64

	// Shared says that the stream has messages that are no events of the prefix that is read, or
	// takes them from another stream. Then positions that are missing say nothing.
	Shared bool

	// Now is when the server said this, by its clock.
	Now time.Time
}

// ID identifies the stream: a stream of the same name that was made anew has another one. It is
// for [audit.Audit.Identify].
func (s StreamState) ID() string {
	return fmt.Sprintf("%s of %s", s.Name, s.Created.UTC().Format(time.RFC3339Nano))
}

// State asks the server what the stream has.
//
// It returns the cause of ctx, [ErrNoStream], a [*PermissionError], or why the server does not
// answer.
func (r *Reader) State(ctx context.Context) (StreamState, error) {
	ctx, done := r.reads.while(ctx)
	defer done()
	stream, err := r.stream(ctx)
	if err != nil {
		return StreamState{}, err
	}
	info := stream.CachedInfo()
	return StreamState{
		Name: info.Config.Name, Created: info.Created, Begins: info.State.FirstTime, Limits: limitsOf(&info.Config),
		First: info.State.FirstSeq, Last: info.State.LastSeq, Missing: uint64(info.State.NumDeleted),
		Shared: r.shared(&info.Config), Now: info.TimeStamp,
	}, nil
}

// Latest is the place of the last record of an agent in the stream. It is zero if there is none, or no stream. A
// publisher of that agent needs a greater epoch.
//
// It returns the cause of ctx, a [*PermissionError], or why the server does not answer.
func (r *Reader) Latest(ctx context.Context, agent lockagent.AgentID) (events.Place, error) {
	ctx, done := r.reads.while(ctx)
	defer done()
	stream, err := r.stream(ctx)
	if errors.Is(err, ErrNoStream) {
		return events.Place{}, nil
	}
	if err != nil {
		return events.Place{}, err
	}
	_, id, err := lastIn(ctx, stream, agentSubjects(r.cfg.Prefix, agent), agent)
	if err != nil {
		return events.Place{}, r.failed(ctx, r.cfg.Stream, err)
	}
	return events.Place{Epoch: id.Epoch, Seq: id.Last}, nil
}

func (r *Reader) shared(cfg *jetstream.StreamConfig) bool {
	other := func(subject string) bool { return !strings.HasPrefix(subject, r.cfg.Prefix+".") }
	return cfg.Mirror != nil || len(cfg.Sources) > 0 || cfg.SubjectTransform != nil ||
		slices.ContainsFunc(cfg.Subjects, other)
}
