package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/demo"
	"github.com/lockagent/lockagent/events"
)

// defaultNATS is where a NATS server listens unless it was told otherwise.
const defaultNATS = "nats://127.0.0.1:4222"

// connectionFlag adds a flag for an address.
func connectionFlag(cmd *cobra.Command, value *string, name, usage string) {
	cmd.Flags().StringVar(value, name, "", usage)
	fromEnvironment(cmd, name)
}

// fromEnvironment has the environment set the flags of these names that are not given.
// What others must not see does not belong on a command line.
func fromEnvironment(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		f := cmd.Flags().Lookup(name)
		f.Usage += fmt.Sprintf(" (or $%s)", variable(name))
	}
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		for _, name := range names {
			if err := fromVariable(cmd.Flags().Lookup(name)); err != nil {
				return err
			}
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

func fromVariable(f *pflag.Flag) error {
	value := os.Getenv(variable(f.Name))
	if f.Changed || value == "" {
		return nil
	}
	if err := f.Value.Set(value); err != nil { // it stays a flag that is not given
		return usage("unset "+variable(f.Name), "$%s wants %s, not %q", variable(f.Name), kindOf(f), value)
	}
	return nil
}

// variable is the name of a flag in the environment.
func variable(flag string) string {
	return "LOCKAGENT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// natsFlags are the flags of every verb that uses the event log.
type natsFlags struct {
	events.Connection
	stream, prefix string
	replicas       int // for publishers only
}

// natsOptions has the flag of each option that [events] may call wrong.
var natsOptions = map[string]string{
	"Creds":        "nats-creds",
	"Nkey":         "nats-nkey",
	"User":         "nats-user",
	"UserFile":     "nats-user-file",
	"PasswordFile": "nats-password-file",
	"TokenFile":    "nats-token-file",
	"CA":           "nats-ca",
	"Cert":         "nats-cert",
	"Key":          "nats-key",
	"ServerName":   "nats-server-name",
	"TLSFirst":     "nats-tls-first",
	"Domain":       "nats-domain",
	"Stream":       "nats-stream",
	"Prefix":       "nats-prefix",
	"Replicas":     "nats-replicas",
}

// add adds the flags to cmd. usage is that of the flag for the address.
func (f *natsFlags) add(cmd *cobra.Command, usage string) {
	flags := cmd.Flags()
	connectionFlag(cmd, &f.URL, "nats", usage)
	flags.StringVar(&f.Creds, "nats-creds", "", "credentials `file` of the user, with JWT and seed")
	flags.StringVar(&f.Nkey, "nats-nkey", "", "`file` with the seed of the user's nkey")
	flags.StringVar(&f.User, "nats-user", "", "`name` of the user")
	flags.StringVar(&f.UserFile, "nats-user-file", "", "`file` with the name of the user")
	flags.StringVar(&f.PasswordFile, "nats-password-file", "", "`file` with the password of the user")
	flags.StringVar(&f.TokenFile, "nats-token-file", "", "`file` with a token")
	flags.StringVar(&f.CA, "nats-ca", "", "PEM `file` of those who may vouch for the server")
	flags.StringVar(&f.Cert, "nats-cert", "", "PEM `file` with the client certificate")
	flags.StringVar(&f.Key, "nats-key", "", "PEM `file` with its private key, by default that of --nats-cert")
	flags.StringVar(&f.ServerName, "nats-server-name", "", "`name` in the server's certificate, by default the host in the URL")
	flags.BoolVar(&f.TLSFirst, "nats-tls-first", false, "begin with TLS, for servers with handshake_first")
	flags.StringVar(&f.Domain, "nats-domain", "", "JetStream `domain` of the stream")
	flags.StringVar(&f.stream, "nats-stream", "", "`name` of the stream, by default "+events.DefaultStream)
	flags.StringVar(&f.prefix, "nats-prefix", "", "`subject` that begins the subjects of all events, by default lockagent.v1")
	names := slices.Sorted(maps.Values(natsOptions))
	fromEnvironment(cmd, slices.DeleteFunc(names, func(name string) bool { return flags.Lookup(name) == nil })...)
}

// addForPublishers adds the flags to a cmd that publishes.
func (f *natsFlags) addForPublishers(cmd *cobra.Command, usage string) {
	cmd.Flags().IntVar(&f.replicas, "nats-replicas", 0, "`number` of copies of the stream in the cluster, if it has to be made, by default 1")
	f.add(cmd, usage)
}

// optionName finds the options in a text for people.
var optionName = regexp.MustCompile(`(^|\s)(\w+)\b`)

// flagsFor has a text of package events speak of flags.
func flagsFor(text string) string {
	return optionName.ReplaceAllStringFunc(text, func(word string) string {
		name := strings.TrimSpace(word)
		flag := natsOptions[name]
		if name == "URL" {
			flag = "nats"
		}
		if flag == "" {
			return word
		}
		return strings.Replace(word, name, "--"+flag, 1)
	})
}

// given returns one of the flags that are on the command line, or empty.
func (f *natsFlags) given(cmd *cobra.Command) (name string) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if name == "" && (flag.Name == "nats" || strings.HasPrefix(flag.Name, "nats-")) {
			name = flag.Name
		}
	})
	return name
}

// openEvents connects to the event log.
func openEvents(cmd *cobra.Command, f natsFlags, logger *slog.Logger) (*events.Reader, error) {
	if f.URL == "" {
		f.URL = defaultNATS
	}
	f.Logger = logger
	reader, err := events.OpenReader(events.ReaderConfig{Connection: f.Connection, Stream: f.stream, Prefix: f.prefix})
	if err != nil {
		failed := natsFailure(cmd, err)
		if failed.code == exitUnavailable {
			failed.err = fmt.Errorf("%w: %s", err, demo.Redacted(f.URL))
		}
		return nil, failed
	}
	return reader, nil
}

// natsFailure gives what keeps us from the event log its exit code.
func natsFailure(cmd *cobra.Command, err error) *failure {
	if bad, ok := errors.AsType[*lockagent.OptionError](err); ok {
		if flag := natsOptions[bad.Option]; flag != "" {
			text := fmt.Errorf("--%s (or $%s): %s", flag, variable(flag), flagsFor(bad.Reason))
			return &failure{exitUsage, text, cmd.CommandPath() + " --help"}
		}
		return &failure{exitUsage, err, cmd.CommandPath() + " --help"}
	}
	switch {
	case errors.Is(err, events.ErrBadURL):
		return &failure{exitUsage, err, again(cmd) + " --nats " + defaultNATS}
	case errors.Is(err, events.ErrNotPermitted):
		return &failure{exitNotPermitted, err, again(cmd) + " --nats-creds FILE    (or another of the ways in docs/nats.md)"}
	case errors.Is(err, events.ErrNoStream):
		return &failure{exitUnavailable, err, "lockagent demo --nats URL    (publishes to it)"}
	}
	return &failure{exitUnavailable, err, again(cmd) + " --nats URL    (of the server that has the event log)"}
}

// readFailure gives what stops the reading of an event log its exit code.
func readFailure(cmd *cobra.Command, err error) error {
	switch {
	case err == nil:
		return nil
	case cmd.Context().Err() != nil:
		return &failure{code: exitFailed, err: fmt.Errorf("ended before the log did: %w", err)}
	}
	return natsFailure(cmd, err)
}
