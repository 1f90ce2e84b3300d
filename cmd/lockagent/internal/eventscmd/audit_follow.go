package eventscmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
)

const (
	// lookEvery is how often an audit that goes on looks for another verdict.
	lookEvery = time.Second
	// saveEvery is how often it writes its checkpoint.
	saveEvery = 10 * time.Second
)

// follower is an audit that goes on.
type follower struct {
	flags *auditFlags
	out   io.Writer

	mu     sync.Mutex
	audit  *audit.Audit // guarded by mu
	latest audit.Report // guarded by mu; as it was when somebody looked

	caughtUp chan struct{} // closed when all is read that there was in the beginning

	// Only one goroutine at a time looks.
	told  *VerdictChange // the last one, or nil
	saved time.Time

	state func(context.Context) (natslog.StreamState, error)
	deaf  bool          // the server did not answer
	heard time.Time     // by its clock, when it answered again
	idle  time.Duration // for how long it could have told of an event
}

// VerdictChange is what another program is told of, in JSON.
type VerdictChange struct {
	Version  int           `json:"version"`
	Time     time.Time     `json:"time"`
	Verdict  audit.Verdict `json:"verdict"`
	Before   audit.Verdict `json:"before,omitempty"` // missing in the first
	Position uint64        `json:"position"`         // up to which the log was read
	Report   audit.Report  `json:"report"`
}

// goOn audits until it is interrupted. Its error has the exit code of the last verdict.
func (f *auditFlags) goOn(cmd *cobra.Command, log *eventLog, auditor *audit.Audit) error {
	w := newFollower(f, cmd.OutOrStdout(), auditor, log.grown.state)
	stop, err := f.serve(cmd, log, w)
	if err != nil {
		return err
	}
	defer stop()
	visit := f.about(w.visit)
	log.begun = func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		_, err := f.identify(cmd.Context(), log, auditor)
		return err
	}
	var past natslog.StreamState
	replay := func(ctx context.Context) (err error) {
		past, err = f.read(ctx, log, auditor, &w.mu, visit)
		if errors.Is(err, natslog.ErrNoStream) {
			return nil
		}
		return err
	}
	tail := func(ctx context.Context) error {
		// With --begin the audit may have visited nothing of what the stream had.
		return log.tail(ctx, startAt{position: max(w.position(), past.Last) + 1}, events.Filter{}, visit)
	}
	if err := w.run(cmd.Context(), replay, tail); err != nil {
		return err
	}
	return f.verdictOf(log, &w.latest)
}

// newFollower returns the follower of an audit. Until the log was read it says what the checkpoint says.
func newFollower(
	f *auditFlags, out io.Writer, auditor *audit.Audit, state func(context.Context) (natslog.StreamState, error),
) *follower {
	return &follower{
		flags: f, out: out, audit: auditor, latest: auditor.ReportAt(auditor.Stored()), saved: time.Now(), state: state,
		caughtUp: make(chan struct{}),
	}
}

// run reads what there is, and then what comes, until ctx ends. Then it tells and keeps what it has found.
func (w *follower) run(ctx context.Context, replay, tail func(context.Context) error) error {
	group, both := errgroup.WithContext(ctx)
	group.Go(func() error { return w.watch(both) })
	group.Go(func() error {
		if err := replay(both); err != nil {
			return err
		}
		close(w.caughtUp)
		if err := tail(both); err != nil {
			return err
		}
		return context.Cause(both)
	})
	err := group.Wait()
	switch {
	case cli.Unread(err): // nobody can be told; the exit code tells the verdict
		return w.flags.save(w.snapshot)
	case ctx.Err() == nil:
		return err
	}
	if err = w.tell(time.Now(), w.look()); cli.Unread(err) {
		err = nil
	}
	return errors.Join(err, w.flags.save(w.snapshot))
}

func (w *follower) position() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.audit.Position()
}

func (w *follower) visit(r *events.Record, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.audit.Visit(r, err)
}

// watch looks at the verdict until ctx ends, or until nobody can be told. Until all is read that there was in
// the beginning, a verdict is only for those who ask for metrics.
func (w *follower) watch(ctx context.Context) error {
	caughtUp := w.caughtUp
	for {
		select {
		case <-w.caughtUp:
			caughtUp = nil
			w.listen(ctx)
		default:
		}
		began := time.Now()
		report := w.look()
		if caughtUp == nil {
			if err := w.tell(began, report); err != nil {
				return err
			}
		}
		if began.Sub(w.saved) >= saveEvery {
			w.saved = began
			if err := w.flags.save(w.snapshot); err != nil {
				return err
			}
		}
		select {
		case <-caughtUp:
		case <-time.After(pauseAfter(time.Since(began))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pauseAfter is how long an audit reads on after a look that took some time, in which it does not read.
func pauseAfter(took time.Duration) time.Duration { return max(lookEvery, 10*took) }

// snapshot is what is known now. The audit goes on while that is written.
func (w *follower) snapshot() audit.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.audit.Snapshot()
}

// listen finds out for how long the stream has taken no event. Only the clock of the server counts, and
// only while it answers: an agent is not silent because this program is cut off.
func (w *follower) listen(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	state, err := w.state(ctx)
	if err != nil {
		w.deaf, w.idle = true, 0
		return
	}
	if w.deaf {
		w.deaf, w.heard = false, state.Now
	}
	w.mu.Lock()
	since := w.audit.Stored()
	w.mu.Unlock()
	if w.heard.After(since) {
		since = w.heard
	}
	w.idle = state.Now.Sub(since)
}

// look finds out what is known now.
func (w *follower) look() seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest = w.audit.ReportAt(w.audit.Stored().Add(w.idle))
	w.flags.narrow(&w.latest)
	return seen{w.latest, w.audit.Position()}
}

// seen is what is known up to a position.
type seen struct {
	report   audit.Report
	position uint64
}

// tell tells of the verdict if it has changed, or if there are more violations.
func (w *follower) tell(now time.Time, seen seen) error {
	report, position := seen.report, seen.position
	change := &VerdictChange{
		Version: cli.JSONVersion, Time: now, Verdict: report.Verdict, Position: position, Report: report,
	}
	if before := w.told; before != nil {
		if before.Verdict == change.Verdict && before.Report.Violations.Count == report.Violations.Count {
			return nil
		}
		change.Before = before.Verdict
	}
	w.told = change
	if w.flags.format == "jsonl" {
		return json.NewEncoder(w.out).Encode(change)
	}
	_, err := io.WriteString(w.out, change.text(now))
	return err
}

// text is the change for people. Of a log that is proven the first line is enough.
func (c *VerdictChange) text(now time.Time) string {
	before := ""
	if c.Before != "" {
		before = fmt.Sprintf(", which was %s", c.Before)
	}
	return fmt.Sprintf(
		"%s  up to position %s%s\n%s\n", readable.Time(now, now), readable.Number(c.Position), before, c.Report,
	)
}

// report is the report of the last look.
func (w *follower) report() audit.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest
}
