package eventlog

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

// DefaultNATS is where a NATS server listens unless it was told otherwise.
const DefaultNATS = "nats://127.0.0.1:4222"

// NATSFlags are the flags of every verb that uses an event log in NATS.
type NATSFlags struct {
	Name  string         // of the flag for the address, and with what all others begin
	Flags *pflag.FlagSet // of the verb
	natslog.Connection
	Stream, Prefix string

	// For those who may make the stream.
	Replicas int
	MaxBytes int64
	MaxAge   time.Duration
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

// Add adds the flags to cmd. Their names begin with name. usage is that of the flag for the address.
func (f *NATSFlags) Add(cmd *cobra.Command, name, usage string) {
	f.Name, f.Flags = name, cmd.Flags()
	flags := f.Flags
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
	text(&f.Stream, "Stream", "`name` of the stream, by default "+natslog.DefaultStream)
	text(&f.Prefix, "Prefix", "`subject` that begins the subjects of all events, by default lockagent.v1")
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

// AddForMakers adds the flags to a cmd that makes the stream if there is none.
func (f *NATSFlags) AddForMakers(cmd *cobra.Command, name, usage string) {
	flags := cmd.Flags()
	flags.IntVar(
		&f.Replicas, name+natsOptions["Replicas"], 0,
		"`number` of copies of the stream in the cluster, if it has to be made, by default 1",
	)
	flags.Int64Var(
		&f.MaxBytes, name+natsOptions["MaxBytes"], 0,
		fmt.Sprintf(
			"`bytes` that the stream keeps, if it has to be made; it removes the oldest events; -1 is no bound, by default %d",
			natslog.DefaultMaxBytes,
		),
	)
	flags.DurationVar(
		&f.MaxAge, name+natsOptions["MaxAge"], 0,
		"`time` for which the stream keeps events, if it has to be made, by default for ever",
	)
	f.Add(cmd, name, usage)
}

// flag is the name of the flag of an option, or empty if it has none.
func (f *NATSFlags) flag(option string) string {
	if rest, ok := natsOptions[option]; ok {
		return f.Name + rest
	}
	return ""
}

// Config is what the flags say. The server is by default one on this host.
func (f *NATSFlags) Config(logger *slog.Logger) natslog.ReaderConfig {
	cfg := natslog.ReaderConfig{Connection: f.Connection, Stream: f.Stream, Prefix: f.Prefix}
	cfg.URL, cfg.Logger = cmp.Or(f.URL, DefaultNATS), logger
	return cfg
}

// optionName finds the options in a text for people.
var optionName = regexp.MustCompile(`(^|\s)(\w+)\b`)

// flagsIn has a text of package events speak of flags.
func (f *NATSFlags) flagsIn(text string) string {
	return optionName.ReplaceAllStringFunc(text, func(word string) string {
		name := strings.TrimSpace(word)
		if flag := f.flag(name); flag != "" {
			return strings.Replace(word, name, "--"+flag, 1)
		}
		return word
	})
}

// Given returns one of the flags that are on the command line, or empty.
func (f *NATSFlags) Given(cmd *cobra.Command) (name string) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if name == "" && f.has(flag) {
			name = flag.Name
		}
	})
	return name
}

// Set reports whether one of the flags, or the environment for it, says something.
func (f *NATSFlags) Set() (set bool) {
	f.Flags.VisitAll(func(flag *pflag.Flag) { set = set || f.has(flag) && flag.Value.String() != flag.DefValue })
	return set
}

func (f *NATSFlags) has(flag *pflag.Flag) bool {
	return flag.Name == f.Name || strings.HasPrefix(flag.Name, f.Name+"-")
}

// Open connects to the event log.
func (f *NATSFlags) Open(cmd *cobra.Command, logger *slog.Logger) (*natslog.Reader, error) {
	reader, err := natslog.OpenReader(f.Config(logger))
	if err != nil {
		return nil, f.Unreached(cmd, err)
	}
	return reader, nil
}

// Unreached gives what keeps us from a connection its exit code, and names the server that cannot be reached.
func (f *NATSFlags) Unreached(cmd *cobra.Command, err error) *cli.Failure {
	failed := f.Failure(cmd, err)
	if failed.Code == cli.ExitUnavailable {
		failed.Err = fmt.Errorf("%w: %s", err, address.Redacted(cmp.Or(f.URL, DefaultNATS)))
	}
	return failed
}

// Failure gives what keeps us from the event log its exit code.
func (f *NATSFlags) Failure(cmd *cobra.Command, err error) *cli.Failure {
	if bad, ok := errors.AsType[*lockagent.OptionError](err); ok {
		if flag := f.flag(bad.Option); flag != "" {
			err = fmt.Errorf("--%s (or $%s): %s", flag, cli.Variable(flag), f.flagsIn(bad.Reason))
		}
		return &cli.Failure{Code: cli.ExitUsage, Err: err, Try: cmd.CommandPath() + " --help"}
	}
	instead := func(of func(*pflag.Flag) bool, flag string) string {
		return cli.CommandLine(cmd, cli.Places(cmd.Flags(), of)+" --"+f.Name+flag)
	}
	switch {
	case errors.Is(err, natslog.ErrBadURL):
		return &cli.Failure{Code: cli.ExitUsage, Err: err, Try: instead(f.Names, " "+DefaultNATS)}
	case errors.Is(err, natslog.ErrNotPermitted):
		return &cli.Failure{
			Code: cli.ExitNotPermitted, Err: err,
			Try: instead(f.saysWho, "-creds FILE    (or another of the ways in docs/nats.md)"),
		}
	case errors.Is(err, natslog.ErrNoStream):
		return &cli.Failure{Code: cli.ExitEmpty, Err: err, Try: "lockagent demo --nats URL    (publishes to it)"}
	}
	return &cli.Failure{
		Code: cli.ExitUnavailable, Err: err, Try: instead(f.Names, " URL    (of the server that has the event log)"),
	}
}

// Names reports whether a flag says which server has the event log, or that none has it.
func (f *NATSFlags) Names(flag *pflag.Flag) bool {
	return slices.Contains([]string{f.Name, "dir", "file", "socket"}, flag.Name)
}

// saysWho reports whether a flag says who the user is.
func (f *NATSFlags) saysWho(flag *pflag.Flag) bool {
	options := []string{"Creds", "Nkey", "User", "UserFile", "PasswordFile", "TokenFile"}
	return slices.ContainsFunc(options, func(option string) bool {
		return flag.Name == f.flag(option)
	})
}
