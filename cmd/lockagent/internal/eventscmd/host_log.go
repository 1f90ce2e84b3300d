//go:build linux

package eventscmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// daemonLog is the event log of the daemon of this host, which the daemon reads for operators.
type daemonLog struct{ *client.Daemon }

var _ grownLog = daemonLog{}

// openDaemonLog returns the event log of the daemon on a socket, or where its clients look for it if that is empty. It
// does not connect yet.
func openDaemonLog(cmd *cobra.Command, socket string) (grownLog, error) {
	client, err := (&client.Flag{Socket: socket}).Open(cmd)
	if err != nil {
		return nil, err
	}
	return daemonLog{client}, nil
}

func (d daemonLog) close() { d.Daemon.Close() }

// state implements [grownLog].
func (d daemonLog) state(ctx context.Context) (natslog.StreamState, error) {
	told, err := d.Look.GetLog(ctx, &lockagentv1.GetLogRequest{})
	if err != nil {
		return natslog.StreamState{}, noStream(err)
	}
	state := natslog.StreamState{
		Name: told.GetName(), Created: told.GetCreated().AsTime(), First: told.GetFirst(), Last: told.GetLast(),
		Missing: told.GetMissing(), Shared: told.GetShared(), Now: told.GetNow().AsTime(),
	}
	if told.GetBegins() != nil {
		state.Begins = told.GetBegins().AsTime()
	}
	return state, nil
}

// noStream is the error of a call, or [events.ErrNoStream] if the log has no events yet.
func noStream(err error) error {
	if connect.CodeOf(err) == connect.CodeNotFound {
		return natslog.ErrNoStream
	}
	return err
}

// replay implements [grownLog].
func (d daemonLog) replay(ctx context.Context, from startAt, filter events.Filter, visit events.Visit) error {
	at := logPlace{visit: visit}
	return d.read(ctx, from.request(filter, false), &at)
}

// tail implements [grownLog]. It goes on when the daemon has restarted.
func (d daemonLog) tail(ctx context.Context, from startAt, filter events.Filter, visit events.Visit) error {
	before, err := d.state(ctx)
	if err != nil {
		return err
	}
	if from.now { // what comes while the daemon restarts is to be shown, too
		from = startAt{position: before.Last + 1}
	}
	at := logPlace{visit: visit}
	for {
		err := d.read(ctx, from.request(filter, true), &at)
		if at.failed != nil || ctx.Err() != nil || !restarts(err) {
			return err
		}
		if err := d.again(ctx, &before, &at); err != nil {
			return err
		}
		if at.position > 0 {
			from, at.skip = startAt{position: at.position}, at.records
		}
	}
}

// restarts reports whether a call that we have not cancelled may have ended because the daemon did.
func restarts(err error) bool {
	told := wire.Refused(err)
	return client.Gone(told) || connect.CodeOf(err) == connect.CodeCanceled || errors.Is(told, lockagent.ErrClosed) ||
		errors.Is(told, refusal.ErrDraining) || connect.CodeOf(err) == connect.CodeUnavailable
}

// again waits until the daemon tells of its log again. If the log has lost its end, or was made anew, the visit hears
// of it.
func (d daemonLog) again(ctx context.Context, before *natslog.StreamState, at *logPlace) error {
	const pause = time.Second
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		now, err := d.state(ctx)
		if err != nil && (restarts(err) || errors.Is(err, natslog.ErrNoStream) || absent(err)) {
			continue
		}
		if err != nil {
			return err
		}
		end := now.Last
		if !now.Created.Equal(before.Created) {
			end = 0
		}
		*before = now
		if end < at.read() {
			at.position, at.records = end+1, 0
			at.failed = at.visit(&events.Record{Position: end}, natslog.ErrRewound)
		}
		return at.failed
	}
}

// absent reports whether no daemon listens.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// logPlace is up to where a log was read.
type logPlace struct {
	visit    events.Visit
	position uint64 // 0 before the first one
	records  int    // that were visited of that position
	skip     int    // records of that position that come again
	failed   error  // of visit
}

// read is the last position of which something was visited, or 0.
func (p *logPlace) read() uint64 {
	if p.records == 0 && p.position > 0 {
		return p.position - 1
	}
	return p.position
}

