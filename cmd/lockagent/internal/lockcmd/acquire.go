//go:build linux

package lockcmd

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/internal/daemon/follow"
)

// acquireFlags are the flags of acquire.
type acquireFlags struct {
	client.Flag
	asking
	busy   exitFlag
	ttl    time.Duration
	forPID int32
	format string
}

// NewAcquire makes the verb acquire.
func NewAcquire() *cobra.Command {
	f := acquireFlags{busy: cli.ExitFailed}
	cmd := &cobra.Command{
		Use:   "acquire NAME",
		Short: "Take a lock for a script, and print the claim",
		Long: `Acquire takes a lock that lasts longer than this command, and prints the claim: a word for a variable of a
script, with which release, renew and attach know the lock. Keep it from others: only this user, root and operators can
use it. The lock ends when it is released, when the process of --for-pid ends, or when nobody has renewed the claim for
its --ttl. At least one of --ttl, --for-pid and --lease is needed. In a container with a PID namespace of its own,
--for-pid is refused: the daemon would watch another process. Use --ttl there, and renew.`,
		Example: `  LOCKAGENT_CLAIM=$(lockagent acquire --for-pid $$ deploy) || exit
  export LOCKAGENT_CLAIM
  lockagent acquire --ttl 10m --format json backup`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: client.CompleteLockOnce,
		RunE:              passing(cli.AboutLock(f.run)),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.DurationVar(&f.ttl, "ttl", 0, "release the lock when nobody has renewed the claim for this `time`")
	flags.Int32Var(&f.forPID, "for-pid", 0, "release the lock when this `process` ends, such as $$")
	f.asking.add(cmd)
	flags.VarP(
		&f.busy, "conflict-exit-code", "E",
		"exit `code` if the lock is not to be had with -n or -w; with 0 nothing is said either",
	)
	flags.StringVar(&f.format, "format", "text", "`form` of the output: text or json")
	f.Flag.Add(cmd)
	return cmd
}

func (f *acquireFlags) run(cmd *cobra.Command, name lockagent.Name) error {
	err := errors.Join(
		cli.CheckFormat(cmd, f.format, "text", "json"), f.asking.check(cmd), checkCode(cmd, "conflict-exit-code", f.busy),
	)
	if err != nil {
		return err
	}
	given := cmd.Flags().Changed
	switch {
	case !given("ttl") && !given("for-pid") && !given("lease"):
		return cli.Usage(cli.Again(cmd)+" --for-pid $$", "nothing would end the lock; add --for-pid, --ttl or --lease")
	case given("ttl") && lockagent.CheckLease(f.ttl) != nil:
		return cli.Usage(cli.Again(cmd)+" --ttl 10m", "--ttl must be between 1ms and a year, not %v", f.ttl)
	case given("for-pid") && f.forPID <= 0:
		return cli.Usage(cli.Again(cmd)+" --for-pid $$", "--for-pid wants the number of a process, not %d", f.forPID)
	}
	daemon, err := f.Open(cmd)
	if err != nil {
		return err
	}
	defer daemon.Close()
	req := f.asking.request(name, described{"", strings.Join(os.Args, " ")})
	req.Detach, req.ForPid = true, f.forPID
	if f.ttl > 0 {
		req.Ttl = durationpb.New(f.ttl)
	}
	h := new(supervision).start(cmd)
	defer h.leave()
	asked := acquiring(req)
	err = h.provide(daemon, name, &asked, f.slots)
	if err == nil {
		err = h.take(daemon, name, asked)
	}
	if err != nil {
		if errors.Is(err, lockagent.ErrHeld) || errors.Is(err, lockagent.ErrTimeout) {
			return f.busy.failure(err, false)
		}
		return f.otherKind(err, "lockagent acquire", "--ttl 10m "+cli.ShellWord(string(name)))
	}
	c := h.of(name)
	if err := h.detach(c); err != nil {
		return err
	}
	if f.format == "json" {
		err = cli.WriteJSON(cmd.OutOrStdout(), map[string]any{
			"version": cli.JSONVersion, "name": name, "token": c.First, "claim": c.handle(),
		})
	} else {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), c.handle())
	}
	if err != nil {
		return h.giveBack(err) // nobody knows the claim
	}
	return nil
}

// detach waits until the daemon has detached a claim, and ends its stream. Before that the claim would end with the
// stream. What is not detached is released.
func (h *holding) detach(c *claimed) error {
	silent := time.After(follow.AnswerTime)
	for c.over == nil {
		select {
		case <-silent:
			return h.giveBack(&cli.Failure{
				Code: cli.ExitUnavailable,
				Err: fmt.Errorf(
					"the daemon on %s has granted the lock, and then has not detached the claim within %v", c.daemon.Path,
					follow.AnswerTime,
				),
			})
		case s := <-h.signals:
			if err := waitSignal(s); err != nil {
				return h.giveBack(err)
			}
		case n := <-h.news:
			h.hear(n)
		}
	}
	if errors.Is(c.over, errDetached) {
		return nil
	}
	return h.giveBack(&cli.Failure{Code: cli.ExitLost, Err: fmt.Errorf("the lock was lost: %s", cli.Plain(c.over))})
}
