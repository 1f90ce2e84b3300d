package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// defaultNATS is where a NATS server listens unless it was told otherwise.
const defaultNATS = "nats://127.0.0.1:4222"

// connectionFlag adds a flag for an address. If it is not given the environment
// decides, where a password is not seen by others.
func connectionFlag(cmd *cobra.Command, value *string, name, usage string) {
	env := "LOCKAGENT_" + strings.ToUpper(name)
	cmd.Flags().StringVar(value, name, "", fmt.Sprintf("%s (or $%s)", usage, env))
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed(name) {
			*value = os.Getenv(env)
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

// openEvents connects to the event log.
func openEvents(cmd *cobra.Command, url string, logger *slog.Logger) (*events.Reader, error) {
	if url == "" {
		url = defaultNATS
	}
	reader, err := events.OpenReader(events.ReaderConfig{Connection: events.Connection{URL: url, Logger: logger}})
	if errors.Is(err, events.ErrBadURL) {
		return nil, &failure{exitUsage, err, cmd.CommandPath() + " --nats " + defaultNATS}
	}
	if err != nil {
		return nil, &failure{exitUnavailable, err, cmd.CommandPath() + " --nats URL    (of the server that has the event log)"}
	}
	return reader, nil
}

// readFailure gives what stops the reading of an event log its exit code.
func readFailure(cmd *cobra.Command, err error) error {
	switch {
	case err == nil:
		return nil
	case cmd.Context().Err() != nil:
		return &failure{code: exitFailed, err: fmt.Errorf("ended before the log did: %w", err)}
	case errors.Is(err, lockagent.ErrBadOption):
		return &failure{exitUsage, err, cmd.CommandPath() + " --help"}
	case errors.Is(err, events.ErrNoStream):
		return &failure{exitUnavailable, err, "lockagent demo --nats URL    (publishes to it)"}
	}
	return &failure{code: exitUnavailable, err: err}
}
