//go:build linux

package lookcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventtext"
	"github.com/lockagent/lockagent/events"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// NewWatch makes the verb watch.
func NewWatch() *cobra.Command {
	var f client.Flag
	var format cli.ListFlag
	var since cli.TimeRange
	cmd := &cobra.Command{
		Use:   "watch [PATTERN]",
		Short: "Follow the locks that programs of this host hold or wait for",
		Long: `Follow the locks as ls shows them: first as they are, and then each one that changes. A lock that nobody uses
any more is free. Whoever reads too slowly misses changes, and never how a lock is in the end. A watch ends by a signal,
or when nobody reads its output any more.

With --since, follow the events of the locks in the event log of the daemon: first those since then, in the last 100,000
messages of the log at most, and then those to come, each once. If the log begins later, it begins with what there is.
As jsonl an event is a CloudEvent, as in lockagent events tail.`,
		Example: "  lockagent watch 'orders/**' --format jsonl\n  lockagent watch --since 10m\n" +
			"  lockagent watch --since 14:03 orders/42",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern, err := patternOf(cmd, args)
			if err == nil {
				err = format.Check(cmd)
			}
			if err != nil {
				return err
			}
			if format.Form == "json" || format.Form == "table" {
				return cli.Usage(
					cli.Again(cmd)+" --format jsonl", "--format must be text or jsonl, not %q: a watch has no end", format.Form,
				)
			}
			if format.Form == "" {
				format.Form = "text" // rather than a table for each line
			}
			ctx, cancel := whileRead(cmd.Context(), cmd.OutOrStdout())
			defer cancel()
			cmd.SetContext(ctx)
			w := watch{cmd: cmd, format: &format, pattern: pattern}
			if err := since.Check(cmd, time.Now()); err != nil {
				return err
			}
			w.since = since.Since
			if w.daemon, err = f.Open(cmd); err != nil {
				return err
			}
			defer w.daemon.Close()
			if !w.since.IsZero() {
				return w.events()
			}
			return w.locks()
		},
	}
	cmd.Flags().StringVar(
		&since.SinceText, "since", "",
		"begin with the events since this `time`: "+cli.MomentForms+"; it follows events rather than locks",
	)
	format.Add(cmd)
	// What is followed has no end, so it cannot be one JSON document.
	cmd.Flags().Lookup("format").Usage = "`form` of the output: text (with tabs) or jsonl; by default text"
	f.Add(cmd)
	return cmd
}

// whileRead is a context that also ends when nobody can read any more what is written to out, which may be a pipe.
// Otherwise a watch would notice that only at the next change.
func whileRead(ctx context.Context, out io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	f, ok := out.(*os.File)
	var over [2]int // a pipe whose end wakes the goroutine
	if !ok || unix.Pipe2(over[:], unix.O_CLOEXEC) != nil {
		return ctx, cancel
	}
	context.AfterFunc(ctx, func() { _ = unix.Close(over[1]) })
	go func() {
		defer cancel()
		defer func() { _ = unix.Close(over[0]) }()
		for err := error(unix.EINTR); errors.Is(err, unix.EINTR); {
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(f.Fd())}, {Fd: int32(over[0])}}, -1) // for errors and ends alone
		}
	}()
	return ctx, cancel
}

// watch is a watch that goes on.
type watch struct {
	cmd     *cobra.Command
	format  *cli.ListFlag
	pattern string
	since   time.Time
	daemon  *client.Daemon
}

// received is what a watch reads.
type received interface {
	Receive() bool
	Err() error
}

// read calls show for each message of a stream, until it ends.
func (w *watch) read(s received, show func() error) error {
	for s.Receive() {
		if err := show(); err != nil {
			return err
		}
	}
	if w.cmd.Context().Err() != nil || errors.Is(s.Err(), context.Canceled) {
		return nil // by an interrupt, as it is meant to end
	}
	return w.daemon.Failed(cmp.Or(s.Err(), io.ErrUnexpectedEOF))
}

// locks shows locks as they are, and each change.
func (w *watch) locks() error {
	locks, err := w.daemon.Look.Watch(w.cmd.Context(), &lockagentv1.WatchRequest{Pattern: w.pattern})
	if err != nil {
		return w.daemon.Failed(err)
	}
	defer func() { _ = locks.Close() }()
	return w.read(locks, func() error {
		l := locks.Msg().GetLock()
		if l == nil {
			return nil
		}
		v := client.ViewOf(l)
		return w.format.Write(w.cmd, cli.List{Rows: []cli.Row{rowOf(&v, time.Now())}})
	})
}

// events shows the events since a time, and those to come.
func (w *watch) events() error {
	logged, err := w.daemon.Look.ReadLog(w.cmd.Context(), &lockagentv1.ReadLogRequest{
		From: &lockagentv1.ReadLogRequest_Since{Since: timestamppb.New(w.since)}, Follow: true,
		Watch: cmp.Or(w.pattern, "**"),
	})
	if err != nil {
		return w.daemon.Failed(err)
	}
	defer func() { _ = logged.Close() }()
	texts := eventtext.New(true)
	err = w.read(logged, func() error {
		for _, told := range logged.Msg().GetRecords() {
			if err := w.event(told, texts.Line); err != nil {
				return err
			}
		}
		return nil
	})
	switch connect.CodeOf(logged.Err()) {
	case connect.CodeFailedPrecondition:
		return &cli.Failure{
			Code: cli.ExitUnavailable, Err: fmt.Errorf("the daemon on %s has no event log", w.daemon.Path),
			Try: "lockagent doctor    (says why)",
		}
	case connect.CodeNotFound:
		return &cli.Failure{
			Code: cli.ExitEmpty, Err: fmt.Errorf("the event log of the daemon on %s has no events yet", w.daemon.Path),
			Try: "lockagent lock NAME -- COMMAND",
		}
	}
	return err
}

// event shows an event, as JSON or as a line of text, or says what the log lacks in its place.
func (w *watch) event(told *lockagentv1.LogRecord, line func(events.Record, time.Time) string) error {
	if missing := told.GetWrong(); missing != "" {
		_, err := fmt.Fprintf(w.cmd.ErrOrStderr(), "lockagent: %s\n", cli.OneLine(missing))
		return err
	}
	return events.ReadLines(strings.NewReader(told.GetEvent()), func(r *events.Record, err error) error {
		if err != nil {
			return err
		}
		return w.format.Write(w.cmd, cli.List{
			Rows: []cli.Row{{Cells: []string{line(*r, time.Now())}, View: json.RawMessage(told.GetEvent())}},
		})
	})
}
