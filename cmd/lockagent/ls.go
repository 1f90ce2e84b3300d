//go:build linux

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// rowOf has the oldest holder of a lock; who is without one has the oldest waiter.
func rowOf(v *lockView, now time.Time) row {
	cells := []string{string(v.Name), string(v.Kind), "", "", "", fmt.Sprint(v.Waiting), ""}
	if len(v.Holders) > 0 {
		h := &v.Holders[0]
		cells[2], cells[3], cells[4], cells[6] = h.State, h.token(), readable.Duration(now.Sub(h.Since)), v.holder()
	} else {
		cells[2] = "waiting"
		if v.Waiting == 0 {
			cells[2] = "free"
		}
	}
	return row{cells, v}
}

var lockColumns = []string{"LOCK", "KIND", "STATE", "TOKEN", "FOR", "WAITING", "HOLDER"}

func newLs() *cobra.Command {
	var f daemonFlag
	var format listFlag
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
				err = format.check(cmd)
			}
			if err != nil {
				return err
			}
			daemon, err := f.open(cmd)
			if err != nil {
				return err
			}
			defer daemon.close()
			now, l := time.Now(), list{name: "locks", columns: lockColumns}
			err = daemon.list(cmd.Context(), &lockagentv1.ListRequest{Pattern: pattern}, func(m *lockagentv1.Lock) bool {
				v := viewOf(m)
				l.rows = append(l.rows, rowOf(&v, now))
				return true
			})
			if err != nil {
				return err
			}
			return format.write(cmd, l)
		},
	}
	format.add(cmd)
	f.add(cmd)
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
	return "", usage(cmd.CommandPath()+" 'orders/*'"+places(cmd.Flags()), "%q takes one pattern, in quotes", cmd.CommandPath())
}

func newShow() *cobra.Command {
	var f daemonFlag
	var format listFlag
	var kind kindFlag
	cmd := &cobra.Command{
		Use:               "show NAME",
		Short:             "Show who holds one lock, and who waits for it",
		Long:              "Show who holds one lock, and who waits for it: the programs of this host, and the holder as the store tells it.",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeLockOnce,
		RunE: aboutLock(func(cmd *cobra.Command, name lockagent.Name) error {
			if err := format.check(cmd); err != nil {
				return err
			}
			daemon, err := f.open(cmd)
			if err != nil {
				return err
			}
			defer daemon.close()
			var got *lockagentv1.GetResponse
			err = daemon.ofKind(cmd.Context(), name, kind, func(is lockagentv1.Kind) (err error) {
				got, err = daemon.look.Get(cmd.Context(), &lockagentv1.GetRequest{Name: string(name), Kind: is})
				return err
			})
			if err != nil {
				return err
			}
			v := viewOf(got.GetLock())
			l := list{name: "claims", columns: []string{"STATE", "TOKEN", "FOR", "LEFT", "USER", "WHO"}}
			for _, c := range append(v.Holders, v.Waiters...) {
				left := ""
				if c.LeftMS != 0 {
					left = readable.Duration(time.Duration(c.LeftMS) * time.Millisecond)
				}
				l.rows = append(l.rows, row{[]string{c.State, c.token(), readable.Duration(time.Since(c.Since)), left, c.User, c.whose()}, c})
			}
			if got.GetHeld() && v.Held == 0 {
				l.rows = append(l.rows, row{
					[]string{"held", "", "", readable.Duration(got.GetRemaining().AsDuration()), "", "on another host: " + got.GetHolder()},
					map[string]any{"state": "held elsewhere", "holder": got.GetHolder(), "left_ms": got.GetRemaining().AsDuration().Milliseconds()},
				})
			}
			if got.GetResting() {
				l.rows = append(l.rows, row{[]string{"resting", "", "", "", "", "nobody: this daemon keeps it for a moment"}, map[string]any{"state": "resting"}})
			}
			return format.write(cmd, l)
		}),
	}
	kind.add(cmd)
	format.add(cmd)
	f.add(cmd)
	return cmd
}
