//go:build linux

package lockcmd

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/internal/daemon/follow"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// aboutClaim is what a verb does whose argument is a claim.
func aboutClaim(
	f *client.Flag, run func(cmd *cobra.Command, d *client.Daemon, id, secret string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		try := cmd.CommandPath() + cli.Places(cmd.Flags()) + " - <claim"
		if len(args) > 1 {
			return cli.Usage(try, "%q takes one claim, which lockagent acquire prints", cmd.CommandPath())
		}
		id, secret, err := theClaim(cmd.InOrStdin(), args, try)
		if err != nil {
			return err
		}
		daemon, err := f.Open(cmd)
		if err != nil {
			return err
		}
		defer daemon.Close()
		return run(cmd, daemon, id, secret)
	}
}

// claimVariable has the claim for a command line that has none. Every user of the host can read the arguments of a
// program.
const claimVariable = "LOCKAGENT_CLAIM"

// aboutTheClaim is for the help of these verbs.
const aboutTheClaim = `The claim is what acquire printed. It comes from $` + claimVariable + `, or with - from
the first line of the standard input. As an argument it can be seen by all users of the host while the command runs.
Only the user of the claim, root and operators can use it.`

// theClaim is the claim that arguments begin with. None means the variable, and - means the first line of the input.
func theClaim(in io.Reader, args []string, try string) (id, secret string, err error) {
	text := os.Getenv(claimVariable)
	switch {
	case len(args) == 0 && text == "":
		return "", "", cli.Usage(
			try, "the claim is missing; give - and have it in the standard input, or have it in $%s", claimVariable,
		)
	case len(args) > 0 && args[0] == "-":
		if text, err = firstLine(in); err != nil {
			return "", "", cli.Usage(try, "the claim cannot be read from the standard input: %v", err)
		}
	case len(args) > 0:
		text = args[0]
	}
	return parseHandle(text, try)
}

// firstLine reads a line, and nothing more: the rest of the input is for the command.
func firstLine(in io.Reader) (string, error) {
	const most = 1000
	var line []byte
	for one := make([]byte, 1); len(line) < most; line = append(line, one[0]) {
		if _, err := io.ReadFull(in, one); err != nil && err != io.EOF {
			return "", err
		} else if err != nil || one[0] == '\n' {
			break
		}
	}
	return strings.TrimSpace(string(line)), nil
}

// NewRelease makes the verb release.
func NewRelease() *cobra.Command {
	var f client.Flag
	cmd := &cobra.Command{
		Use:   "release [CLAIM]",
		Short: "Release a lock that acquire took",
		Long: `Release releases the lock of a claim, and returns when others can have it. If the claim had ended before, the
lock was not held any more, and the exit code says so.

` + aboutTheClaim,
		Example:    "  lockagent release - <claim",
		SuggestFor: []string{"unlock"},
		Args:       cobra.ArbitraryArgs,
		RunE: aboutClaim(&f, func(cmd *cobra.Command, d *client.Daemon, id, secret string) error {
			err := release(cmd.Context(), d, &lockagentv1.ReleaseRequest{Claim: id, Secret: secret})
			if errors.Is(err, errOver) {
				return &cli.Failure{Code: cli.ExitLost, Err: err}
			}
			return err
		}),
	}
	f.Add(cmd)
	return cmd
}

