package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// Follow implements [lockagentv1connect.LookServiceHandler].
func (l *looks) Follow(ctx context.Context, req *lockagentv1.FollowRequest, out *connect.ServerStream[lockagentv1.FollowEvent]) error {
	visible, err := l.visible(ctx, req.GetPattern(), true)
	if err != nil {
		return wire.Refuse(err)
	}
	state, err := l.covers(ctx, req)
	if err != nil {
		return err
	}
	if err := out.Send(nil); err != nil { // the client hears that it will be told of events, even if there are none yet
		return err
	}
	f := follower{visible: visible, all: req.GetPattern() == "", send: out.Send}
	f.begin = max(state.Last, mostPast) - mostPast + 1
	err = l.Log.Tail(ctx, natslog.FromTime(req.GetSince().AsTime()), events.Filter{}, f.visit)
	if errors.Is(err, errTooMany) {
		const text = "only the last %d messages of the log are told; lockagent events history has those before"
		if err = f.missing(fmt.Sprintf(text, mostPast)); err == nil {
			err = l.Log.Tail(ctx, natslog.FromPosition(f.begin), events.Filter{}, f.visit)
		}
	}
	if f.failed != nil {
		return f.failed
	}
	return wire.Refuse(err)
}

// mostPast is how many messages of the log a call reads that were there before it. To decode them costs some seconds.
const mostPast = 100_000

// errTooMany ends the reading of a log that has more of them.
var errTooMany = errors.New("api: the log has too many messages since then")

// covers returns what the log has, or why it does not have all events from the time of the request on.
func (l *looks) covers(ctx context.Context, req *lockagentv1.FollowRequest) (natslog.StreamState, error) {
	wrong := func(format string, args ...any) (natslog.StreamState, error) {
		err := &lockagent.OptionError{Option: "since", Reason: fmt.Sprintf(format, args...)}
		return natslog.StreamState{}, wire.Refuse(err)
	}
	if err := req.GetSince().CheckValid(); err != nil || req.GetSince() == nil {
		return wrong("it is the time of the first event, and must be set")
	}
	if l.Log == nil {
		return wrong("this daemon has no event log")
	}
	state, err := l.Log.State(ctx)
	switch begins := beginOf(state); {
	case errors.Is(err, natslog.ErrNoStream):
		return wrong("the event log has no events yet")
	case err != nil:
		return state, connect.NewError(connect.CodeUnavailable, fmt.Errorf("the event log does not answer: %w", err))
	case req.GetSince().AsTime().Before(begins):
		// A whole number of milliseconds that is not before the begin.
		return wrong("the event log begins later: it has nothing from before %s", begins.Add(time.Millisecond-1).Truncate(time.Millisecond).UTC().Format(time.RFC3339Nano))
	}
	return state, nil
}

// beginOf is from when on a log has everything. One that has no events any more may have lost one just now.
func beginOf(s natslog.StreamState) time.Time {
	if s.Last < s.First {
		return s.Now
	}
	return s.Begins
}

// follower tells a client of the events that it may see.
type follower struct {
	visible func(lockagent.Name) bool
	all     bool // also those that are about no lock
	send    func(*lockagentv1.FollowEvent) error
	begin   uint64 // the position of the first message that is told at all

	last   uint64 // the last position
	failed error  // the client does not read any more
}

func (f *follower) visit(r *events.Record, err error) error {
	if f.last == 0 && r.Position < f.begin && !errors.Is(err, natslog.ErrRewound) {
		return errTooMany
	}
	switch {
	case errors.Is(err, natslog.ErrRewound):
		f.last = r.Position
		return f.missing("the end of the log was lost; events may be missing here")
	case f.last != 0 && r.Position > f.last+1:
		// The client has read more slowly than the log discards, or some of the log is damaged.
		if failed := f.missing(fmt.Sprintf("%d messages of the log are gone; events are missing here", r.Position-f.last-1)); failed != nil {
			return failed
		}
	}
	f.last = r.Position
	switch {
	case err != nil:
		return f.missing(err.Error())
	case r.Kind == lockagent.EventAlive, r.Kind == lockagent.EventRenewed, r.Kind == lockagent.EventHolding: // they say that all goes on
		return nil
	case r.Lock == "" && !f.all, r.Lock != "" && !f.visible(r.Lock):
		return nil
	}
	return f.tell(&lockagentv1.FollowEvent{What: &lockagentv1.FollowEvent_Event{Event: eventLine(r)}})
}

func (f *follower) missing(what string) error {
	return f.tell(&lockagentv1.FollowEvent{What: &lockagentv1.FollowEvent_Missing{Missing: wire.Text(what)}})
}

func (f *follower) tell(e *lockagentv1.FollowEvent) error {
	f.failed = f.send(e)
	return f.failed
}