// take visits a record, unless it comes again.
func (p *logPlace) take(told *lockagentv1.LogRecord) error {
	if told.GetPosition() != p.position {
		p.position, p.records, p.skip = told.GetPosition(), 0, 0
	}
	if p.skip > 0 {
		p.skip--
		return nil
	}
	p.records++
	p.failed = p.record(told)
	return p.failed
}

// record visits what the daemon has told.
func (p *logPlace) record(told *lockagentv1.LogRecord) error {
	place := events.Record{Position: told.GetPosition(), Origin: told.GetOrigin()}
	if told.GetStored() != nil {
		place.Stored = told.GetStored().AsTime()
	}
	if text := told.GetWrong(); text != "" {
		return p.visit(&place, errors.New(text))
	}
	var own error
	err := events.DecodeMessage("", []byte(told.GetEvent()), func(r events.Record) error {
		r.Position, r.Stored, r.Origin = place.Position, place.Stored, place.Origin
		own = p.visit(&r, nil)
		return own
	})
	if err != nil && own == nil {
		return p.visit(&place, &events.DecodeError{Position: place.Position, Err: err})
	}
	return own
}

// read reads until the daemon ends the call, or visit has an error, which it returns as it is.
func (d daemonLog) read(ctx context.Context, req *lockagentv1.ReadLogRequest, at *logPlace) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := d.Look.ReadLog(ctx, req)
	if err != nil {
		return noStream(err)
	}
	defer func() {
		cancel()
		_ = stream.Close()
	}()
	for stream.Receive() {
		for _, told := range stream.Msg().GetRecords() {
			if err := at.take(told); err != nil {
				return err
			}
		}
	}
	return noStream(stream.Err())
}

// request asks for what a filter selects from there on.
func (s startAt) request(filter events.Filter, follow bool) *lockagentv1.ReadLogRequest {
	req := &lockagentv1.ReadLogRequest{
		Follow: follow, Lock: string(filter.Lock), Pattern: filter.Pattern, Owner: string(filter.Owner),
		Urgent: filter.Urgent,
	}
	switch {
	case s.now:
		req.From = &lockagentv1.ReadLogRequest_Now{Now: true}
	case !s.time.IsZero():
		req.From = &lockagentv1.ReadLogRequest_Since{Since: timestamppb.New(s.time)}
	case s.position > 0:
		req.From = &lockagentv1.ReadLogRequest_Position{Position: s.position}
	}
	for _, agent := range filter.Agents {
		req.Agents = append(req.Agents, string(agent))
	}
	for _, kind := range filter.Kinds {
		req.Kinds = append(req.Kinds, kind.String())
	}
	return req
}

// failure implements [grownLog].
func (d daemonLog) failure(cmd *cobra.Command, err error) error {
	other := cli.WithPlace(cmd, "--nats URL    (of the server that has the event log; or --dir DIRECTORY, or --file FILE)")
	switch {
	case errors.Is(err, natslog.ErrNoStream):
		return &cli.Failure{
			Code: cli.ExitEmpty, Err: fmt.Errorf("the event log of the daemon on %s has no events yet", d.Path),
			Try: "lockagent lock NAME -- COMMAND",
		}
	case absent(err):
		return &cli.Failure{
			Code: cli.ExitNoDaemon,
			Err:  fmt.Errorf("no daemon listens on %s; without --nats, --dir and --file its event log is read", d.Path),
			Try:  other,
		}
	case errors.Is(wire.Refused(err), refusal.ErrForbidden):
		return &cli.Failure{
			Code: cli.ExitNotPermitted, Err: fmt.Errorf("the event log of the daemon tells of all locks: %w", wire.Refused(err)),
			Try: "lockagent watch --since 10m    (shows the events of the locks that you may watch)",
		}
	case connect.CodeOf(err) == connect.CodeFailedPrecondition:
		return &cli.Failure{
			Code: cli.ExitUnavailable, Err: fmt.Errorf("the daemon on %s has no event log; lockagent doctor says why", d.Path),
			Try: other,
		}
	case connect.CodeOf(err) == connect.CodeUnimplemented:
		return &cli.Failure{
			Code: cli.ExitUnavailable,
			Err:  fmt.Errorf("the daemon on %s is of a version that does not show its event log", d.Path), Try: other,
		}
	}
	return d.Failed(err)
}
