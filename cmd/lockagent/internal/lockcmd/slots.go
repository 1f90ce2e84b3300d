//go:build linux

package lockcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/internal/daemon/follow"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// provide sets the number of slots that a request is about, unless somebody has set it. It refuses another number than
// was set: with two numbers nobody knows how many may hold the lock. It is part of what the request may wait for.
func (h *holding) provide(d *client.Daemon, name lockagent.Name, asked *opening, slots int32) error {
	if slots == 0 {
		return nil
	}
	ctx, cancel := h.heeding()
	defer cancel(nil)
	if left := asked.silence(); left >= 0 {
		defer time.AfterFunc(left, func() { cancel(silentFailure(d, asked)) }).Stop()
	}
	// The store may be away, or wait for the holders of before. A request that may wait does so for as long as it would
	// wait for the lock.
	patience := func(err error) time.Duration {
		if cli.CodeOf(err) == cli.ExitUnavailable && !follow.Leaves(err) && !asked.try {
			return cmp.Or(asked.wait, lockagent.MaxLease)
		}
		return asked.patience(err)
	}
	var set int32
	err := follow.Repeat(ctx, patience, func() (err error) {
		set, err = slotsOf(ctx, d, &lockagentv1.PermitsRequest{
			Name: string(name), Op: lockagentv1.PermitsOp_PERMITS_OP_TRY_SET, N: slots,
		})
		return err
	})
	if err != nil {
		return h.giveBack(cmp.Or(context.Cause(ctx), err))
	}
	if set != slots {
		word := cli.ShellWord(string(name))
		return h.giveBack(&cli.Failure{
			Code: cli.ExitUsage, Err: fmt.Errorf("%s has %d slots, not %d", word, set, slots),
			Try: fmt.Sprintf(
				"lockagent lock --slots %d %s true    (lockagent slots %s %d changes the number)", set, word, word, slots,
			),
		})
	}
	return nil
}

// slotsOf reads or changes the number of slots, and returns it.
func slotsOf(ctx context.Context, d *client.Daemon, req *lockagentv1.PermitsRequest) (int32, error) {
	req.Kind = lockagentv1.Kind_KIND_PERMITS
	r, err := d.Counts.Permits(ctx, req)
	if other, ok := errors.AsType[*lockagent.KindError](wire.Refused(err)); ok {
		return 0, &cli.Failure{
			Code: cli.ExitUsage,
			Err:  fmt.Errorf("%q has no slots: it is in use as %s; choose another name for one of them", other.Name, other.Used),
			Try:  "lockagent ls    (shows the kinds)",
		}
	}
	return r.GetFree() + r.GetTaken(), d.Failed(err)
}

// heeding is a context that ends by the signals that end a wait. It must be cancelled before anything else looks at the
// signals.
func (h *holding) heeding() (context.Context, func(error)) {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case s := <-h.signals:
				switch {
				case ends(s):
					cancel(signalFailure(s))
				case s == syscall.SIGTSTP:
					_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func(cause error) {
		cancel(cause)
		<-done
	}
}

// NewSlots makes the verb slots.
func NewSlots() *cobra.Command {
	var f client.Flag
	cmd := &cobra.Command{
		Use:   "slots NAME [NUMBER]",
		Short: "Say how many slots a lock has, or change that",
		Long: `Slots says how many programs can hold a lock at once that is taken with --slots. With a number it changes that.
If the new number is smaller, those who hold the lock keep it, and others wait until enough of them have released it.`,
		Example:           "  lockagent slots builds 4",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: client.CompleteLockOnce,
		RunE: func(cmd *cobra.Command, args []string) error {
			const try = "lockagent slots builds 4"
			if len(args) == 0 || len(args) > 2 {
				return cli.Usage(try, "slots takes the name of one lock, and perhaps a number")
			}
			name, err := cli.ParseLock(args[0], try)
			if err != nil {
				return err
			}
			req := &lockagentv1.PermitsRequest{Name: string(name)}
			if len(args) == 2 {
				n, err := strconv.ParseInt(args[1], 10, 32)
				if err != nil || n < 1 {
					return cli.Usage(try, "%q is no number of slots; it is at least 1", args[1])
				}
				req.Op, req.N = lockagentv1.PermitsOp_PERMITS_OP_SET, int32(n)
			}
			daemon, err := f.Open(cmd)
			if err != nil {
				return err
			}
			defer daemon.Close()
			// The store may wait for the holders of before, usually for less than a second.
			patience := func(err error) time.Duration {
				if errors.Is(err, lockagent.ErrGrace) {
					return follow.AnswerTime
				}
				return 0
			}
			var n int32
			err = follow.Repeat(cmd.Context(), patience, func() (err error) {
				n, err = slotsOf(cmd.Context(), daemon, req)
				return err
			})
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), n)
			}
			return err
		},
	}
	f.Add(cmd)
	return cmd
}
