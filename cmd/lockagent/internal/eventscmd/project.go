package eventscmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventlog"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events/projection"
)

// projectFlags are the flags of the verb project.
type projectFlags struct {
	nats     eventlog.NATSFlags
	kv       string
	replicas int
	maxBytes int64
	begin    string
}

func newProject() *cobra.Command {
	var f projectFlags
	cmd := &cobra.Command{
		Use:   "project",
		Short: "Keep who holds which lock in a key-value bucket of NATS",
		Long: `Keep who holds which lock in a key-value bucket of NATS, as far as the event log tells, so
that a program in any language can watch it. Each lock that is held has a key: orders/42 has orders.42.

It goes on until it is interrupted, and waits for servers that are away. Started again, it reads the log,
and writes what is stale. Several may run at the same time.

The bucket tells who holds a lock with the command of the process and its arguments, which may hold secrets, as the
event log does. Whoever may read the bucket reads them.`,
		Example: "  lockagent events project --kv holders --nats " + eventlog.DefaultNATS + `
  nats kv watch holders 'orders.>'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.kv, "kv", "", "`name` of the bucket, which is made if there is none")
	flags.IntVar(&f.replicas, "kv-replicas", 1, "`number` of copies of the bucket in the cluster, if it has to be made")
	flags.Int64Var(
		&f.maxBytes, "kv-max-bytes", projection.DefaultMaxBytes,
		"`bytes` that the bucket may have, if it has to be made; -1 is no bound",
	)
	flags.StringVar(
		&f.begin, "begin", "",
		"read the log from this `time` on only, such as 1h; what goes on is told again every ten minutes",
	)
	f.nats.Add(
		cmd, "nats", "`URL` of the NATS server that has the event log and the bucket, by default "+eventlog.DefaultNATS,
	)
	return cmd
}

func (f *projectFlags) run(cmd *cobra.Command) error {
	if f.kv == "" {
		return cli.Usage(cli.Again(cmd)+" --kv holders", "--kv is missing")
	}
	cfg := projection.Config{
		Log: f.nats.Config(cli.NewLogger(cmd.ErrOrStderr())), Bucket: f.kv, Replicas: f.replicas, MaxBytes: f.maxBytes,
	}
	var err error
	if f.begin != "" {
		if cfg.Begin, err = cli.ParseMoment(f.begin, time.Now()); err != nil {
			return cli.Usage(cli.Again(cmd)+" --kv "+cli.ShellWord(f.kv)+" --begin 1h", "--begin: %w", err)
		}
	}
	p, err := projection.New(cfg)
	if err != nil {
		return f.failure(cmd, err, f.nats.Unreached)
	}
	err = p.Run(cmd.Context())
	if !errors.Is(err, context.Cause(cmd.Context())) { // else it ended as it is meant to
		return f.failure(cmd, err, f.nats.Failure)
	}
	s := p.Stats()
	_, err = fmt.Fprintf(
		cmd.OutOrStdout(), "bucket %s has %s; %s to it\n", f.kv,
		readable.Counted(s.Held, "lock that is held", "locks that are held"),
		readable.Counted(s.Written, "change was written", "changes were written"),
	)
	return err
}

// failure gives what keeps us from the bucket its exit code. of does so with what keeps us from NATS.
func (f *projectFlags) failure(cmd *cobra.Command, err error, of func(*cobra.Command, error) *cli.Failure) error {
	if bad, ok := errors.AsType[*lockagent.OptionError](err); ok {
		flags := map[string]string{"Bucket": "kv", "BucketReplicas": "kv-replicas", "BucketMaxBytes": "kv-max-bytes"}
		if flag := flags[bad.Option]; flag != "" {
			return cli.Usage(f.with(cmd, flag), "--%s: %s", flag, bad.Reason)
		}
	}
	if errors.Is(err, projection.ErrOtherKeys) {
		return cli.Usage(cli.Again(cmd)+" --kv "+cli.ShellWord(f.kv+"_locks"), "%s", withoutPackage(err))
	}
	return of(cmd, err)
}

// with is a command that is worth trying in place of one with a wrong flag.
func (f *projectFlags) with(cmd *cobra.Command, flag string) string {
	bucket := " --kv " + cli.ShellWord(f.kv)
	switch flag {
	case "kv":
		return cli.Again(cmd) + " --kv holders"
	case "kv-replicas":
		return cli.Again(cmd) + bucket + " --kv-replicas 1"
	}
	return cli.Again(cmd) + bucket + fmt.Sprintf(" --kv-max-bytes %d", projection.DefaultMaxBytes)
}
