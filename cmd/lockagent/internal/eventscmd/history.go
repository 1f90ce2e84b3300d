package eventscmd

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events/fold"
)

// historyFlags are the flags of the verb history.
type historyFlags struct {
	lookFlags
	during cli.TimeRange
	last   int
}

func newHistory() *cobra.Command {
	var f historyFlags
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show the holds of a lock",
		Long: `Show the holds of a lock, the oldest first. A row has the times, the agent, the token, how the hold
came, and how it ended. It names the process that had the lock, or the owner if that is the process of the agent.
The name may be a pattern, in which a part * is any part, and a last part > is all that follows.

Times are those of the agents' clocks, in the zone of this machine, which each time names. The order is that of the
tokens, which no clock disturbs. The holds of several locks are in the order of time.`,
		Example: `  lockagent events history orders/42
  lockagent events history orders/42 --since 1h
  lockagent events history 'billing/>' --since yesterday --until today --format jsonl
  lockagent events history orders/42 --last 20 --format json`,
		Args: cobra.ArbitraryArgs,
		RunE: cli.AboutLocks(f.run),
	}
	f.during.AddFlags(cmd, "holds that were held")
	cmd.Flags().IntVar(&f.last, "last", 0, "only this `number` of holds: those that began last")
	f.lookFlags.addFlags(cmd, "jsonl")
	return cmd
}

func (f *historyFlags) check(cmd *cobra.Command, name lockagent.Name, now time.Time) error {
	if cmd.Flags().Changed("last") && f.last <= 0 {
		return cli.Usage(cli.Again(cmd)+" --last 20", "--last must be at least 1, not %d", f.last)
	}
	if err := checkLock(cmd, name); err != nil {
		return err
	}
	if err := f.during.Check(cmd, now); err != nil {
		return err
	}
	return f.lookFlags.check(cmd)
}

// HistoryView is the JSON of a history. It has the lock or the pattern that was asked for.
type HistoryView struct {
	Version int            `json:"version"`
	Lock    lockagent.Name `json:"lock,omitempty"`
	Pattern lockagent.Name `json:"pattern,omitempty"`
	Holds   []fold.Hold    `json:"holds"`
}

// holdLine is a hold on a line of JSON.
type holdLine struct {
	Version int       `json:"version"`
	Hold    fold.Hold `json:"hold"`
}

func (f *historyFlags) run(cmd *cobra.Command, name lockagent.Name) error {
	now := time.Now()
	if err := f.check(cmd, name, now); err != nil {
		return err
	}
	held := func(h *hold) bool { return h.heldWithin(f.during.Since, f.during.End(now)) }
	told := newStory(name, held)
	told.most = f.last
	if err := told.read(cmd, &f.source); err != nil {
		return err
	}
	holds := slices.DeleteFunc(told.all(), func(h hold) bool { return !held(&h) })
	holds = told.latest(holds)
	pattern := told.of.Pattern != ""
	var err error
	switch f.format {
	case "json":
		view := HistoryView{Version: cli.JSONVersion, Lock: name, Holds: bare(holds)}
		if pattern {
			view.Lock, view.Pattern = "", name
		}
		err = cli.WriteJSON(cmd.OutOrStdout(), view)
	case "jsonl":
		var all []holdLine
		for i := range holds {
			all = append(all, holdLine{cli.JSONVersion, holds[i].Hold})
		}
		err = cli.WriteLines(cmd.OutOrStdout(), all)
	default:
		err = writeHistory(cmd.OutOrStdout(), name, pattern, holds, now)
	}
	if err == nil && len(holds) == 0 {
		err = &cli.Failure{
			Code: cli.ExitEmpty, Err: fmt.Errorf("the event log has no holds of %q%s", name, f.during.Text(now)),
			Try: cli.Again(cmd),
		}
	}
	return err
}

// writeHistory writes holds. Those of a pattern are of several locks, which have a column.
func writeHistory(out io.Writer, name lockagent.Name, pattern bool, holds []hold, now time.Time) error {
	columns := []string{"FROM", "UNTIL", "FOR", "OWNER", "TOKEN", "CAME", "ENDED", "AGENT"}
	if pattern {
		columns = append([]string{"LOCK"}, columns...)
	}
	rows := cli.NewTable(columns...)
	stores, agents := make(map[string]bool), make(map[lockagent.AgentID]bool)
	for i := range holds {
		h := &holds[i]
		stores[h.Store], agents[h.Agent] = true, true
		until := "-"
		if !h.Until.IsZero() {
			until = readable.Time(h.Until, now)
		}
		cells := []string{
			readable.Time(h.From, now), until, h.lasted(now), fold.WhoText(h.Who, h.Owner, h.Agent, h.Process),
			fmt.Sprint(h.Token), h.came(), h.ended(now), fold.AgentText(h.Agent, h.Process),
		}
		if pattern {
			cells = append([]string{string(h.Lock)}, cells...)
		}
		rows.Add(cells...)
	}
	text := fmt.Sprintf(
		"%s: %s of %s\n", cli.OneLine(string(name)), readable.Counted(len(holds), "hold", "holds"),
		readable.Counted(len(agents), "agent", "agents"),
	)
	if len(stores) > 1 && !pattern {
		text += fmt.Sprintf("The log has locks of this name in %d stores; they are different locks.\n", len(stores))
	}
	if len(holds) > 0 {
		text += "\n" + rows.String()
	}
	_, err := io.WriteString(out, text)
	return err
}
