package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/lockagent/lockagent/internal/address"
	"github.com/lockagent/lockagent/internal/place"
)

// Inputs is where the settings come from.
type Inputs struct {
	// Flags are the flags that were given, by their names. That of the file is among them: see [Flags].
	Flags map[string]string
	// Environ is the environment, as of [os.Environ].
	Environ []string
	// Dir is what relative paths in flags and variables are relative to.
	Dir string
	// UID and Hostname are for defaults.
	UID      int
	Hostname string
}

// FromHost returns the inputs of this process.
func FromHost(flags map[string]string) (Inputs, error) {
	dir, err := os.Getwd()
	if err != nil {
		return Inputs{}, err
	}
	host, err := os.Hostname()
	return Inputs{Flags: flags, Environ: os.Environ(), Dir: dir, UID: os.Getuid(), Hostname: host}, err
}

// Config is the settings, and where they came from.
type Config struct {
	Settings Settings
	// File is the configuration file, or empty if there is none.
	File string
	// UnknownVariables are those of the environment that begin with LOCKAGENT_ and mean nothing to any verb. Nor are
	// they so like a setting that they are a problem.
	UnknownVariables []string

	in      Inputs
	origins map[string]Origin // by key; a key that is missing has its default
	rules   []Origin          // of each rule
}

// Load reads the settings. Its error is [Problems].
func Load(in Inputs) (*Config, error) {
	l := &loading{
		Config: &Config{in: in, origins: make(map[string]Origin)},
		env:    environment(in.Environ),
	}
	l.defaults()
	if name, named := l.fileName(); name != "" {
		l.readFile(name, named)
	}
	l.variables()
	l.flags()
	if len(l.problems) == 0 { // else other settings would be blamed for them
		l.hostDefaults()
		l.check()
	}
	return l.Config, l.problems.err()
}

// loading is a Config that is being made.
type loading struct {
	*Config
	env      map[string]string
	problems Problems
}

// defaults sets those that are the same everywhere.
func (l *loading) defaults() {
	for _, s := range table {
		if s.Default == "" {
			continue
		}
		if err := s.kind.(scalar).set(s.field(&l.Settings), s.Default); err != nil {
			panic(fmt.Sprintf("the default of %s %v", s.Key, err))
		}
	}
}

// give sets a setting. A wrong value is a problem.
func (l *loading) give(s *Setting, from Origin, text string) {
	k := s.kind.(scalar)
	if url, ok := k.(server); ok && from.Kind != FromVariable && address.HasSecret(text) {
		l.problems.add(
			from, s.Key, "has a password or a token in it, which belongs into a file; name the file with %s",
			from.namesOf(url.secrets),
		)
		return
	}
	if _, ok := k.(path); ok {
		expanded, err := l.expand(text)
		if err != nil {
			l.problems.add(from, s.Key, "%v", err)
			return
		}
		if text = expanded; from.Kind != FromFile && !filepath.IsAbs(text) {
			text = filepath.Join(l.in.Dir, text)
		}
	}
	if err := k.set(s.field(&l.Settings), text); err != nil {
		l.problems.add(from, s.Key, "%v", err)
		return
	}
	l.origins[s.Key] = from
}

var reference = onDemand(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// expand puts the values of variables in place of ${NAME}.
func (l *loading) expand(text string) (expanded string, err error) {
	return reference().ReplaceAllStringFunc(text, func(of string) string {
		name := of[2 : len(of)-1]
		value := l.env[name]
		if value == "" && err == nil {
			err = fmt.Errorf("has ${%s}, and there is no such variable in the environment", name)
			if strings.HasSuffix(name, "_DIRECTORY") {
				err = fmt.Errorf("%w; systemd sets it for a service, and you can set it to try the file", err)
			}
		}
		return value
	}), err
}

// hostDefaults sets the defaults that depend on the host or on other settings.
func (l *loading) hostDefaults() {
	s := &l.Settings
	user := place.User{UID: l.in.UID, Getenv: func(name string) string { return l.env[name] }}
	if s.Host == "" {
		s.Host = label(l.in.Hostname)
	}
	if s.StateDir == "" {
		s.StateDir = user.StateDir()
	}
	if s.Socket.Path == "" {
		s.Socket.Path = user.Socket(s.StateDir)
	}
	if s.Operator.Socket == "" {
		s.Operator.Socket = OperatorSocket(s.Socket.Path)
	}
	if s.Redis.Key == "" {
		s.Redis.Key = s.Redis.Cert
	}
	if s.NATS.Key == "" {
		s.NATS.Key = s.NATS.Cert
	}
}

// OperatorSocket is the socket for the operators of a daemon whose clients connect to a socket, unless its settings say
// another one.
func OperatorSocket(socket string) string {
	return strings.TrimSuffix(socket, ".sock") + "-operator.sock"
}

// label is a host's name as an agent's identity can begin with it.
func label(host string) string {
	host, _, _ = strings.Cut(host, ".")
	text := strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_') {
			return r
		}
		return -1
	}, host)
	return text[:min(len(text), 27)]
}
