package eventscmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventlog"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/place"
)

// source says where a verb finds the event log: in NATS, in a directory or in a file. If nothing says so, it is that of
// the daemon of this host.
type source struct {
	nats   eventlog.NATSFlags
	dir    string
	file   string
	socket string
}

func (s *source) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(
		&s.dir, "dir", "", "read the event log in this `directory` instead, which lockagent demo --keep left",
	)
	cmd.Flags().StringVar(&s.file, "file", "", "read this `file` of JSON lines instead, - for the standard input")
	cli.MarkPlace(cmd, "dir", "file")
	cli.ConnectionFlag(cmd, &s.socket, "socket", "`path` of the Unix socket of the daemon whose event log is read "+
		"unless --nats, --dir or --file is there; "+
		"by default that of this user's daemon if there is one, and else "+place.System)
	s.nats.Add(
		cmd, "nats",
		"`URL` of a NATS server that has the event log; with other flags of NATS by default "+eventlog.DefaultNATS,
	)
}

// check has the verb read from one place.
func (s *source) check(cmd *cobra.Command) error {
	var named []string
	for _, flag := range []string{"dir", "file", "socket", s.nats.Given(cmd)} {
		if flag != "" && cmd.Flags().Changed(flag) {
			named = append(named, flag)
		}
	}
	if len(named) > 1 {
		value := cmd.Flags().Lookup(named[0]).Value.String()
		return cli.Usage(
			cli.WithPlace(cmd, "--"+named[0]+" "+cli.ShellWord(value)), "--%s and --%s exclude each other", named[0], named[1],
		)
	}
	return nil
}

// place says again where the log is, on the command line of another verb.
func (s *source) place() string { return cli.Places(s.nats.Flags) }

// ofDaemon reports whether the log is that of the daemon of this host: nothing says that it is elsewhere. A socket on
// the command line counts for more than the environment.
func (s *source) ofDaemon() bool {
	return s.dir == "" && s.file == "" && (s.nats.Flags.Changed("socket") || !s.nats.Set())
}

// open opens the event log. Whoever calls it closes it.
func (s *source) open(cmd *cobra.Command) (*eventLog, error) {
	logger := cli.NewLogger(cmd.ErrOrStderr())
	switch {
	case s.file != "":
		return s.openFile(cmd)
	case s.ofDaemon():
		log, err := openDaemonLog(cmd, s.socket)
		return &eventLog{source: s, cmd: cmd, grown: log}, err
	case s.dir == "":
		reader, err := s.nats.Open(cmd, logger)
		if err != nil {
			return nil, err
		}
		return &eventLog{source: s, cmd: cmd, grown: &natsLog{reader, &s.nats}}, nil
	}
	server, err := eventlog.OpenDir(s.dir, logger)
	if err != nil {
		return nil, err
	}
	reader, err := natslog.OpenReader(natslog.ReaderConfig{
		Connection: natslog.Connection{InProcess: server, Logger: logger},
	})
	if err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return &eventLog{source: s, cmd: cmd, grown: &natsLog{reader, &s.nats}, server: server}, nil
}

func (s *source) openFile(cmd *cobra.Command) (*eventLog, error) {
	l := &eventLog{source: s, cmd: cmd, lines: &countedReader{from: cmd.InOrStdin()}}
	if s.file == "-" {
		return l, nil
	}
	file, err := os.Open(s.file)
	if err != nil {
		return nil, cli.Usage(cli.WithPlace(cmd, "--file events.jsonl"), "the event log cannot be read: %w", err)
	}
	l.file, l.lines.from = file, file
	if info, err := file.Stat(); err == nil {
		l.lines.size = info.Size()
		if info.IsDir() {
			return nil, errors.Join(
				cli.Usage(cli.WithPlace(cmd, "--dir "+cli.ShellWord(s.file)), "%s is a directory", s.file), file.Close(),
			)
		}
	}
	return l, nil
}

