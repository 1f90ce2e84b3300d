//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
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
		Long: `Break frees a lock whose holder does not. The holder is told that it has lost the lock, and may not notice:
make sure that it does nothing any more. The event log has the reason. With --token it breaks the hold that you have
looked at, and no later one. Without --yes it breaks nothing, and says whose hold it would end. With --yes it says whose
hold it has ended.`,
		Example:           "  lockagent break orders/42 --token 7 --reason 'its host is gone' --yes",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeLockOnce,
		RunE: aboutLock(func(cmd *cobra.Command, name lockagent.Name) error {
			daemon, err := f.open(cmd)
			if err != nil {
				return err
			}
			defer daemon.close()
			ends, err := endingHolds(cmd.Context(), daemon, name, kind, lockagent.Token(token))
			if err != nil && !errors.Is(err, refusal.ErrForbidden) { // who may operate may perhaps not look
				return err
			}
			if !yes {
				return wouldBreak(cmd, name, ends, err)
			}
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
				return &failure{code: exitFailed, err: fmt.Errorf("nobody holds %s", oneLine(string(name)))}
			}
			text := ""
			for _, h := range ends {
				text += fmt.Sprintf("Broken: the hold of %s %s.\n", oneLine(string(name)), h.text)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), cmp.Or(text, "Broken: "+oneLine(string(name))+".\n"))
			return err
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

// endingHold is a hold that a break would end.
type endingHold struct {
	token lockagent.Token // 0 if this host does not know it
	text  string          // whose it is
}

// endingHolds are the holds of a lock with a token, or all if that is 0. At most 100 of a host are told.
func endingHolds(
	ctx context.Context, d *daemonClient, name lockagent.Name, kind kindFlag, token lockagent.Token,
) (holds []endingHold, err error) {
	var r *lockagentv1.GetResponse
	if err := d.ofKind(ctx, name, kind, func(is lockagentv1.Kind) (err error) {
		r, err = d.look.Get(ctx, &lockagentv1.GetRequest{Name: string(name), Kind: is})
		return err
	}); err != nil {
		return nil, err
	}
	v := viewOf(r.GetLock())
	for i := range v.Holders {
		h := &v.Holders[i]
		if has := lockagent.Token(h.Token); token == 0 || token == has {
			holds = append(holds, endingHold{has, fmt.Sprintf("with the token %d, by %s", has, oneLine(h.whose()))})
		}
	}
	if len(v.Holders) == 0 && r.GetHeld() && token == 0 {
		holds = append(holds, endingHold{0, "on another host, by " + oneLine(r.GetHolder())})
	}
	return holds, nil
}

// wouldBreak is the error of a break without --yes. unknown is why nobody knows the holds, or nil.
func wouldBreak(cmd *cobra.Command, name lockagent.Name, ends []endingHold, unknown error) error {
	word := oneLine(string(name))
	if len(ends) == 0 && unknown == nil {
		return &failure{code: exitFailed, err: fmt.Errorf("nobody holds %s, or not with this token", word)}
	}
	try, text := again(cmd), ""
	for _, h := range ends {
		text += "\n  " + h.text
	}
	if cmd.Flags().Changed("token") {
		try += " --token " + cmd.Flags().Lookup("token").Value.String()
	} else if len(ends) == 1 && ends[0].token != 0 {
		try += fmt.Sprintf(" --token %d", ends[0].token)
	}
	return usage(
		try+" --yes", "two programs may have %s at the same time then; add --yes if you want that. It is held%s", word,
		cmp.Or(text, ", by whom you may not see"),
	)
}

func newDrain() *cobra.Command {
	var f daemonFlag
	var timeout time.Duration
	var undo, try bool
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Have the daemon take no new claims, and wait for those that are left",
		Long: `Drain has the daemon take no new claims from now on, and tells its clients. It waits until all claims have
ended, and says how many are left. What is held stays held. The daemon goes on, and takes new claims again after drain
--undo, or when it is started anew. An interrupt, and the end of --timeout, end the wait and not the drain.`,
		Example: "  lockagent drain --timeout 10m && systemctl poweroff\n  lockagent drain --undo",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := cmd.Flags().Changed
			switch {
			case undo && given("timeout"):
				return usage(again(cmd)+" --undo", "--undo and --timeout exclude each other")
			case undo && try:
				return usage(again(cmd)+" --undo", "--undo and --nonblock exclude each other")
			case try && given("timeout"):
				return usage(again(cmd)+" --timeout 30s", "--nonblock and --timeout exclude each other")
			case timeout < 0:
				return usage(again(cmd)+" --timeout 30s", "--timeout cannot be negative, not %v", timeout)
			}
			daemon, err := f.open(cmd)
			if err != nil {
				return err
			}
			defer daemon.close()
			if undo {
				_, err := drain(cmd.Context(), daemon, &lockagentv1.DrainRequest{Undo: true})
				return err
			}
			until := never
			if try || given("timeout") {
				until = bootclock.Now() + timeout
			}
			return drainUntil(cmd, daemon, until)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "`time` to wait at most; by default without end")
	cmd.Flags().BoolVarP(&try, "nonblock", "n", false, "do not wait, and say how many claims are left")
	cmd.Flags().BoolVar(&undo, "undo", false, "have the daemon take new claims again")
	f.add(cmd)
	return cmd
}

const (
	never = time.Duration(math.MaxInt64) // is after every instant of the boot clock
	// drainLook is for how long the daemon waits before it says again how many claims are left.
	drainLook = time.Second
)

// drainUntil begins a drain, and waits for its end until an instant of the boot clock. It tells how many claims are
// left.
func drainUntil(cmd *cobra.Command, d *daemonClient, until time.Duration) error {
	req := new(lockagentv1.DrainRequest)
	for told := int32(0); ; {
		r, err := drain(cmd.Context(), d, req)
		left := until - bootclock.Now()
		switch {
		case err != nil && cmd.Context().Err() != nil:
			return &failure{
				exitFailed, errors.New("interrupted; the daemon goes on to take no new claims"),
				"lockagent drain --undo    (new claims are taken again)",
			}
		case err != nil:
			return err
		case r.GetUndone():
			return &failure{code: exitFailed, err: errors.New("somebody has taken the drain back")}
		case r.GetLeft() == 0:
			return nil
		case left <= 0:
			return &failure{
				exitFailed, fmt.Errorf("%s left", readable.Counted(int(r.GetLeft()), "claim is", "claims are")),
				"lockagent drain --undo    (new claims are taken again)",
			}
		}
		if told != r.GetLeft() {
			told = r.GetLeft()
			fmt.Fprintf(cmd.ErrOrStderr(), "Waiting: %s left.\n", readable.Counted(int(told), "claim is", "claims are"))
		}
		req = &lockagentv1.DrainRequest{Wait: true, Timeout: durationpb.New(min(left, drainLook))}
	}
}

// drain makes a call about a drain.
func drain(ctx context.Context, d *daemonClient, req *lockagentv1.DrainRequest) (*lockagentv1.DrainResponse, error) {
	r, err := d.operate.Drain(ctx, req)
	if err != nil {
		return nil, d.failed(err)
	}
	return r, nil
}
