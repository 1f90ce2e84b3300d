package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
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

	mu      sync.Mutex
	audit   *events.Audit // guarded by mu
	visited uint64        // guarded by mu; how often there was something to read
	latest  events.Report // guarded by mu; as it was when somebody looked
	looked  uint64        // guarded by mu; visited, then

	// Only one goroutine at a time looks.
	told  *verdictChange // the last one, or nil
	saved time.Time
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
	w := &follower{flags: f, out: cmd.OutOrStdout(), audit: audit, saved: time.Now()}
	stop, err := f.serve(cmd, w)
	if err != nil {
		return err
	}
	defer stop()
	visit := about(lock, w.visit)
	if err := f.read(cmd.Context(), log, audit, visit); err != nil && !errors.Is(err, events.ErrNoStream) {
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
	return verdictOf(&w.latest, lock)
}

func (w *follower) visit(r events.Record, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.visited++
	return w.audit.Visit(r, err)
}

// watch looks at the verdict until ctx ends, or until nobody can be told.
func (w *follower) watch(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for now := time.Now(); ; {
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

// look tells of the verdict if it has changed, or if there are more violations.
func (w *follower) look(now time.Time) error {
	w.mu.Lock()
	if w.final() {
		w.mu.Unlock()
		return nil
	}
	report, position := w.audit.ReportAt(now), w.audit.Position()
	w.latest, w.looked = report, w.visited
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

// final reports whether another look would see the same: no agent lives, and nothing has come since.
// w.mu is held.
func (w *follower) final() bool {
	return w.told != nil && w.looked == w.visited && !slices.ContainsFunc(w.latest.Stores, func(s events.Judged) bool { return s.To != 0 })
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
