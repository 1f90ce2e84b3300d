package redistest

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/redisserver"
)

// ProgramVar is the variable of the environment that names the program of every server, such as an
// older version of Redis. Without it, that is the redis-server of the PATH.
const ProgramVar = "LOCKAGENT_TEST_REDIS"

// Server is one redis-server process.
type Server struct {
	*redisserver.Server
	t      testing.TB
	config redisserver.Config
	dir    string
	certs  *certificates
}

// Conn is one connection to a server, and Error an error reply.
type (
	Conn  = redisserver.Conn
	Error = redisserver.Error
)

// Option changes how a server is started.
type Option func(*Server)

// WithConfig adds lines to the configuration file of the server.
func WithConfig(lines ...string) Option {
	return func(s *Server) { s.config.Lines = append(s.config.Lines, lines...) }
}

// WithPassword has the default user ask for a password. [Server.Do] and
// [Server.URL] use it.
func WithPassword(password string) Option {
	return func(s *Server) { s.config.Password = password }
}

// WithUser adds a user with a password and access rules, such as "~* +@all".
func WithUser(name, password, rules string) Option {
	return WithConfig(fmt.Sprintf("user %s on >%s %s", name, password, rules))
}

// Start starts a server and returns when it answers. The test's cleanup kills
// it.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := begin(t, opts...)
	t.Cleanup(func() { s.end(t) })
	return s
}

// begin starts a server.
func begin(t testing.TB, opts ...Option) *Server {
	t.Helper()
	requireBinary(t)
	dir, err := os.MkdirTemp("", "redistest") // not t.TempDir: paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, dir: dir}
	s.config.Program = os.Getenv(ProgramVar)
	for _, opt := range opts {
		opt(s)
	}
	if s.Server, err = redisserver.Start(dir, s.config); err != nil {
		_ = os.RemoveAll(dir)
		t.Fatal(err)
	}
	return s
}

// end ends a server, and tells what it has logged if the test has failed.
func (s *Server) end(t testing.TB) {
	s.Kill()
	if t.Failed() {
		t.Logf("the log of the server at %s:\n%s", s.Addr(), s.Log())
	}
	if err := os.RemoveAll(s.dir); err != nil {
		t.Error(err)
	}
}

// Sharded reports whether the servers have sharded messages. Those before Redis 7 do not.
func Sharded(t testing.TB) bool {
	t.Helper()
	requireBinary(t)
	says, err := exec.CommandContext(t.Context(), program(), "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	return !strings.Contains(string(says), "v=6.")
}

// NeedsSharded skips a test if the servers have no sharded messages, see [Sharded].
func NeedsSharded(t testing.TB) {
	t.Helper()
	if !Sharded(t) {
		t.Skip("the servers are older than Redis 7, and have no sharded messages")
	}
}

func program() string { return cmp.Or(os.Getenv(ProgramVar), "redis-server") }

func requireBinary(t testing.TB) {
	t.Helper()
	_, err := exec.LookPath(program())
	if err != nil {
		err = errors.New("install redis-server (Debian: apt-get install redis-server)")
	}
	machinetest.Needs(t, err)
}

// UserURL is the server's address as a URL for a user.
func (s *Server) UserURL(user, password string) string {
	u := url.URL{Scheme: "redis", Host: s.Addr(), User: url.UserPassword(user, password)}
	return u.String()
}

// Restart kills the server and starts it again at the same address. It has
// forgotten everything, unless its configuration says otherwise.
func (s *Server) Restart() {
	s.t.Helper()
	if err := s.Server.Restart(); err != nil {
		s.t.Fatal(err)
	}
}

// Pause stops the server from doing anything, without closing its connections,
// until [Server.Resume].
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on with everything that it was sent meanwhile.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.Signal(sig); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
}

// Do runs one command on a connection of its own and returns the reply: a
// string, an int64, nil, or a []any of replies. The test ends if there is none,
// or if it is an error.
func (s *Server) Do(args ...string) any {
	s.t.Helper()
	reply, err := s.Server.Do(args...)
	if err != nil {
		s.t.Fatalf("redistest: %v: %v", args, err)
	}
	return reply
}

// Dial opens a connection that the test's cleanup closes.
func (s *Server) Dial() *Conn {
	s.t.Helper()
	c, err := s.Server.Dial()
	if err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// Age makes a server that a store was opened on look as if it had its data for longer by d.
func (s *Server) Age(d time.Duration) {
	s.t.Helper()
	text, _ := s.Do("GET", "lockagent_since").(string) // see incarnation.lua
	name, since, _ := strings.Cut(text, " ")
	at, err := strconv.ParseInt(since, 10, 64)
	if err != nil {
		s.t.Fatalf("redistest: the server has its data since %q: %v", text, err)
	}
	s.Do("SET", "lockagent_since", name+" "+strconv.FormatInt(at-d.Microseconds(), 10))
}

// AwaitReplica returns when a replica of the server has all that was written up to
// now. A replica that has just connected may not be sent anything for a while.
func (s *Server) AwaitReplica() {
	s.t.Helper()
	c := s.Dial()
	defer c.Close()
	for _, command := range [][]string{{"PUBLISH", "redistest", "awaited"}, {"WAIT", "1", "0"}} {
		if _, err := c.Do(command...); err != nil {
			s.t.Fatalf("redistest: %v: %v", command, err)
		}
	}
}

// Info returns one field of the server's INFO reply, or "" if it has none.
func (s *Server) Info(section, name string) string {
	s.t.Helper()
	return redisserver.Field(s.Do("INFO", section), name)
}

// Calls returns how often the server has run a command, since it was started or
// since CONFIG RESETSTAT. Commands inside scripts count.
func (s *Server) Calls(command string) int {
	s.t.Helper()
	stat := s.Info("commandstats", "cmdstat_"+strings.ToLower(command)) // "calls=3,usec=..."
	count, _, _ := strings.Cut(strings.TrimPrefix(stat, "calls="), ",")
	if count == "" {
		return 0
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		s.t.Fatalf("redistest: %q: %v", stat, err)
	}
	return n
}

// info is Info for those who wait for a server that may not answer yet: then the
// field is "".
func (s *Server) info(section, name string) string {
	reply, _ := s.Server.Do("INFO", section)
	return redisserver.Field(reply, name)
}
