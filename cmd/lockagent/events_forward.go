package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/events"
)

// forwardFlags are the flags of the verb forward.
type forwardFlags struct {
	from, to           string
	fromCreds, toCreds string
}

// newEventsForward makes the verb that runs a forwarder by itself. It is hidden, because the daemon of
// a host will run it.
func newEventsForward() *cobra.Command {
	var f forwardFlags
	cmd := &cobra.Command{
		Use:   "forward",
		Short: "Copy the event log of a host to a hub",
		Long: `Copy the event log of one NATS server to another: in order, and each event once. It
goes on until it is interrupted, and waits for servers that are away.`,
		Example: `  lockagent events forward --from nats://127.0.0.1:4222 --to nats://hub:4222`,
		Args:    noArgs,
		Hidden:  true,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	connectionFlag(cmd, &f.from, "from", "`URL` of the NATS server to read, by default "+defaultNATS)
	connectionFlag(cmd, &f.to, "to", "`URL` of the NATS server that gets the copy")
	flags.StringVar(&f.fromCreds, "from-creds", "", "credentials `file` of the user who reads")
	flags.StringVar(&f.toCreds, "to-creds", "", "credentials `file` of the user who writes")
	return cmd
}

func (f *forwardFlags) run(cmd *cobra.Command) error {
	const try = "lockagent events forward --from " + defaultNATS + " --to nats://hub:4222"
	if f.to == "" {
		return usage(try, "--to is missing")
	}
	if f.from == "" {
		f.from = defaultNATS
	}
	forwarder, err := events.NewForwarder(events.ForwardConfig{
		From:   events.ReaderConfig{Connection: events.Connection{URL: f.from, Creds: f.fromCreds}},
		To:     events.ReaderConfig{Connection: events.Connection{URL: f.to, Creds: f.toCreds}},
		Logger: newLogger(cmd.ErrOrStderr()),
	})
	if err != nil {
		return &failure{exitUsage, err, try}
	}
	err = forwarder.Run(cmd.Context())
	if !errors.Is(err, context.Cause(cmd.Context())) { // else it ended as it is meant to
		return &failure{exitUsage, err, try}
	}
	stats := forwarder.Stats()
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d messages forwarded; %d that were discarded or refused are missing\n", stats.Forwarded, stats.Discarded+stats.Refused)
	return err
}