// NewRenew makes the verb renew.
func NewRenew() *cobra.Command {
	var f client.Flag
	var ttl, lease time.Duration
	cmd := &cobra.Command{
		Use:   "renew [CLAIM]",
		Short: "Keep a lock that acquire took for longer",
		Long: "Renew puts off the end of a claim that has a --ttl, or of a lock that has a fixed --lease. Both " +
			"count from now on.\n\n" + aboutTheClaim,
		Example: "  lockagent renew --ttl 10m - <claim",
		Args:    cobra.ArbitraryArgs,
	}
	cmd.RunE = aboutClaim(&f, func(cmd *cobra.Command, d *client.Daemon, id, secret string) error {
		req := &lockagentv1.RenewRequest{Claim: id, Secret: secret}
		for name, of := range map[string]time.Duration{"ttl": ttl, "lease": lease} {
			if !cmd.Flags().Changed(name) {
				continue
			}
			if err := lockagent.CheckLease(of); err != nil {
				return cli.Usage(
					"lockagent renew --ttl 10m - <claim", "--%s must be between 1ms and a year, not %v", name, of,
				)
			}
		}
		if ttl == 0 && lease == 0 {
			return cli.Usage("lockagent renew --ttl 10m - <claim", "renew needs --ttl or --lease")
		}
		if ttl != 0 {
			req.Ttl = durationpb.New(ttl)
		}
		if lease != 0 {
			req.Lease = durationpb.New(lease)
		}
		return follow.Repeat(cmd.Context(), patience, func() error {
			_, err := d.Locks.Renew(cmd.Context(), req)
			return d.Failed(err)
		})
	})
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "release the lock when nobody has renewed the claim again for this `time`")
	cmd.Flags().DurationVar(&lease, "lease", 0, "hold the lock for this `time` from now on")
	f.Add(cmd)
	return cmd
}

// NewAttach makes the verb attach.
func NewAttach() *cobra.Command {
	f := lockFlags{supervision: newSupervision()}
	cmd := &cobra.Command{
		Use:   "attach [flags] [CLAIM] [--] [COMMAND [ARGUMENT...]]",
		Short: "Hold a lock that acquire took, and run a command under it",
		Long: `Attach holds the lock of a claim from now on, as lockagent lock does: it runs a command, and then releases the
lock. Without a command it holds the lock until a signal or the end of its standard input. The lock does not end by the
--ttl or the --for-pid of acquire any more.

` + aboutTheClaim + ` Without a claim,
-- comes before the command.`,
		Example: "  lockagent attach - ./deploy.sh <claim\n  LOCKAGENT_CLAIM=$(cat claim) lockagent attach -- " +
			"./deploy.sh",
		Args:        cobra.ArbitraryArgs,
		Annotations: map[string]string{cli.FlagsFirst: "- true <claim"},
		RunE:        passing(f.attach),
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().SortFlags = false
	f.addRunning(cmd)
	f.Flag.Add(cmd)
	return cmd
}

// attach goes on with a claim.
func (f *lockFlags) attach(cmd *cobra.Command, args []string) error {
	claim, rest := args[:min(len(args), 1)], args[min(len(args), 1):]
	if cmd.ArgsLenAtDash() == 0 {
		claim, rest = nil, append([]string{"--"}, args...)
	}
	id, secret, err := theClaim(cmd.InOrStdin(), claim, "lockagent attach - true <claim")
	if err != nil {
		return err
	}
	command, err := f.command(cmd, rest)
	if err != nil {
		return err
	}
	if err := f.supervision.check(cmd); err != nil {
		return err
	}
	daemon, err := f.Open(cmd)
	if err != nil {
		return err
	}
	defer daemon.Close()
	first := attaching(id, secret, f.warned.any())
	if err := sharesClock(cmd.Context(), daemon, id, secret, &first); err != nil {
		return err
	}
	h := f.supervision.start(cmd)
	defer h.leave()
	if err := h.take(daemon, "", first); err != nil {
		return err
	}
	return f.under(cmd, h, daemon, h.claims[0], command)
}

// sharesClock returns an error if the deadline of a claim means nothing to this process. The claim stays as it is: who
// attached first would have to release it.
func sharesClock(ctx context.Context, d *client.Daemon, id, secret string, first *opening) error {
	asks, cancel := context.WithTimeout(ctx, first.silence())
	defer cancel()
	var r *lockagentv1.RenewResponse
	err := follow.Repeat(asks, patience, func() (err error) {
		r, err = d.Locks.Renew(asks, &lockagentv1.RenewRequest{Claim: id, Secret: secret})
		return d.Failed(err)
	})
	switch {
	case err != nil && ctx.Err() == nil && asks.Err() != nil:
		return silentFailure(d, first)
	case err != nil || r.GetDeadline() == nil: // it waits
		return err
	}
	if _, err := follow.Instant(r.GetDeadline()); err != nil {
		return foreign(err)
	}
	return nil
}
