package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// auditFlags are the flags of the verb audit.
type auditFlags struct {
	nats   natsFlags
	file   string
	agents []string
	lock   string
	since  time.Duration
	format string
}

func newEventsAudit() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Prove from the event log that no two holds of a lock overlapped",
		Long: `Fold the event log and show whether it proves that no two holds of a lock
overlapped and that tokens only grew. It is proven, and the exit code 0, only if no
event is missing.

With --agent the proof is about holds of these agents only, for nothing is known of
the others. With --since events that are older are missing, which leaves what went
on at that time unproven.`,
		Example: `  lockagent events audit
  lockagent events audit --lock orders/42
  lockagent events audit --file events.jsonl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.file, "file", "", "read this `file` of JSON lines instead, - for the standard input")
	flags.StringSliceVar(&f.agents, "agent", nil, "only events of the agents with these `ids`")
	flags.StringVar(&f.lock, "lock", "", "only holds of the lock with this `name`")
	flags.DurationVar(&f.since, "since", 0, "only events of this last `duration`, such as 10m")
	flags.StringVar(&f.format, "format", "text", "`form` of the report: text or json")
	f.nats.add(cmd, "`URL` of the NATS server, by default "+defaultNATS)
	return cmd
}

func (f *auditFlags) run(cmd *cobra.Command) error {
	lock, err := f.check(cmd)
	if err != nil {
		return err
	}
	audit := events.NewAudit()
	visit := func(r events.Record, err error) error { return audit.Visit(f.about(lock, r), err) }
	if f.file != "" {
		err = f.readFile(cmd, visit)
	} else {
		err = f.readStream(cmd, visit)
	}
	if err != nil {
		return err
	}
	report := audit.Report()
	if f.format == "json" {
		err = writeJSON(cmd.OutOrStdout(), report)
	} else {
		_, err = io.WriteString(cmd.OutOrStdout(), report.String())
	}
	switch {
	case err != nil:
		return err
	case report.Events == 0:
		return &failure{exitFailed, errors.New("not proven: there are no events"), "lockagent events tail --all --follow=false"}
	case lock != "" && report.Grants == 0:
		return &failure{exitFailed, fmt.Errorf("not proven: there are no holds of %q", lock), "lockagent events tail --all --follow=false --kind granted"}
	case report.Verdict != events.Proven:
		return &failure{code: exitFailed, err: fmt.Errorf("not proven: %s", report.Verdict)}
	}
	return nil
}

func (f *auditFlags) check(cmd *cobra.Command) (lockagent.Name, error) {
	flags := cmd.Flags()
	switch {
	case f.file != "" && f.nats.given(cmd) != "":
		return "", usage("lockagent events audit --file "+f.file, "--file and --%s exclude each other", f.nats.given(cmd))
	case flags.Changed("since") && f.since <= 0:
		return "", usage("lockagent events audit --since 10m", "--since must be longer than nothing, not %v", f.since)
	}
	if err := checkFormat(cmd, f.format, "text", "json"); err != nil {
		return "", err
	}
	return parseLock(cmd, f.lock)
}

// about takes out of a record what it says if it is not about the lock, when one
// was asked for. Its place in the log of its agent stays, or it would be missing.
func (f *auditFlags) about(lock lockagent.Name, r events.Record) events.Record {
	if lock == "" || r.Lock == lock || r.Lock == "" {
		return r
	}
	r.Event = lockagent.Event{Kind: lockagent.EventRequested, Agent: r.Agent}
	return r
}

func (f *auditFlags) readStream(cmd *cobra.Command, visit events.Visit) error {
	reader, err := openEvents(cmd, f.nats, newLogger(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer reader.Close()
	var from events.From
	if f.since > 0 {
		from = events.FromTime(time.Now().Add(-f.since))
	}
	agents := f.agents
	if len(agents) == 0 {
		agents = []string{""} // all of them
	}
	for _, agent := range agents {
		filter := events.Filter{Agent: lockagent.AgentID(agent)}
		if err := reader.Replay(cmd.Context(), from, filter, visit); err != nil {
			return readFailure(cmd, err)
		}
	}
	return nil
}

func (f *auditFlags) readFile(cmd *cobra.Command, visit events.Visit) error {
	in := cmd.InOrStdin()
	if f.file != "-" {
		file, err := os.Open(f.file)
		if err != nil {
			return &failure{exitUsage, err, "lockagent events audit --file events.jsonl"}
		}
		defer file.Close()
		in = file
	}
	oldest := time.Now().Add(-f.since)
	return events.ReadLines(in, func(r events.Record, err error) error {
		if err == nil && (len(f.agents) > 0 && !slices.Contains(f.agents, string(r.Agent)) || f.since > 0 && r.Time.Before(oldest)) {
			return nil
		}
		return visit(r, err)
	})
}
