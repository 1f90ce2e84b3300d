//go:build linux

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

func newBreak() *cobra.Command {
	var f daemonFlag
	var kind kindFlag
	var token uint64
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use:   "break NAME",
		Short: "Take a lock from its holder",
		Long: `Break frees a lock whose holder does not. The holder is told that it has lost the lock, and may not notice: make sure
that it does nothing any more. The event log has the reason. With --token it breaks the hold that you have looked at, and no later one.`,
		Example:           "  lockagent break orders/42 --token 7 --reason 'its host is gone' --yes",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeLockOnce,
		RunE: aboutLock(func(cmd *cobra.Command, name lockagent.Name) error {
			if !yes {
				return usage(again(cmd)+" --yes", "two programs may have %q at the same time then; add --yes if you want that", name)
			}
			daemon, err := f.open(cmd)
			if err != nil {
				return err
			}
			defer daemon.close()
			var r *lockagentv1.BreakResponse
			err = daemon.ofKind(cmd.Context(), name, kind, func(is lockagentv1.Kind) (err error) {
				r, err = daemon.operate.Break(
					cmd.Context(), &lockagentv1.BreakRequest{Name: string(name), Kind: is, Token: token, Reason: reason},
				)
				return err
			})
			if err != nil {
				return err
			}
			if !r.GetBroken() {
				return &failure{code: exitFailed, err: fmt.Errorf("nobody holds %s", name)}
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Uint64Var(&token, "token", 0, "break only the hold with this `token`; by default whatever hold there is")
	flags.StringVar(&reason, "reason", "", "`why`, for the holder and the event log")
	flags.BoolVar(&yes, "yes", false, "do it")
	kind.add(cmd)
	f.add(cmd)
	return cmd
}

func newDrain() *cobra.Command {
	var f daemonFlag
	var timeout time.Duration
	var undo bool
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Have the daemon take no new claims, and wait for those that are left",
		Long: `Drain has the daemon take no new claims from now on, and tells its clients. It waits until all claims have ended, or
the time has passed. What is held stays held. The daemon goes on, and takes new claims again after drain --undo, or when it is
started anew.`,
		Example: "  lockagent drain --timeout 10m && systemctl poweroff\n  lockagent drain --undo",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case undo && cmd.Flags().Changed("timeout"):
				return usage(again(cmd)+" --undo", "--undo and --timeout exclude each other")
			case timeout < 0 || timeout > time.Hour:
				return usage(again(cmd)+" --timeout 30s", "--timeout must be between 0s and 1h, not %v", timeout)
			}
			daemon, err := f.open(cmd)
			if err != nil {
				return err
			}
			defer daemon.close()
			req := &lockagentv1.DrainRequest{Undo: undo}
			if !undo {
				req.Timeout = durationpb.New(timeout)
			}
			r, err := daemon.operate.Drain(cmd.Context(), req)
			switch {
			case err != nil:
				return daemon.failed(err)
			case !undo && r.GetUndone():
				return &failure{code: exitFailed, err: errors.New("somebody has taken the drain back")}
			case !undo && r.GetLeft() > 0:
				return &failure{exitFailed, fmt.Errorf("%s left", readable.Counted(int(r.GetLeft()), "claim is", "claims are")), again(cmd) + " --undo    (new claims are taken again)"}
			}
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "`time` to wait, at most 1h")
	cmd.Flags().BoolVar(&undo, "undo", false, "have the daemon take new claims again")
	f.add(cmd)
	return cmd
}
