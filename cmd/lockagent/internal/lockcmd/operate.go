//go:build linux

package lockcmd

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
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// NewBreak makes the verb break.
func NewBreak() *cobra.Command {
	var f client.Flag
	var kind client.KindFlag
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
		ValidArgsFunction: client.CompleteLockOnce,
		RunE: cli.AboutLock(func(cmd *cobra.Command, name lockagent.Name) error {
			daemon, err := f.Open(cmd)
			if err != nil {
				return err
			}
			defer daemon.Close()
			ends, err := endingHolds(cmd.Context(), daemon, name, kind, lockagent.Token(token))
			if err != nil && !errors.Is(err, refusal.ErrForbidden) { // who may operate may perhaps not look
				return err
			}
			if !yes {
				return wouldBreak(cmd, name, ends, err)
			}
			var r *lockagentv1.BreakResponse
			err = daemon.OfKind(cmd.Context(), name, kind, func(is lockagentv1.Kind) (err error) {
				r, err = daemon.Operate.Break(
					cmd.Context(), &lockagentv1.BreakRequest{Name: string(name), Kind: is, Token: token, Reason: reason},
				)
				return err
			})
			if err != nil {
				return err
			}
			if !r.GetBroken() {
				return &cli.Failure{Code: cli.ExitFailed, Err: fmt.Errorf("nobody holds %s", cli.OneLine(string(name)))}
			}
			text := ""
			for _, h := range ends {
				text += fmt.Sprintf("Broken: the hold of %s %s.\n", cli.OneLine(string(name)), h.text)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), cmp.Or(text, "Broken: "+cli.OneLine(string(name))+".\n"))
			return err
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Uint64Var(&token, "token", 0, "break only the hold with this `token`; by default whatever hold there is")
	flags.StringVar(&reason, "reason", "", "`why`, for the holder and the event log")
	flags.BoolVar(&yes, "yes", false, "do it")
	kind.Add(cmd)
	f.Add(cmd)
	return cmd
}

// endingHold is a hold that a break would end.
type endingHold struct {
	token lockagent.Token // 0 if this host does not know it
	text  string          // whose it is
}

// endingHolds are the holds of a lock with a token, or all if that is 0. At most 100 of a host are told.
func endingHolds(
	ctx context.Context, d *client.Daemon, name lockagent.Name, kind client.KindFlag, token lockagent.Token,
) (holds []endingHold, err error) {
	var r *lockagentv1.GetResponse
	if err := d.OfKind(ctx, name, kind, func(is lockagentv1.Kind) (err error) {
		r, err = d.Look.Get(ctx, &lockagentv1.GetRequest{Name: string(name), Kind: is})
		return err
	}); err != nil {
		return nil, err
	}
	v := client.ViewOf(r.GetLock())
	for i := range v.Holders {
		h := &v.Holders[i]
		if has := lockagent.Token(h.Token); token == 0 || token == has {
			holds = append(holds, endingHold{has, fmt.Sprintf("with the token %d, by %s", has, cli.OneLine(h.Whose()))})
		}
	}
	if len(v.Holders) == 0 && r.GetHeld() && token == 0 {
		holds = append(holds, endingHold{0, "on another host, by " + cli.OneLine(r.GetHolder())})
	}
	return holds, nil
}

// wouldBreak is the error of a break without --yes. unknown is why nobody knows the holds, or nil.
func wouldBreak(cmd *cobra.Command, name lockagent.Name, ends []endingHold, unknown error) error {
	word := cli.OneLine(string(name))
	if len(ends) == 0 && unknown == nil {
		return &cli.Failure{Code: cli.ExitFailed, Err: fmt.Errorf("nobody holds %s, or not with this token", word)}
	}
	try, text := cli.Again(cmd), ""
	for _, h := range ends {
		text += "\n  " + h.text
	}
	if cmd.Flags().Changed("token") {
		try += " --token " + cmd.Flags().Lookup("token").Value.String()
	} else if len(ends) == 1 && ends[0].token != 0 {
		try += fmt.Sprintf(" --token %d", ends[0].token)
	}
	return cli.Usage(
		try+" --yes", "two programs may have %s at the same time then; add --yes if you want that. It is held%s", word,
		cmp.Or(text, ", by whom you may not see"),
	)
}

// NewDrain makes the verb drain.
func NewDrain() *cobra.Command {
	var f client.Flag
	var timeout time.Duration
	var undo, try bool
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Have the daemon take no new claims, and wait for those that are left",
		Long: `Drain has the daemon take no new claims from now on, and tells its clients. It waits until all claims have
ended, and says how many are left. What is held stays held. The daemon goes on, and takes new claims again after drain
--undo, or when it is started anew. An interrupt, and the end of --timeout, end the wait and not the drain.`,
		Example: "  lockagent drain --timeout 10m && systemctl poweroff\n  lockagent drain --undo",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := cmd.Flags().Changed
			switch {
			case undo && given("timeout"):
				return cli.Usage(cli.Again(cmd)+" --undo", "--undo and --timeout exclude each other")
			case undo && try:
				return cli.Usage(cli.Again(cmd)+" --undo", "--undo and --nonblock exclude each other")
			case try && given("timeout"):
				return cli.Usage(cli.Again(cmd)+" --timeout 30s", "--nonblock and --timeout exclude each other")
			case timeout < 0:
				return cli.Usage(cli.Again(cmd)+" --timeout 30s", "--timeout cannot be negative, not %v", timeout)
			}
			daemon, err := f.Open(cmd)
			if err != nil {
				return err
			}
			defer daemon.Close()
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
	f.Add(cmd)
	return cmd
}

const (
	never = time.Duration(math.MaxInt64) // is after every instant of the boot clock
	// drainLook is for how long the daemon waits before it says again how many claims are left. It has to be less than
	// follow.AnswerTime.
	drainLook = time.Second
)

// drainUntil begins a drain, and waits for its end until an instant of the boot clock. It tells how many claims are
// left.
func drainUntil(cmd *cobra.Command, d *client.Daemon, until time.Duration) error {
	req := new(lockagentv1.DrainRequest)
	for told := int32(0); ; {
		r, err := drain(cmd.Context(), d, req)
		left := until - bootclock.Now()
		switch {
		case err != nil && cmd.Context().Err() != nil:
			return &cli.Failure{
				Code: cli.ExitFailed, Err: errors.New("interrupted; the daemon goes on to take no new claims"),
				Try: "lockagent drain --undo    (new claims are taken again)",
			}
		case err != nil:
			return err
		case r.GetUndone():
			return &cli.Failure{Code: cli.ExitFailed, Err: errors.New("somebody has taken the drain back")}
		case r.GetLeft() == 0:
			return nil
		case left <= 0:
			return &cli.Failure{
				Code: cli.ExitFailed, Err: fmt.Errorf("%s left", readable.Counted(int(r.GetLeft()), "claim is", "claims are")),
				Try: "lockagent drain --undo    (new claims are taken again)",
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
func drain(ctx context.Context, d *client.Daemon, req *lockagentv1.DrainRequest) (*lockagentv1.DrainResponse, error) {
	r, err := d.Operate.Drain(ctx, req)
	return r, d.Failed(err)
}
