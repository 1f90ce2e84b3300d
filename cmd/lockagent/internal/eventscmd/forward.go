package eventscmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/metric"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventlog"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/telemetry"
	"github.com/lockagent/lockagent/events/natslog"
)

// forwardFlags are the flags of the verb forward.
type forwardFlags struct {
	source, hub eventlog.NATSFlags
	metrics     string
}

// newForward makes the verb that runs a forwarder by itself, for a host whose log is in a NATS server of its own. A
// daemon forwards its own log.
func newForward() *cobra.Command {
	var f forwardFlags
	cmd := &cobra.Command{
		Use:   "forward",
		Short: "Copy the event log of a host to a hub",
		Long: `Copy the event log of one NATS server to another, the hub: in order, and each event once. It
goes on until it is interrupted, and waits for servers that are away.

A daemon needs no such program: with nats.url in its configuration it forwards its own log to that server.`,
		Example: "  lockagent events forward --nats " + eventlog.DefaultNATS + " --hub nats://hub:4222",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(
		&f.metrics, "metrics", "", "serve metrics to Prometheus on this `address`, such as 127.0.0.1:9466",
	)
	f.source.Add(cmd, "nats", "`URL` of the NATS server to read, by default "+eventlog.DefaultNATS)
	f.hub.AddForMakers(cmd, "hub", "`URL` of the NATS server that gets the copy")
	return cmd
}

func (f *forwardFlags) run(cmd *cobra.Command) error {
	if f.hub.URL == "" {
		return cli.Usage(cli.Again(cmd)+" --hub nats://hub:4222", "--hub is missing")
	}
	if err := telemetry.CheckAddress(cmd, f.metrics); err != nil {
		return err
	}
	logger := cli.NewLogger(cmd.ErrOrStderr())
	forwarder, err := natslog.NewForwarder(natslog.ForwardConfig{
		Source: f.source.Config(logger), Hub: f.hub.Config(logger),
		Replicas: f.hub.Replicas, MaxBytes: f.hub.MaxBytes, MaxAge: f.hub.MaxAge, Logger: logger,
	})
	if err != nil {
		return f.failure(cmd, err)
	}
	stop, err := f.serve(cmd, logger, forwarder.Stats)
	if err != nil {
		return err
	}
	defer stop()
	err = forwarder.Run(cmd.Context())
	if !errors.Is(err, context.Cause(cmd.Context())) { // else it ended as it is meant to
		return f.failure(cmd, err)
	}
	stats := forwarder.Stats()
	_, err = fmt.Fprintf(
		cmd.OutOrStdout(), "%d messages forwarded; %d that were discarded or refused are missing\n", stats.Forwarded,
		stats.Discarded+stats.Refused,
	)
	return err
}

// failure has an error speak of the flags of the end that has it.
func (f *forwardFlags) failure(cmd *cobra.Command, err error) error {
	of := &f.source
	if end, ok := errors.AsType[*natslog.EndError](err); ok && end.End == natslog.HubEnd {
		of = &f.hub
	}
	if bad, ok := errors.AsType[*lockagent.OptionError](err); ok && bad.Option == "Hub" {
		return cli.Usage(
			cli.CommandLine(cmd, cli.Places(cmd.Flags(), f.hub.Names)+" --hub nats://hub:4222"),
			"--%s (or $%s): it has the same stream as --%s", f.hub.Name, cli.Variable(f.hub.Name), f.source.Name,
		)
	}
	return of.Failure(cmd, err)
}

// serve is [telemetry.Export] with the metrics of the verb.
func (f *forwardFlags) serve(
	cmd *cobra.Command, logger *slog.Logger, stats func() natslog.ForwardStats,
) (stop func(), err error) {
	return telemetry.Export(
		cmd, logger, f.metrics,
		func(provider metric.MeterProvider) error { return telemetry.MeasureForwarding(provider, stats) },
	)
}
