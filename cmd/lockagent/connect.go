package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/address"
)

// defaultNATS is where a NATS server listens unless it was told otherwise.
const defaultNATS = "nats://127.0.0.1:4222"

// natsFlags are the flags of every verb that uses an event log in NATS.
type natsFlags struct {
	name  string         // of the flag for the address, and with what all others begin
	flags *pflag.FlagSet // of the verb
	natslog.Connection
	stream, prefix string

	// For those who may make the stream.
	replicas int
	maxBytes int64
	maxAge   time.Duration
}

// natsOptions has what follows the name in the flag of each option that [events] may call wrong.
var natsOptions = map[string]string{
	"URL":          "",
	"Creds":        "-creds",
	"Nkey":         "-nkey",
	"User":         "-user",
	"UserFile":     "-user-file",
	"PasswordFile": "-password-file",
	"TokenFile":    "-token-file",
	"CA":           "-ca",
	"Cert":         "-cert",
	"Key":          "-key",
	"ServerName":   "-server-name",
	"TLSFirst":     "-tls-first",
	"Domain":       "-domain",
	"InboxPrefix":  "-inbox-prefix",
	"Stream":       "-stream",
	"Prefix":       "-prefix",
	"Replicas":     "-replicas",
	"MaxBytes":     "-max-bytes",
	"MaxAge":       "-max-age",
}

// add adds the flags to cmd. Their names begin with name. usage is that of the flag for the address.
func (f *natsFlags) add(cmd *cobra.Command, name, usage string) {
	f.name, f.flags = name, cmd.Flags()
	flags := f.flags
	text := func(to *string, option, usage string) {
		flags.StringVar(to, f.flag(option), "", usage)
	}
	text(&f.URL, "URL", usage)
	text(&f.Creds, "Creds", "credentials `file` of the user, with JWT and seed")
	text(&f.Nkey, "Nkey", "`file` with the seed of the user's nkey")
	text(&f.User, "User", "`name` of the user")
	text(&f.UserFile, "UserFile", "`file` with the name of the user")
	text(&f.PasswordFile, "PasswordFile", "`file` with the password of the user")
	text(&f.TokenFile, "TokenFile", "`file` with a token")
	text(&f.CA, "CA", "PEM `file` of those who may vouch for the server")
	text(&f.Cert, "Cert", "PEM `file` with the client certificate")
	text(&f.Key, "Key", "PEM `file` with its private key, by default that of --"+f.flag("Cert"))
	text(&f.ServerName, "ServerName", "`name` in the server's certificate, by default the host in the URL")
	flags.BoolVar(&f.TLSFirst, f.flag("TLSFirst"), false, "begin with TLS, for servers with handshake_first")
	text(&f.Domain, "Domain", "JetStream `domain` of the stream")
	text(&f.InboxPrefix, "InboxPrefix", "`subject` that begins the subjects of all answers, by default _INBOX")
	text(&f.stream, "Stream", "`name` of the stream, by default "+natslog.DefaultStream)
	text(&f.prefix, "Prefix", "`subject` that begins the subjects of all events, by default lockagent.v1")
	var names []string
	for option := range natsOptions {
		if name := f.flag(option); flags.Lookup(name) != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	cli.MarkPlace(cmd, names...)
	cli.FromEnvironment(cmd, names...)
}

// addForMakers adds the flags to a cmd that makes the stream if there is none.
func (f *natsFlags) addForMakers(cmd *cobra.Command, name, usage string) {
	flags := cmd.Flags()
	flags.IntVar(&f.replicas, name+natsOptions["Replicas"], 0, "`number` of copies of the stream in the cluster, if it has to be made, by default 1")
	flags.Int64Var(&f.maxBytes, name+natsOptions["MaxBytes"], 0, fmt.Sprintf("`bytes` that the stream keeps, if it has to be made; it removes the oldest events; -1 is no bound, by default %d", natslog.DefaultMaxBytes))
	flags.DurationVar(&f.maxAge, name+natsOptions["MaxAge"], 0, "`time` for which the stream keeps events, if it has to be made, by default for ever")
	f.add(cmd, name, usage)
}

// flag is the name of the flag of an option, or empty if it has none.
func (f *natsFlags) flag(option string) string {
	if rest, ok := natsOptions[option]; ok {
		return f.name + rest
	}
	return ""
}

// config is what the flags say. The server is by default one on this host.
func (f *natsFlags) config(logger *slog.Logger) natslog.ReaderConfig {
	cfg := natslog.ReaderConfig{Connection: f.Connection, Stream: f.stream, Prefix: f.prefix}
	cfg.URL, cfg.Logger = cmp.Or(f.URL, defaultNATS), logger
	return cfg
}

// optionName finds the options in a text for people.
var optionName = regexp.MustCompile(`(^|\s)(\w+)\b`)

// flagsIn has a text of package events speak of flags.
func (f *natsFlags) flagsIn(text string) string {
	return optionName.ReplaceAllStringFunc(text, func(word string) string {
		name := strings.TrimSpace(word)
		if flag := f.flag(name); flag != "" {
			return strings.Replace(word, name, "--"+flag, 1)
		}
		return word
	})
}

// given returns one of the flags that are on the command line, or empty.
func (f *natsFlags) given(cmd *cobra.Command) (name string) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if name == "" && f.has(flag) {
			name = flag.Name
		}
	})
	return name
}

