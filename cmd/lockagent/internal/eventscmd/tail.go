package eventscmd

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventtext"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// tailFlags are the flags of the verb tail.
type tailFlags struct {
	source
	lock   string
	agents []string
	owner  string
	kinds  []string
	urgent bool
	during cli.TimeRange
	all    bool
	follow bool
	format string
}

func newTail() *cobra.Command {
	var f tailFlags
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show the events as they come",
		Long: `Show the events of all agents as they come, until it is interrupted.

As jsonl each event is a line of JSON, a CloudEvent, as "lockagent events audit
--file" reads it.`,
		Example: `  lockagent events tail
  lockagent events tail --since 10m --urgent
  lockagent events tail --since '2026-11-24 14:00' --until '2026-11-24 15:00'
  lockagent events tail --lock 'orders/>' --kind granted,lost
  lockagent events tail --all --follow=false --format jsonl > events.jsonl`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.lock, "lock", "", patternUsage)
	flags.StringSliceVar(&f.kinds, "kind", nil, "only these `kinds` of events, such as granted,lost")
	flags.BoolVar(&f.urgent, "urgent", false, "only events that have consequences, such as lost, broken and storereset")
	flags.StringVar(&f.owner, "owner", "", "only events of this `owner`, also as lines show it: /7")
	flags.StringSliceVar(
		&f.agents, "agent", nil, "only events of the agents with these `ids`; what each line shows of an identity is enough",
	)
	flags.StringVar(&f.during.SinceText, "since", "", "begin with the events since this `time`: "+cli.MomentForms)
	flags.StringVar(
		&f.during.UntilText, "until", "", "end with the events until this `time`, in the same forms; a day is its beginning",
	)
	flags.BoolVar(&f.all, "all", false, "begin with the oldest event")
	flags.BoolVar(
		&f.follow, "follow", true, "go on with the events to come; --follow=false ends with those that are there",
	)
	flags.StringVar(&f.format, "format", "text", "`form` of the events: text or jsonl")
	f.addFlags(cmd)
	return cmd
}

// shortened is what a line may show of the identity of an agent: see [fold.ShortAgent].
var shortened = regexp.MustCompile(`^(.+-)?[0-9a-f]{8}$`)

func (f *tailFlags) run(cmd *cobra.Command) (err error) {
	filter, from, err := f.selection(cmd)
	if err != nil {
		return err
	}
	log, err := f.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	read := log.replay
	if f.follow {
		read = log.tail
	}
	out, texts, shown := cmd.OutOrStdout(), eventtext.New(len(f.kinds) == 0 && !f.urgent && f.owner == ""), false
	err = read(cmd.Context(), from, filter, func(r *events.Record, err error) error {
		switch {
		case err == nil && !f.of(r):
		case err == nil && f.later(r):
			if log.grown != nil && !r.Stored.IsZero() {
				return errSeen // the log is in the order in which the stream took it; copies are not
			}
		case err != nil:
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "lockagent: %s\n", cli.OneLine(err.Error()))
		case f.format == "jsonl":
			shown, err = true, events.WriteLine(out, *r)
		default:
			shown = true
			_, err = io.WriteString(out, texts.Line(*r, time.Now())+"\n")
		}
		return err
	})
	switch {
	case errors.Is(err, errSeen):
		return nil
	case err == nil && !shown && log.unreadable > 0:
		return log.nothing("the event log has nothing", "")
	}
	return err
}

// errSeen ends the reading of a log when all was seen that was asked for.
var errSeen = errors.New("all was seen")

// later reports whether an event came when all had come that was asked for. That is when the stream took it, as with
// --since. Of a line in a file, and of a copy that outlived its event, it is when the agent recorded the event.
func (f *tailFlags) later(r *events.Record) bool {
	at := r.Stored
	if at.IsZero() {
		at = r.Time
	}
	return !f.during.Until.IsZero() && at.After(f.during.Until)
}

// selection is what the flags ask for.
func (f *tailFlags) selection(cmd *cobra.Command) (filter events.Filter, from startAt, err error) {
	if err := f.check(cmd); err != nil {
		return filter, from, err
	}
	if filter, err = parsePattern(cmd, f.lock); err != nil {
		return filter, from, err
	}
	if filter.Kinds, err = parseKinds(cmd, f.kinds); err != nil {
		return filter, from, err
	}
	for _, agent := range f.agents {
		id, err := lockagent.ParseAgentID(agent)
		if err != nil {
			return filter, from, cli.Usage(
				cli.Again(cmd)+" --agent web-1,web-2",
				"--agent: no agent is named %q; a name is 1 to 64 letters, digits, '-' and '_'", agent,
			)
		}
		filter.Agents = append(filter.Agents, id)
	}
	if slices.ContainsFunc(f.agents, shortened.MatchString) {
		filter.Agents = nil // they are selected after decoding
	}
	if filter.Urgent = f.urgent; !f.madeUpOwner() { // else they are selected after decoding
		filter.Owner = lockagent.Owner(f.owner)
	}
	if err := filter.Validate(); err != nil {
		return filter, from, cli.Usage(cli.Again(cmd)+" --urgent", "--urgent and --kind: %s", reason(err))
	}
	from.time = f.during.Since
	from.now = from.time.IsZero() && !f.all
	return filter, from, nil
}

// of reports whether an event is of an agent and an owner that were asked for.
func (f *tailFlags) of(r *events.Record) bool {
	agent := len(f.agents) == 0 || slices.Contains(f.agents, string(r.Agent)) ||
		slices.Contains(f.agents, fold.ShortAgent(r.Agent))
	owner := f.owner == "" || r.Owner == lockagent.Owner(f.owner) ||
		f.madeUpOwner() && r.Owner == lockagent.Owner(r.Agent)+lockagent.Owner(f.owner)
	return agent && owner
}

// madeUpOwner reports whether the owner is named as lines show one for which its agent has made up a name: /7.
func (f *tailFlags) madeUpOwner() bool { return strings.HasPrefix(f.owner, "/") }

// check finds out whether the flags fit together. What is in a directory or a file is all there
// is: it is shown from its beginning, and does not go on.
func (f *tailFlags) check(cmd *cobra.Command) error {
	if err := f.source.check(cmd); err != nil {
		return err
	}
	if err := f.during.Check(cmd, time.Now()); err != nil {
		return err
	}
	changed := cmd.Flags().Changed
	since := changed("since")
	if changed("until") {
		if changed("follow") && f.follow {
			return cli.Usage(
				cli.Again(cmd)+" --until 10m", "--follow and --until exclude each other, for what is to come is later",
			)
		}
		f.follow, f.all = false, f.all || !since
	}
	if f.dir != "" || f.file != "" {
		if changed("follow") && f.follow {
			return cli.Usage(cli.Again(cmd), "--follow excludes --dir and --file, for nothing can be added to what they read")
		}
		f.follow, f.all = false, f.all || !since
	}
	switch {
	case since && f.all:
		return cli.Usage(cli.Again(cmd)+" --all", "--since and --all exclude each other")
	case !f.follow && !since && !f.all:
		return cli.Usage(cli.Again(cmd)+" --all --follow=false", "--follow=false without --since or --all shows nothing")
	}
	return cli.CheckFormat(cmd, f.format, "text", "jsonl")
}