// eventLog is an event log that is open.
type eventLog struct {
	source *source
	cmd    *cobra.Command

	grown  grownLog           // nil if the log is a file
	server *natsserver.Server // nil unless the log is in a directory
	lines  *countedReader     // nil unless the log is a file
	begun  func() error       // or nil; called when there is a stream that was not there before
	file   *os.File           // nil unless it has a name

	// What a replay has met and could not use.
	unreadable, unknown int
	early               time.Time // the latest event in a file that was before the time to begin at
}

// grows reports whether events can still be added to the log.
func (l *eventLog) grows() bool { return l.lines == nil && l.server == nil }

// close lets go of the log.
func (l *eventLog) close() error {
	var errs []error
	if l.grown != nil {
		l.grown.close()
	}
	if l.server != nil {
		errs = append(errs, l.server.Stop())
	}
	if l.file != nil {
		errs = append(errs, l.file.Close())
	}
	return errors.Join(errs...)
}

// replay visits what there is, and shows how far it is. It returns what visit returned as it is.
func (l *eventLog) replay(ctx context.Context, from startAt, filter events.Filter, visit events.Visit) error {
	p := newProgress(l.cmd.ErrOrStderr(), l.share(ctx))
	defer p.clear()
	watched := p.watch(l.count(visit))
	if l.lines != nil {
		return l.replayLines(ctx, from, filter, watched)
	}
	return l.read(l.grown.replay, ctx, from, filter, watched)
}

// count returns a visit that counts what cannot be used.
func (l *eventLog) count(visit events.Visit) events.Visit {
	return func(r *events.Record, err error) error {
		switch {
		case err != nil:
			l.unreadable++
		case r.Kind == 0:
			l.unknown++
		}
		return visit(r, err)
	}
}

// warn says what could not be used. It is for verbs that show what they have all the same.
func (l *eventLog) warn() {
	try := "lockagent events audit" + l.source.place()
	if n := l.unreadable; n > 0 {
		fmt.Fprintf(
			l.cmd.ErrOrStderr(), "lockagent: %s cannot be read, so this may lack something; see %s\n",
			readable.Counted(n, "message", "messages"), try,
		)
	}
	if n := l.unknown; n > 0 {
		fmt.Fprintf(
			l.cmd.ErrOrStderr(),
			"lockagent: %s of kinds or versions that this program does not know, so this may lack something; see lockagent "+
				"events tail --all%s\n",
			readable.Counted(n, "event is", "events are"), l.source.place(),
		)
	}
}

// nothing is the error of a verb that has found nothing of what it was asked for.
func (l *eventLog) nothing(what, try string) error {
	if l.unreadable > 0 {
		return &cli.Failure{
			Code: cli.ExitFailed,
			Err:  fmt.Errorf("%s that can be read: %s cannot", what, readable.Counted(l.unreadable, "message", "messages")),
			Try:  "lockagent events audit" + l.source.place() + "    (names them)",
		}
	}
	l.warn()
	return &cli.Failure{Code: cli.ExitEmpty, Err: errors.New(what), Try: try}
}

