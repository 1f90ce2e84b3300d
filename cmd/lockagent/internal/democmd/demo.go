package democmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/demo"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventlog"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/telemetry"
	"github.com/lockagent/lockagent/internal/natsserver"
)

// demoFlags are the flags of the verb demo.
type demoFlags struct {
	demo.Config
	nats      eventlog.NATSFlags
	processes int
	metrics   string
	format    string
}

// Bounds of what one machine can be asked to show.
const (
	mostAgents  = 100
	mostWorkers = 10_000
	mostLocks   = 10_000
	leastLease  = 10 * time.Millisecond
)

// New makes the verb demo.
func New() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Have agents contend for locks, and prove that they exclude each other",
		Long: `Agents with many workers contend for a few locks. Each lock protects a counter: a
worker that was granted the lock reads the counter, thinks, and writes it back one
greater. In the end every accepted write must be in the counter, and the event log
of the agents must prove that nothing overlapped that must not.

Nothing has to be installed: the store is in memory and the event log in an embedded
NATS server. With --redis it is distributed; kill that Redis and start it again
while the demo runs, and see what it says.`,
		Example: `  lockagent demo
  lockagent demo --keep demo.log            leave the event log for "lockagent events"
  lockagent demo --no-locks                 the same without the locks, to see the check fail
  lockagent demo --redis ` + cli.ExampleRedis + ` --processes 4`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(cmd); err != nil {
				return err
			}
			return f.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&f.Agents, "agents", 3, "`number` of agents in this process")
	flags.IntVar(
		&f.processes, "processes", 0, "`number` of agents that are processes of their own, instead; needs --redis",
	)
	flags.IntVar(&f.Workers, "workers", 8, "`number` of workers of each agent")
	flags.IntVar(&f.Locks, "locks", 4, "`number` of locks")
	flags.DurationVar(&f.Duration, "duration", 5*time.Second, "`time` to work for; an interrupt ends it early")
	flags.DurationVar(&f.Think, "think", 500*time.Microsecond, "`time` that a worker spends inside the critical section")
	flags.DurationVar(
		&f.Lease, "lease", 5*time.Second, "`time` for which a lock stays with an agent that does not renew it",
	)
	flags.BoolVar(&f.NoLocks, "no-locks", false, "skip the locks, to see the check fail")
	cli.ConnectionFlag(cmd, &f.Redis, "redis", "`URL` of a Redis to be the store")
	flags.StringVar(&f.Keep, "keep", "", "leave the event log in this `directory`, for lockagent events")
	flags.StringVar(&f.metrics, "metrics", "", "serve metrics to Prometheus on this `address`, such as 127.0.0.1:9464")
	flags.StringVar(&f.format, "format", "text", "`form` of the summary: text or json")
	f.nats.AddForMakers(cmd, "nats", "`URL` of a NATS server to keep the event log")
	return cmd
}

func (f *demoFlags) run(cmd *cobra.Command) (err error) {
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	sdk := new(telemetry.SDK)
	screen := demo.NewScreen(stdout, cli.TerminalWidth(stdout), func() string {
		if sdk.URL == "" {
			return f.Intro()
		}
		return f.Intro() + "\nMetrics: " + sdk.URL
	})
	stderr = screen.Above(stderr)
	f.Logger = cli.NewLogger(stderr)
	if f.format == "text" {
		f.Watch, f.Every = screen.Watch, screen.Every()
	}
	if f.processes > 0 {
		program, err := os.Executable()
		if err != nil {
			return err
		}
		f.Command = func() *exec.Cmd {
			command := exec.Command(program, demoAgentVerb)
			command.Stderr = stderr
			return command
		}
	}
	ctx, sdk, err := telemetry.Start(cmd, f.Logger, f.metrics, nil)
	defer sdk.Close()
	if err != nil {
		return err
	}
	f.Telemetry = sdk.Config
	summary, err := demo.Run(ctx, f.Config)
	screen.Clear()
	if err != nil {
		return f.explain(cmd, err)
	}
	if f.format == "json" {
		err = cli.WriteJSON(stdout, &summary)
	} else {
		err = f.write(stdout, &summary)
	}
	if err != nil {
		return err
	}
	return f.verdict(&summary)
}

func (f *demoFlags) write(stdout io.Writer, s *demo.Summary) error {
	if cli.TerminalWidth(stdout) == 0 {
		if _, err := fmt.Fprintln(stdout); err != nil {
			return err
		}
	}
	if err := s.WriteText(stdout, cli.HasColour(stdout)); err != nil {
		return err
	}
	_, err := io.WriteString(stdout, f.next(s.OK))
	return err
}

// next says what to try after the demo.
func (f *demoFlags) next(ok bool) string {
	switch {
	case f.Keep != "":
		return "\nNext: lockagent events audit --dir " + cli.ShellWord(f.Keep) + "\n"
	case !ok:
		return ""
	}
	next := "\nNext: lockagent demo --no-locks    the same without the locks: see it fail\n"
	if f.Redis == "" {
		next += "      lockagent demo --redis " + cli.ExampleRedis + " --processes 4\n"
	}
	return next
}

// verdict is an error that names the checks that failed.
func (f *demoFlags) verdict(s *demo.Summary) error {
	if s.OK {
		return nil
	}
	var failed []string
	for _, c := range s.Failed() {
		failed = append(failed, c.Name)
	}
	out := &cli.Failure{Code: cli.ExitFailed, Err: fmt.Errorf("not proven: %s", strings.Join(failed, ", "))}
	if cli.CodeOf(s.Failure) == cli.ExitBug {
		out.Code = cli.ExitBug
	}
	switch {
	case f.NoLocks:
		out.Try = "lockagent demo    (the same with the locks)"
	case s.Events.Dropped > 0:
		out.Try = fmt.Sprintf(
			"lockagent demo --think %v    (so that the event log keeps up)", max(2*f.Think, time.Millisecond),
		)
	}
	return out
}

// explain has an error that kept the demo from beginning say what to do about it.
func (f *demoFlags) explain(cmd *cobra.Command, err error) error {
	switch {
	case errors.Is(err, lockagent.ErrBadURL):
		return &cli.Failure{Code: cli.ExitUsage, Err: err, Try: "lockagent demo --redis " + cli.ExampleRedis}
	case errors.Is(err, lockagent.ErrStoreUnavailable):
		return &cli.Failure{
			Code: cli.ExitUnavailable, Err: err, Try: "lockagent demo    (needs no Redis), or start one: redis-server",
		}
	case errors.Is(err, natsserver.ErrInUse):
		return eventlog.DirInUse(f.Keep)
	case errors.Is(err, demo.ErrNoEventLog):
		failed := f.nats.Failure(cmd, err)
		if failed.Code == cli.ExitUnavailable {
			failed.Try = "lockagent demo    (has a NATS server of its own), or start one: nats-server -js"
		}
		return failed
	case errors.Is(err, lockagent.ErrBadOption):
		return f.nats.Failure(cmd, err)
	case f.Keep != "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)):
		return cli.Usage(eventlog.Makes+"demo.log", "the event log cannot be kept in %s: %w", f.Keep, err)
	}
	return err
}
