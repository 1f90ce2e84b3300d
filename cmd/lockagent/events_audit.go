package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// auditFlags are the flags of the verb audit.
type auditFlags struct {
	source
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
	flags.StringSliceVar(&f.agents, "agent", nil, "only events of the agents with these `ids`")
	flags.StringVar(&f.lock, "lock", "", "only holds of the lock with this `name`")
	flags.DurationVar(&f.since, "since", 0, "only events of this last `duration`, such as 10m")
	flags.StringVar(&f.format, "format", "text", "`form` of the report: text or json")
	f.addFlags(cmd)
	return cmd
}

func (f *auditFlags) run(cmd *cobra.Command) error {
	lock, err := f.check(cmd)
	if err != nil {
		return err
	}
	audit := events.NewAudit()
	visit := func(r events.Record, err error) error { return audit.Visit(f.about(lock, r), err) }
	if err := f.read(cmd, visit); err != nil {
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
		return &failure{exitEmpty, errors.New("not proven: there are no events"), "lockagent events tail --all --follow=false"}
	case lock != "" && report.Grants == 0:
		return &failure{exitEmpty, fmt.Errorf("not proven: there are no holds of %q", lock), "lockagent events tail --all --follow=false --kind granted"}
	case report.Verdict == events.Violated:
		return &failure{code: exitViolated, err: fmt.Errorf("not proven: %s", report.Verdict)}
	case report.Verdict != events.Proven:
		return &failure{code: exitIncomplete, err: fmt.Errorf("not proven: %s", report.Verdict)}
	}
	return nil
}

func (f *auditFlags) check(cmd *cobra.Command) (lockagent.Name, error) {
	if err := f.source.check(cmd); err != nil {
		return "", err
	}
	if cmd.Flags().Changed("since") && f.since <= 0 {
		return "", usage("lockagent events audit --since 10m", "--since must be longer than nothing, not %v", f.since)
	}
	if err := checkFormat(cmd, f.format, "text", "json"); err != nil {
		return "", err
	}
	if f.lock == "" {
		return "", nil
	}
	return parseLock(f.lock, "lockagent events audit --lock orders/42")
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

func (f *auditFlags) read(cmd *cobra.Command, visit events.Visit) (err error) {
	log, err := f.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	var from startAt
	if f.since > 0 {
		from.time = time.Now().Add(-f.since)
	}
	var filter events.Filter
	for _, agent := range f.agents {
		filter.Agents = append(filter.Agents, lockagent.AgentID(agent))
	}
	return log.replay(cmd.Context(), from, filter, visit)
}
