//go:build linux

package main

import (
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// aboutClaim is what a verb does whose argument is a claim.
func aboutClaim(f *daemonFlag, run func(cmd *cobra.Command, d *daemonClient, id, secret string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		try := cmd.CommandPath() + ` "$claim"`
		if len(args) != 1 {
			return usage(try, "%q takes one claim, which lockagent acquire prints", cmd.CommandPath())
		}
		id, secret, err := parseHandle(args[0], try)
		if err != nil {
			return err
		}
		daemon, err := f.open(cmd)
		if err != nil {
			return err
		}
		defer daemon.close()
		return run(cmd, daemon, id, secret)
	}
}

func newRelease() *cobra.Command {
	var f daemonFlag
	cmd := &cobra.Command{
		Use:   "release CLAIM",
		Short: "Release a lock that acquire took",
		Long: `Release releases the lock of a claim, and returns when others can have it. If the claim had ended before, the
lock was not held any more, and the exit code says so.`,
		Example:    `  lockagent release "$claim"`,
		SuggestFor: []string{"unlock"},
		Args:       cobra.ArbitraryArgs,
		RunE: aboutClaim(&f, func(cmd *cobra.Command, d *daemonClient, id, secret string) error {
			r, err := d.locks.Release(cmd.Context(), &lockagentv1.ReleaseRequest{Claim: id, Secret: secret})
			if err != nil {
				return d.failed(err)
			}
			if !r.GetEnded() {
				return &failure{code: exitLost, err: errOver}
			}
			return nil
		}),
	}
	f.add(cmd)
	return cmd
}

func newRenew() *cobra.Command {
	var f daemonFlag
	var ttl, lease time.Duration
	cmd := &cobra.Command{
		Use:     "renew CLAIM",
		Short:   "Keep a lock that acquire took for longer",
		Long:    "Renew puts off the end of a claim that has a --ttl, or of a lock that has a fixed --lease. Both count from now on.",
		Example: `  lockagent renew --ttl 10m "$claim"`,
		Args:    cobra.ArbitraryArgs,
	}
	cmd.RunE = aboutClaim(&f, func(cmd *cobra.Command, d *daemonClient, id, secret string) error {
		req := &lockagentv1.RenewRequest{Claim: id, Secret: secret}
		for name, of := range map[string]time.Duration{"ttl": ttl, "lease": lease} {
			if !cmd.Flags().Changed(name) {
				continue
			}
			if err := lockagent.CheckLease(of); err != nil {
				return usage(`lockagent renew --ttl 10m "$claim"`, "--%s must be between 1ms and a year, not %v", name, of)
			}
		}
		if ttl == 0 && lease == 0 {
			return usage(`lockagent renew --ttl 10m "$claim"`, "renew needs --ttl or --lease")
		}
		if ttl != 0 {
			req.Ttl = durationpb.New(ttl)
		}
		if lease != 0 {
			req.Lease = durationpb.New(lease)
		}
		if _, err := d.locks.Renew(cmd.Context(), req); err != nil {
			return d.failed(err)
		}
		return nil
	})
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "release the lock when nobody has renewed the claim again for this `time`")
	cmd.Flags().DurationVar(&lease, "lease", 0, "hold the lock for this `time` from now on")
	f.add(cmd)
	return cmd
}

func newAttach() *cobra.Command {
	f := lockFlags{supervision: newSupervision()}
	cmd := &cobra.Command{
		Use:   "attach [flags] CLAIM [--] [COMMAND [ARGUMENT...]]",
		Short: "Hold a lock that acquire took, and run a command under it",
		Long: `Attach holds the lock of a claim from now on, as lockagent lock does: it runs a command, and then releases the lock.
Without a command it holds the lock until a signal or the end of its standard input. The lock does not end by
the --ttl or the --for-pid of acquire any more.`,
		Example:     `  lockagent attach "$claim" ./deploy.sh`,
		Args:        cobra.ArbitraryArgs,
		Annotations: map[string]string{flagsFirst: `"$claim" true`},
		RunE:        passing(f.attach),
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().SortFlags = false
	f.addRunning(cmd)
	f.daemonFlag.add(cmd)
	return cmd
}

// attach goes on with a claim.
func (f *lockFlags) attach(cmd *cobra.Command, args []string) error {
	const try = `lockagent attach "$claim" true`
	if len(args) == 0 {
		return usage(try, "the claim is missing")
	}
	id, secret, err := parseHandle(args[0], try)
	if err != nil {
		return err
	}
	command, err := f.command(args[1:])
	if err != nil {
		return err
	}
	if err := f.supervision.check(cmd); err != nil {
		return err
	}
	daemon, err := f.open(cmd)
	if err != nil {
		return err
	}
	defer daemon.close()
	name, err := daemon.nameOf(cmd.Context(), id)
	if err != nil {
		return err
	}
	h := f.supervision.start(cmd)
	defer h.leave()
	if err := h.take(daemon, name, attaching(id, secret)); err != nil {
		return err
	}
	return f.under(cmd, h, daemon, name, command)
}
