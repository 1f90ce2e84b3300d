package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// tailFlags are the flags of the verb tail.
type tailFlags struct {
	nats   natsFlags
	lock   string
	agent  string
	kinds  []string
	since  time.Duration
	all    bool
	follow bool
	format string
}

func newEventsTail() *cobra.Command {
	var f tailFlags
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show the events as they come",
		Long: `Show the events of all agents as they come, until it is interrupted.

As jsonl each event is a line of JSON, a CloudEvent, as "lockagent events audit
--file" reads it.`,
		Example: `  lockagent events tail
  lockagent events tail --since 10m --kind lost,expired,broken
  lockagent events tail --all --follow=false --format jsonl > events.jsonl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.lock, "lock", "", "only events of the lock with this `name`")
	flags.StringVar(&f.agent, "agent", "", "only events of the agent with this `id`")
	flags.StringSliceVar(&f.kinds, "kind", nil, "only these `kinds` of events, such as granted,lost")
	flags.DurationVar(&f.since, "since", 0, "begin with the events of this last `duration`, such as 10m")
	flags.BoolVar(&f.all, "all", false, "begin with the oldest event")
	flags.BoolVar(&f.follow, "follow", true, "go on with the events to come; --follow=false ends with those that are there")
	flags.StringVar(&f.format, "format", "text", "`form` of the events: text or jsonl")
	f.nats.add(cmd, "`URL` of the NATS server, by default "+defaultNATS)
	return cmd
}

func (f *tailFlags) run(cmd *cobra.Command) error {
	filter, from, err := f.selection(cmd)
	if err != nil {
		return err
	}
	reader, err := openEvents(cmd, f.nats, newLogger(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer reader.Close()
	read := reader.Tail
	if !f.follow {
		read = reader.Replay
	}
	out := cmd.OutOrStdout()
	var broken error // what keeps us from writing
	visit := func(r events.Record, err error) error {
		switch {
		case err != nil:
			_, broken = fmt.Fprintf(cmd.ErrOrStderr(), "lockagent: %v\n", err)
		case f.format == "jsonl":
			broken = events.WriteLine(out, r)
		default:
			_, broken = io.WriteString(out, eventText(r)+"\n")
		}
		return broken
	}
	err = read(cmd.Context(), from, filter, visit)
	if f.follow && errors.Is(err, events.ErrNoStream) {
		err = awaitStream(cmd, func() error { return read(cmd.Context(), events.From{}, filter, visit) })
	}
	switch {
	case errors.Is(broken, syscall.EPIPE): // whoever read it has seen enough
		return nil
	case broken != nil:
		return broken
	case f.follow && errors.Is(err, context.Cause(cmd.Context())): // how it is meant to end
		return nil
	}
	return readFailure(cmd, err)
}

// awaitStream reads as soon as there is a stream: all of it, for it is new.
func awaitStream(cmd *cobra.Command, read func() error) error {
	const pause = time.Second
	fmt.Fprintln(cmd.ErrOrStderr(), "lockagent: waiting for the first agent to publish an event")
	for {
		select {
		case <-cmd.Context().Done():
			return context.Cause(cmd.Context())
		case <-time.After(pause):
		}
		if err := read(); !errors.Is(err, events.ErrNoStream) {
			return err
		}
	}
}

// selection is what the flags ask for.
func (f *tailFlags) selection(cmd *cobra.Command) (filter events.Filter, from events.From, err error) {
	since := cmd.Flags().Changed("since")
	switch {
	case since && f.all:
		return filter, from, usage("lockagent events tail --all", "--since and --all exclude each other")
	case since && f.since <= 0:
		return filter, from, usage("lockagent events tail --since 10m", "--since must be longer than nothing, not %v", f.since)
	case !f.follow && !since && !f.all:
		return filter, from, usage("lockagent events tail --all --follow=false", "--follow=false without --since or --all shows nothing")
	}
	if err := checkFormat(cmd, f.format, "text", "jsonl"); err != nil {
		return filter, from, err
	}
	if filter.Lock, err = parseLock(cmd, f.lock); err != nil {
		return filter, from, err
	}
	if filter.Kinds, err = parseKinds(cmd, f.kinds); err != nil {
		return filter, from, err
	}
	filter.Agent = lockagent.AgentID(f.agent)
	switch {
	case since:
		from = events.FromTime(time.Now().Add(-f.since))
	case !f.all:
		from = events.FromNow()
	}
	return filter, from, nil
}

// eventText is an event on a line, for people.
func eventText(r events.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %.8s #%-6d  %-10s", r.Time.Local().Format("15:04:05.000000"), r.Agent, r.Seq, r.Kind)
	field := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format, args...) }
	if r.Lock != "" {
		field("%s", r.Lock)
	}
	if r.Token != 0 {
		field("token %d", r.Token)
	}
	if r.How != 0 {
		field("by %s", r.How)
	}
	if r.Owner != "" {
		field("owner %s", ownerText(r))
	}
	if r.Waited != 0 {
		field("waited %v", r.Waited)
	}
	if r.Held != 0 {
		field("held %v", r.Held)
	}
	if r.Waiters != 0 {
		field("%d waiting", r.Waiters)
	}
	if r.Remaining != 0 {
		field("trusted for %v", r.Remaining)
	}
	if r.Reason != 0 {
		field("reason %s", r.Reason)
	}
	switch r.Kind {
	case lockagent.EventAgentStarted:
		field("agent %s", r.Agent)
	case lockagent.EventStoreReset:
		field("%s, from %s to %s", r.Reset.Reason, r.Reset.From, r.Reset.To)
	}
	if r.Err != "" {
		field("error %q", r.Err)
	}
	return b.String()
}

// ownerText leaves out of an owner what the agent made of its own id.
func ownerText(r events.Record) string {
	if number, ok := strings.CutPrefix(string(r.Owner), string(r.Agent)+"/"); ok {
		return "/" + number
	}
	return fmt.Sprintf("%q", r.Owner)
}
