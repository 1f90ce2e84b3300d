//go:build linux

package lookcmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// rowOf has the oldest holder of a lock; who is without one has the oldest waiter.
func rowOf(v *client.LockView, now time.Time) cli.Row {
	cells := []string{string(v.Name), string(v.Kind), "", "", "", fmt.Sprint(v.Waiting), ""}
	if len(v.Holders) > 0 {
		h := &v.Holders[0]
		cells[2], cells[3], cells[4], cells[6] = h.State, h.TokenText(), readable.Duration(now.Sub(h.Since)), v.Holder()
	} else {
		cells[2] = "waiting"
		if v.Waiting == 0 {
			cells[2] = "free"
		}
	}
	return cli.Row{Cells: cells, View: v}
}

var lockColumns = []string{"LOCK", "KIND", "STATE", "TOKEN", "FOR", "WAITING", "HOLDER"}

// NewLs makes the verb ls.
func NewLs() *cobra.Command {
	var f client.Flag
	var format cli.ListFlag
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List the locks that programs of this host hold or wait for",
		Long: `List the locks that programs of this host hold or wait for. In a pattern * stands for any text
without a slash, and ** for any text.`,
		Example:    "  lockagent ls\n  lockagent ls 'orders/*' --format json",
		SuggestFor: []string{"list", "locks", "ps"},
		Args:       cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern, err := patternOf(cmd, args)
			if err == nil {
				err = format.Check(cmd)
			}
			if err != nil {
				return err
			}
			daemon, err := f.Open(cmd)
			if err != nil {
				return err
			}
			defer daemon.Close()
			now, l := time.Now(), cli.List{Name: "locks", Columns: lockColumns}
			err = daemon.List(cmd.Context(), &lockagentv1.ListRequest{Pattern: pattern}, func(m *lockagentv1.Lock) bool {
				v := client.ViewOf(m)
				l.Rows = append(l.Rows, rowOf(&v, now))
				return true
			})
			if err != nil {
				return err
			}
			return format.Write(cmd, l)
		},
	}
	format.Add(cmd)
	f.Add(cmd)
	return cmd
}

// patternOf is the pattern of a verb that takes one or none.
func patternOf(cmd *cobra.Command, args []string) (string, error) {
	switch len(args) {
	case 0:
		return "", nil
	case 1:
		return args[0], nil
	}
	return "", cli.Usage(
		cmd.CommandPath()+" 'orders/*'"+cli.Places(cmd.Flags()), "%q takes one pattern, in quotes", cmd.CommandPath(),
	)
}

// NewShow makes the verb show.
func NewShow() *cobra.Command {
	var f client.Flag
	var format cli.ListFlag
	var kind client.KindFlag
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds one lock, and who waits for it",
		Long: "Show who holds one lock, and who waits for it: the programs of this host, and the holder as " +
			"the store tells it.",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: client.CompleteLockOnce,
		RunE: cli.AboutLock(func(cmd *cobra.Command, name lockagent.Name) error {
			if err := format.Check(cmd); err != nil {
				return err
			}
			daemon, err := f.Open(cmd)
			if err != nil {
				return err
			}
			defer daemon.Close()
			var got *lockagentv1.GetResponse
			err = daemon.OfKind(cmd.Context(), name, kind, func(is lockagentv1.Kind) (err error) {
				got, err = daemon.Look.Get(cmd.Context(), &lockagentv1.GetRequest{Name: string(name), Kind: is})
				return err
			})
			if err != nil {
				return err
			}
			v := client.ViewOf(got.GetLock())
			l := cli.List{Name: "claims", Columns: []string{"STATE", "TOKEN", "FOR", "LEFT", "USER", "WHO"}}
			now := time.Now()
			for _, c := range append(v.Holders, v.Waiters...) {
				l.Rows = append(l.Rows, cli.Row{Cells: []string{
					c.State, c.TokenText(), readable.Duration(now.Sub(c.Since)), c.Left(now), c.User, c.Whose(),
				}, View: c})
			}
			if got.GetHeld() && v.Held == 0 {
				l.Rows = append(l.Rows, cli.Row{
					Cells: []string{
						"held", "", "", readable.Duration(got.GetRemaining().AsDuration()), "", "on another host: " + got.GetHolder(),
					},
					View: map[string]any{
						"state": "held elsewhere", "holder": got.GetHolder(), "left_ms": got.GetRemaining().AsDuration().Milliseconds(),
					},
				})
			}
			if got.GetResting() {
				l.Rows = append(l.Rows, cli.Row{
					Cells: []string{"resting", "", "", "", "", "nobody: this daemon keeps it for a moment"},
					View:  map[string]any{"state": "resting"},
				})
			}
			return format.Write(cmd, l)
		}),
	}
	kind.Add(cmd)
	format.Add(cmd)
	f.Add(cmd)
	return cmd
}