// set reports whether one of the flags, or the environment for it, says something.
func (f *natsFlags) set() (set bool) {
	f.flags.VisitAll(func(flag *pflag.Flag) { set = set || f.has(flag) && flag.Value.String() != flag.DefValue })
	return set
}

func (f *natsFlags) has(flag *pflag.Flag) bool {
	return flag.Name == f.name || strings.HasPrefix(flag.Name, f.name+"-")
}

// open connects to the event log.
func (f *natsFlags) open(cmd *cobra.Command, logger *slog.Logger) (*natslog.Reader, error) {
	reader, err := natslog.OpenReader(f.config(logger))
	if err != nil {
		return nil, f.unreached(cmd, err)
	}
	return reader, nil
}

// unreached gives what keeps us from a connection its exit code, and names the server that cannot be reached.
func (f *natsFlags) unreached(cmd *cobra.Command, err error) *cli.Failure {
	failed := f.failure(cmd, err)
	if failed.Code == cli.ExitUnavailable {
		failed.Err = fmt.Errorf("%w: %s", err, address.Redacted(cmp.Or(f.URL, defaultNATS)))
	}
	return failed
}

// failure gives what keeps us from the event log its exit code.
func (f *natsFlags) failure(cmd *cobra.Command, err error) *cli.Failure {
	if bad, ok := errors.AsType[*lockagent.OptionError](err); ok {
		if flag := f.flag(bad.Option); flag != "" {
			err = fmt.Errorf("--%s (or $%s): %s", flag, cli.Variable(flag), f.flagsIn(bad.Reason))
		}
		return &cli.Failure{Code: cli.ExitUsage, Err: err, Try: cmd.CommandPath() + " --help"}
	}
	instead := func(of func(*pflag.Flag) bool, flag string) string {
		return cli.CommandLine(cmd, cli.Places(cmd.Flags(), of)+" --"+f.name+flag)
	}
	switch {
	case errors.Is(err, natslog.ErrBadURL):
		return &cli.Failure{Code: cli.ExitUsage, Err: err, Try: instead(f.names, " "+defaultNATS)}
	case errors.Is(err, natslog.ErrNotPermitted):
		return &cli.Failure{Code: cli.ExitNotPermitted, Err: err, Try: instead(f.saysWho, "-creds FILE    (or another of the ways in docs/nats.md)")}
	case errors.Is(err, natslog.ErrNoStream):
		return &cli.Failure{Code: cli.ExitEmpty, Err: err, Try: "lockagent demo --nats URL    (publishes to it)"}
	}
	return &cli.Failure{Code: cli.ExitUnavailable, Err: err, Try: instead(f.names, " URL    (of the server that has the event log)")}
}

// names reports whether a flag says which server has the event log, or that none has it.
func (f *natsFlags) names(flag *pflag.Flag) bool {
	return slices.Contains([]string{f.name, "dir", "file", "socket"}, flag.Name)
}

// saysWho reports whether a flag says who the user is.
func (f *natsFlags) saysWho(flag *pflag.Flag) bool {
	return slices.ContainsFunc([]string{"Creds", "Nkey", "User", "UserFile", "PasswordFile", "TokenFile"}, func(option string) bool {
		return flag.Name == f.flag(option)
	})
}
