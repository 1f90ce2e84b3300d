package api

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// Bounds of what waits in the memory of the daemon for a client that reads the log. A record of the log has about 600
// bytes.
const (
	maxAhead    = 256       // records that wait to be sent
	maxLogPart  = 256       // records in a message
	fullLogPart = 256 << 10 // bytes of records after which a message ends
)

// GetLog implements [lockagentv1connect.LookServiceHandler].
func (l *looks) GetLog(ctx context.Context, _ *lockagentv1.GetLogRequest) (*lockagentv1.GetLogResponse, error) {
	if err := l.Access.Operate(ctx, ""); err != nil {
		return nil, wire.Refuse(err)
	}
	state, err := l.logState(ctx)
	if err != nil {
		return nil, err
	}
	told := &lockagentv1.GetLogResponse{
		Name: state.Name, Created: timestamppb.New(state.Created), First: state.First, Last: state.Last,
		Missing: state.Missing, Shared: state.Shared, Now: timestamppb.New(state.Now),
	}
	if !state.Begins.IsZero() {
		told.Begins = timestamppb.New(state.Begins)
	}
	return told, nil
}

// logState returns what the log has, or why it cannot be read. All that was recorded before the call is in it.
func (l *looks) logState(ctx context.Context) (natslog.StreamState, error) {
	if l.Log == nil {
		return natslog.StreamState{}, connect.NewError(
			connect.CodeFailedPrecondition, errors.New("this daemon has no event log"),
		)
	}
	state, err := l.Log.State(ctx)
	switch {
	case errors.Is(err, natslog.ErrNoStream):
		return state, connect.NewError(connect.CodeNotFound, errors.New("the event log has no events yet"))
	case err != nil:
		return state, connect.NewError(connect.CodeUnavailable, fmt.Errorf("the event log does not answer: %w", err))
	}
	return state, nil
}

// readFunc is a way to read a log.
type readFunc func(context.Context, natslog.From, events.Filter, events.Visit) error

// ReadLog implements [lockagentv1connect.LookServiceHandler]. A goroutine reads the log, and waits for a client that
// reads more slowly.
func (l *looks) ReadLog(
	ctx context.Context, req *lockagentv1.ReadLogRequest, out *connect.ServerStream[lockagentv1.ReadLogResponse],
) error {
	from, filter, err := askedOfLog(req)
	if err != nil {
		return wire.Refuse(err)
	}
	var visible func(lockagent.Name) bool // nil for a client that reads all of the log
	if req.GetWatch() == "" {
		err = l.Access.Operate(ctx, "")
	} else {
		visible, err = l.visible(ctx, req.GetWatch(), true)
	}
	if err != nil {
		return wire.Refuse(err)
	}
	state, err := l.logState(ctx)
	if err != nil {
		return err
	}
	if err := out.Send(nil); err != nil { // the client hears that it will be told of records, even if there are none yet
		return err
	}
	read := readFunc(l.Log.Replay)
	if req.GetFollow() {
		read = l.Log.Tail
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	records, ended := make(chan *lockagentv1.LogRecord, maxAhead), make(chan error, 1)
	go func() {
		defer close(records)
		tell := func(r *events.Record, err error) error {
			select {
			case records <- logRecord(r, err):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if visible == nil {
			ended <- read(ctx, from, filter, tell)
		} else {
			ended <- newWatcher(state.Last, visible, tell).run(ctx, read, from)
		}
	}()
	for first := range records {
		if err := out.Send(logPart(first, records)); err != nil {
			cancel(err)
			for range records { // until the log is not read any more
			}
			return err
		}
	}
	return wire.Refuse(<-ended)
}

// logPart returns a message with a record, and with those that wait behind it.
func logPart(first *lockagentv1.LogRecord, more <-chan *lockagentv1.LogRecord) *lockagentv1.ReadLogResponse {
	part := &lockagentv1.ReadLogResponse{Records: []*lockagentv1.LogRecord{first}}
	for bytes := len(first.GetEvent()); len(part.Records) < maxLogPart && bytes < fullLogPart; {
		select {
		case r, ok := <-more:
			if !ok {
				return part
			}
			part.Records = append(part.Records, r)
			bytes += len(r.GetEvent())
		default:
			return part
		}
	}
	return part
}

// logRecord is the message for what the log has in one place.
func logRecord(r *events.Record, err error) *lockagentv1.LogRecord {
	told := &lockagentv1.LogRecord{Position: r.Position, Origin: wire.Text(r.Origin)}
	if !r.Stored.IsZero() {
		told.Stored = timestamppb.New(r.Stored)
	}
	if err != nil {
		told.What = &lockagentv1.LogRecord_Wrong{Wrong: wire.Text(err.Error())}
		return told
	}
	told.What = &lockagentv1.LogRecord_Event{Event: eventLine(r)}
	return told
}

// eventLine is an event as a file has it, without the end of the line.
func eventLine(r *events.Record) string {
	var line strings.Builder
	_ = events.WriteLine(&line, *r) // to a strings.Builder, which takes all
	return strings.TrimSuffix(line.String(), "\n")
}

// askedOfLog is where to begin, and what to select.
func askedOfLog(req *lockagentv1.ReadLogRequest) (from natslog.From, filter events.Filter, err error) {
	wrong := func(option, format string, args ...any) error {
		return &lockagent.OptionError{Option: option, Reason: fmt.Sprintf(format, args...)}
	}
	switch at := req.GetFrom().(type) {
	case *lockagentv1.ReadLogRequest_Position:
		from = natslog.FromPosition(at.Position)
	case *lockagentv1.ReadLogRequest_Since:
		if err := at.Since.CheckValid(); err != nil {
			return from, filter, wrong("since", "it is no time: %v", err)
		}
		from = natslog.FromTime(at.Since.AsTime())
	case *lockagentv1.ReadLogRequest_Now:
		if !at.Now || !req.GetFollow() {
			return from, filter, wrong("now", "it is true if it is set, and needs follow")
		}
		from = natslog.FromNow()
	}
	alone := &lockagentv1.ReadLogRequest{From: req.GetFrom(), Follow: req.GetFollow(), Watch: req.GetWatch()}
	if req.GetWatch() != "" && !proto.Equal(req, alone) {
		return from, filter, wrong("watch", "it stands in place of all other selections")
	}
	filter = events.Filter{
		Lock: lockagent.Name(req.GetLock()), Pattern: req.GetPattern(), Owner: lockagent.Owner(req.GetOwner()),
		Urgent: req.GetUrgent(),
	}
	for _, agent := range req.GetAgents() {
		filter.Agents = append(filter.Agents, lockagent.AgentID(agent))
	}
	for _, word := range req.GetKinds() {
		kind, ok := lockagent.ParseEventKind(word)
		if !ok {
			return from, filter, wrong("kinds", "there is no kind of event %.64q", word)
		}
		filter.Kinds = append(filter.Kinds, kind)
	}
	return from, filter, filter.Validate()
}