// tail goes on with what is to come. If there is no stream yet, it waits for the first agent that
// makes one. It returns nil at the end of ctx.
func (l *eventLog) tail(ctx context.Context, from startAt, filter events.Filter, visit events.Visit) error {
	err := l.read(l.grown.tail, ctx, from, filter, visit)
	for errors.Is(err, natslog.ErrNoStream) {
		if err = l.awaitStream(ctx); err == nil && l.begun != nil {
			err = l.begun()
		}
		if err == nil {
			err = l.read(l.grown.tail, ctx, startAt{}, filter, visit) // all of it, for it is new
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

type readFunc func(context.Context, startAt, events.Filter, events.Visit) error

// read tells the errors of visit from those of the log.
func (l *eventLog) read(
	read readFunc, ctx context.Context, from startAt, filter events.Filter, visit events.Visit,
) error {
	var own error
	err := read(ctx, from, filter, func(r *events.Record, err error) error {
		own = visit(r, err)
		return own
	})
	if own != nil {
		return own
	}
	return l.explain(err)
}

func (l *eventLog) replayLines(ctx context.Context, from startAt, filter events.Filter, visit events.Visit) error {
	if err := filter.Validate(); err != nil {
		return l.explain(err)
	}
	var own error
	err := events.ReadLines(l.lines, func(r *events.Record, err error) error {
		switch {
		case ctx.Err() != nil:
			own = l.explain(context.Cause(ctx))
		case err == nil && r.Time.Before(from.time):
			if r.Time.After(l.early) {
				l.early = r.Time
			}
		case err != nil || filter.Match(r):
			own = visit(r, err)
		}
		return own
	})
	if form, ok := errors.AsType[*events.FormError](err); ok && own == nil {
		file := l.source.file
		if file == "-" {
			file = "FILE"
		} else {
			file = cli.ShellWord(file)
		}
		return cli.Usage(
			form.Lines+" "+file+" | "+cli.SameBut(l.cmd, "file", "-"), "the event log is %s; it must be a text in lines of JSON",
			form.Form,
		)
	}
	if err != nil && own == nil {
		return cli.Usage(
			"lockagent events tail --all --follow=false --format jsonl > events.jsonl",
			"this is no event log in lines of JSON: %w", err,
		)
	}
	return err
}

// latest returns from when the last event is of a log in which a replay from a time on has found nothing. It
// returns the zero time if there is none, or if it cannot be read.
func (l *eventLog) latest() (at time.Time) {
	if l.lines != nil {
		return l.early
	}
	ctx := l.cmd.Context()
	state, err := l.grown.state(ctx)
	if err == nil {
		_ = l.grown.replay(ctx, startAt{position: state.Last}, events.Filter{}, func(r *events.Record, _ error) error {
			at = r.Stored
			return nil
		})
	}
	return at
}

// awaitStream returns when there is a stream.
func (l *eventLog) awaitStream(ctx context.Context) error {
	const pause = time.Second
	fmt.Fprintln(l.cmd.ErrOrStderr(), "lockagent: waiting for the first agent to publish an event")
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		if _, err := l.grown.state(ctx); !errors.Is(err, natslog.ErrNoStream) {
			return l.explain(err)
		}
	}
}

// share returns how much of the log has been read at a position.
func (l *eventLog) share(ctx context.Context) func(position uint64) float64 {
	unknown := func(uint64) float64 { return -1 }
	if l.lines != nil {
		if l.lines.size == 0 {
			return unknown
		}
		return func(uint64) float64 { return float64(l.lines.read) / float64(l.lines.size) }
	}
	s, err := l.grown.state(ctx)
	if err != nil || s.Last < s.First {
		return unknown // the read itself tells the error
	}
	return func(position uint64) float64 { return float64(position-s.First+1) / float64(s.Last-s.First+1) }
}

// explain gives what ends the reading of the log its exit code.
func (l *eventLog) explain(err error) error {
	if l.server != nil && errors.Is(err, natslog.ErrNoStream) {
		return eventlog.NoLogIn(l.source.dir)
	}
	switch {
	case err == nil:
		return nil
	case l.cmd.Context().Err() != nil:
		return &cli.Failure{Code: cli.ExitFailed, Err: fmt.Errorf("ended before the log did: %w", err)}
	case l.grown == nil: // a file
		return l.source.nats.Failure(l.cmd, err)
	}
	return l.grown.failure(l.cmd, err)
}

// startAt says where in a log to begin. The zero startAt is its beginning.
type startAt struct {
	time     time.Time // the first event at this time or later
	position uint64    // the first event at this position or later, if it is not 0
	now      bool      // only what is to come
}

func (s startAt) inStream() natslog.From {
	switch {
	case s.now:
		return natslog.FromNow()
	case !s.time.IsZero():
		return natslog.FromTime(s.time)
	case s.position > 0:
		return natslog.FromPosition(s.position)
	}
	return natslog.From{}
}

// countedReader counts what has been read.
type countedReader struct {
	from       io.Reader
	read, size int64 // in bytes; size is 0 if it is not known
}

func (c *countedReader) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.read += int64(n)
	return n, err
}
