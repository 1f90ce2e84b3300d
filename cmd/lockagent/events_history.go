package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events"
)

// historyFlags are the flags of the verb history.
type historyFlags struct {
	lookFlags
	since time.Duration
	last  int
}

func newEventsHistory() *cobra.Command {
	var f historyFlags
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show the holds of a lock",
		Long: `Show the holds of a lock, the oldest first: from when to when, for how long, the process
that had it or, if that is the process of the agent, the owner, the agent, the token, how each hold came, and how it ended.

Times are those of the agents' clocks, in the zone of this machine, which each time names. The order is that of the
tokens, which no clock disturbs.`,
		Example: `  lockagent events history orders/42
  lockagent events history orders/42 --since 1h
  lockagent events history orders/42 --last 20 --format json`,
		Args: cobra.ArbitraryArgs,
		RunE: aboutLock(f.run),
	}
	cmd.Flags().DurationVar(&f.since, "since", 0, "only holds that were not over before this last `duration`, such as 10m")
	cmd.Flags().IntVar(&f.last, "last", 0, "only this `number` of holds, the last ones")
	f.lookFlags.addFlags(cmd)
	return cmd
}

func (f *historyFlags) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	switch {
	case changed("since") && f.since <= 0:
		return usage(again(cmd)+" --since 10m", "--since must be longer than nothing, not %v", f.since)
	case changed("last") && f.last <= 0:
		return usage(again(cmd)+" --last 20", "--last must be at least 1, not %d", f.last)
	}
	return f.lookFlags.check(cmd)
}

// historyView is the JSON of a history.
type historyView struct {
	Version int            `json:"version"`
	Lock    lockagent.Name `json:"lock"`
	Holds   []events.Hold  `json:"holds"`
}

func (f *historyFlags) run(cmd *cobra.Command, name lockagent.Name) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	now := time.Now()
	recent := func(h *hold) bool { return f.since == 0 || !h.overAt(now.Add(-f.since)) }
	told := newStory(name, recent)
	told.most = f.last
	if err := told.read(cmd, &f.source); err != nil {
		return err
	}
	holds := slices.DeleteFunc(told.all(), func(h hold) bool { return !recent(&h) })
	if f.last > 0 {
		holds = holds[max(0, len(holds)-f.last):]
	}
	var err error
	if f.format == "json" {
		err = writeJSON(cmd.OutOrStdout(), historyView{jsonVersion, name, bare(holds)})
	} else {
		err = writeHistory(cmd.OutOrStdout(), name, holds, now)
	}
	if err == nil && len(holds) == 0 {
		err = &failure{exitEmpty, fmt.Errorf("the event log has no holds of %q that were not over before", name), again(cmd) + f.place()}
	}
	return err
}

func writeHistory(out io.Writer, name lockagent.Name, holds []hold, now time.Time) error {
	rows := newTable("FROM", "UNTIL", "FOR", "OWNER", "TOKEN", "CAME", "ENDED", "AGENT")
	stores, agents := make(map[string]bool), make(map[lockagent.AgentID]bool)
	for i := range holds {
		h := &holds[i]
		stores[h.Store], agents[h.Agent] = true, true
		until := "-"
		if !h.Until.IsZero() {
			until = readable.Time(h.Until, now)
		}
		rows.add(readable.Time(h.From, now), until, h.lasted(now), events.WhoText(h.Who, h.Owner, h.Agent, h.Process),
			fmt.Sprint(h.Token), h.came(), h.ended(now), events.AgentText(h.Agent, h.Process))
	}
	text := fmt.Sprintf("%s: %s of %s\n", name, readable.Counted(len(holds), "hold", "holds"), readable.Counted(len(agents), "agent", "agents"))
	if len(stores) > 1 {
		text += fmt.Sprintf("The log has locks of this name in %d stores; they are different locks.\n", len(stores))
	}
	if len(holds) > 0 {
		text += "\n" + rows.String()
	}
	_, err := io.WriteString(out, text)
	return err
}

// table is text in columns.
type table struct {
	text strings.Builder
	tabs *tabwriter.Writer
}

func newTable(columns ...string) *table {
	t := &table{}
	t.tabs = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	t.add(columns...)
	return t
}

// add adds a row.
func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = oneLine(cmp.Or(cells[i], "-"))
	}
	fmt.Fprintln(t.tabs, strings.Join(cells, "\t"))
}

// oneLine is a text of a log for a terminal, which it must not control.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return unicode.ReplacementChar
	}, text)
}

func (t *table) String() string {
	_ = t.tabs.Flush() // to a strings.Builder, which takes all
	return t.text.String()
}
