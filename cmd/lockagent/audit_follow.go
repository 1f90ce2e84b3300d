package main

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

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events"
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
	audit  *events.Audit // guarded by mu
	latest events.Report // guarded by mu; as it was when somebody looked

	// Only one goroutine at a time looks.
	told  *verdictChange // the last one, or nil
	saved time.Time

	state func(context.Context) (events.StreamState, error)
	deaf  bool          // the server did not answer
	heard time.Time     // by its clock, when it answered again
	idle  time.Duration // for how long it could have told of an event
}

// newFollower returns the follower of an audit. Until the log was read it says what the checkpoint says.
func newFollower(f *auditFlags, out io.Writer, audit *events.Audit) *follower {
	return &follower{flags: f, out: out, audit: audit, latest: audit.ReportAt(audit.Stored()), saved: time.Now()}
}

// verdictChange is what another program is told of, in JSON.
type verdictChange struct {
	Version  int            `json:"version"`
	Time     time.Time      `json:"time"`
	Verdict  events.Verdict `json:"verdict"`
	Before   events.Verdict `json:"before,omitempty"` // missing in the first
	Position uint64         `json:"position"`         // up to which the log was read
	Report   events.Report  `json:"report"`
}

// goOn audits until it is interrupted. Its error has the exit code of the last verdict.
func (f *auditFlags) goOn(cmd *cobra.Command, log *eventLog, audit *events.Audit, lock lockagent.Name) error {
	w := newFollower(f, cmd.OutOrStdout(), audit)
	w.state = log.reader.State
	stop, err := f.serve(cmd, log, w)
	if err != nil {
		return err
	}
	defer stop()
	visit := about(lock, w.visit)
	if _, err := f.read(cmd.Context(), log, audit, visit); err != nil && !errors.Is(err, events.ErrNoStream) {
		return err
	}
	log.begun = func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		_, err := f.identify(cmd.Context(), log, audit)
		return err
	}
	from := startAt{position: audit.Position() + 1}
	group, ctx := errgroup.WithContext(cmd.Context())
	group.Go(func() error { return w.watch(ctx) })
	group.Go(func() error {
		if err := log.tail(ctx, from, events.Filter{}, visit); err != nil {
			return err
		}
		return context.Cause(ctx)
	})
	if err := group.Wait(); cmd.Context().Err() == nil {
		return err
	}
	if err := errors.Join(w.look(time.Now()), f.save(audit.Snapshot)); err != nil {
		return err
	}
	return f.verdictOf(&w.latest, lock)
}

func (w *follower) visit(r events.Record, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.audit.Visit(r, err)
}

// watch looks at the verdict until ctx ends, or until nobody can be told.
func (w *follower) watch(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for now := time.Now(); ; {
		w.listen(ctx)
		if err := w.look(now); err != nil {
			return err
		}
		if now.Sub(w.saved) >= saveEvery {
			w.saved = now
			if err := w.flags.save(w.snapshot); err != nil {
				return err
			}
		}
		select {
		case now = <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// snapshot is what is known now. The audit goes on while that is written.
func (w *follower) snapshot() events.Snapshot {
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

// look tells of the verdict if it has changed, or if there are more violations.
func (w *follower) look(now time.Time) error {
	w.mu.Lock()
	report, position := w.audit.ReportAt(w.audit.Stored().Add(w.idle)), w.audit.Position()
	w.flags.narrow(&report)
	w.latest = report
	w.mu.Unlock()
	change := &verdictChange{Version: jsonVersion, Time: now, Verdict: report.Verdict, Position: position, Report: report}
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
func (c *verdictChange) text(now time.Time) string {
	before := ""
	if c.Before != "" {
		before = fmt.Sprintf(", which was %s", c.Before)
	}
	return fmt.Sprintf("%s  up to position %s%s\n%s\n", readable.Time(now, now), readable.Number(c.Position), before, c.Report)
}

// report is the report of the last look.
func (w *follower) report() events.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest
}
