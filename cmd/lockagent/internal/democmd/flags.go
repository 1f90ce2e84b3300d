package democmd

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventlog"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/telemetry"
	"github.com/lockagent/lockagent/events/natslog"
)

// complete checks the flags, and sets what follows from them.
func (f *demoFlags) complete(cmd *cobra.Command) error {
	for _, check := range []func(*cobra.Command) error{
		f.completeStore, f.completeLog, f.completeProcesses, f.checkCounts, f.checkTimes, f.checkOutput, f.checkKeep,
	} {
		if err := check(cmd); err != nil {
			return err
		}
	}
	return nil
}

// completeStore is about the locks, which may be none.
func (f *demoFlags) completeStore(cmd *cobra.Command) error {
	if !f.NoLocks {
		return nil
	}
	for _, name := range []string{"redis", f.nats.Given(cmd), "keep", "lease", "metrics"} {
		if name != "" && cmd.Flags().Changed(name) {
			return cli.Usage(
				"lockagent demo --no-locks", "--no-locks uses no store and has nothing to tell, so --%s makes no difference", name,
			)
		}
	}
	f.Redis, f.nats.URL = "", "" // the environment is meant for those who use them
	return nil
}

// completeLog is about the NATS server of the event log.
func (f *demoFlags) completeLog(cmd *cobra.Command) error {
	if given := f.nats.Given(cmd); f.nats.URL == "" && given != "" {
		return cli.Usage(
			"lockagent demo --nats "+eventlog.DefaultNATS+" --"+given+" ...",
			"--%s is about a NATS server; say which one with --nats", given,
		)
	}
	if f.nats.URL != "" {
		f.NATS, f.Stream, f.Prefix = f.nats.Connection, f.nats.Stream, f.nats.Prefix
		f.Replicas, f.MaxBytes, f.MaxAge = f.nats.Replicas, f.nats.MaxBytes, f.nats.MaxAge
	}
	return nil
}

// completeProcesses is about agents that are processes of their own.
func (f *demoFlags) completeProcesses(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("processes") {
		return nil
	}
	if cmd.Flags().Changed("agents") {
		return cli.Usage(fmt.Sprintf("lockagent demo --redis %s --processes %d", cli.ExampleRedis, max(1, f.processes)),
			"--processes says already how many agents there are: one in each process; leave --agents out")
	}
	if err := between(cmd, "processes", f.processes, mostAgents, 3); err != nil {
		return err
	}
	switch {
	case f.Redis == "" && !f.NoLocks:
		return cli.Usage(fmt.Sprintf("lockagent demo --redis %s --processes %d", cli.ExampleRedis, f.processes),
			"--processes needs --redis, for a store in memory cannot be shared between processes")
	case f.metrics != "":
		return cli.Usage("lockagent demo --metrics "+f.metrics, "--metrics are those of one process; leave --processes out")
	case telemetry.WantsPrometheus():
		return cli.Usage("OTEL_METRICS_EXPORTER=prometheus lockagent demo",
			"OTEL_METRICS_EXPORTER=prometheus is for one process; leave --processes out")
	}
	f.Agents = f.processes
	return nil
}

func (f *demoFlags) checkCounts(cmd *cobra.Command) error {
	return cmp.Or(
		between(cmd, "agents", f.Agents, mostAgents, 3),
		between(cmd, "workers", f.Workers, mostWorkers, 8),
		between(cmd, "locks", f.Locks, mostLocks, 4),
	)
}

func (f *demoFlags) checkTimes(*cobra.Command) error {
	switch {
	case f.Duration <= 0:
		return cli.Usage("lockagent demo --duration 5s", "--duration must be longer than nothing, not %v", f.Duration)
	case f.Think < 0:
		return cli.Usage("lockagent demo --think 500us", "--think cannot be negative, as %v is", f.Think)
	case f.Lease < leastLease || f.Lease > lockagent.MaxLease:
		return cli.Usage(
			"lockagent demo --lease 5s", "--lease must be between %v and %v, not %v", leastLease, lockagent.MaxLease, f.Lease,
		)
	}
	return nil
}

func (f *demoFlags) checkOutput(cmd *cobra.Command) error {
	return errors.Join(telemetry.CheckAddress(cmd, f.metrics), cli.CheckFormat(cmd, f.format, "text", "json"))
}

// checkKeep finds out whether the event log can be kept where the flag says.
func (f *demoFlags) checkKeep(cmd *cobra.Command) error {
	if f.Keep == "" {
		return nil
	}
	if other := f.nats.Given(cmd); other != "" {
		return cli.Usage("lockagent demo --keep "+cli.ShellWord(f.Keep), "--keep and --%s exclude each other", other)
	}
	f.NATS, f.Stream, f.Prefix = natslog.Connection{}, "", "" // the environment is meant for those who use it
	return eventlog.CheckNewDir(f.Keep)
}

// between checks a count.
func between(cmd *cobra.Command, flag string, n, most, good int) error {
	if n >= 1 && n <= most {
		return nil
	}
	try := fmt.Sprintf("%s --%s %d", cmd.CommandPath(), flag, good)
	if flag == "processes" {
		try += " --redis " + cli.ExampleRedis
	}
	return cli.Usage(try, "--%s must be between 1 and %d, not %d", flag, most, n)
}
