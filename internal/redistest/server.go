package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for a server. It is long because many tests share
// few processors; no test waits for it unless something is broken.
const patience = 60 * time.Second

// Server is one redis-server process.
type Server struct {
	t        testing.TB
	port     int
	dir      string
	password string   // of the default user
	config   []string // lines of the configuration file beside the usual ones
	args     []string // after the configuration file
	certs    *certificates

	process *os.Process
	exited  chan struct{} // closed when the process is gone and reaped
}

// Option changes how a server is started.
type Option func(*Server)

// WithConfig adds lines to the configuration file of the server.
func WithConfig(lines ...string) Option {
	return func(s *Server) { s.config = append(s.config, lines...) }
}

// WithPassword has the default user ask for a password. [Server.Do] and
// [Server.URL] use it.
func WithPassword(password string) Option {
	return func(s *Server) {
		s.password = password
		s.config = append(s.config, "requirepass "+password)
	}
}

// WithUser adds a user with a password and access rules, such as "~* +@all".
func WithUser(name, password, rules string) Option {
	return WithConfig(fmt.Sprintf("user %s on >%s %s", name, password, rules))
}

// Start starts a server and returns when it answers. The test's cleanup kills
// it.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	requireBinary(t)
	dir, err := os.MkdirTemp("", "redistest") // not t.TempDir: paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, dir: dir}
	t.Cleanup(func() {
		s.Kill()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	for _, opt := range opts {
		opt(s)
	}
	// Between the choice of a free port and its use somebody else may take it.
	for range 10 {
		s.port = freePort(t)
		if s.certs != nil {
			s.certs.port = freePort(t)
		}
		if err = s.launch(); err == nil {
			return s
		}
	}
	t.Fatalf("redistest: no server could be started: %v", err)
	return nil
}

func requireBinary(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err == nil {
		return
	}
	const advice = "install redis-server (Debian: apt-get install redis-server)"
	if os.Getenv("CI") != "" {
		t.Fatal(advice)
	}
	t.Skip(advice)
}

// freePort returns a port that nobody listens on, with the port 10,000 above it
// free as well: that is the bus of a Cluster node. It stays below the ports that
// systems give to outgoing connections, so that a server can have it back after
// a restart.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10000 + rand.IntN(12000)
		if isFree(port) && isFree(port+10000) {
			return port
		}
	}
	t.Fatal("redistest: no free port")
	return 0
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// launch starts the process and waits until it answers. An error says that the
// process ended instead, most likely because its port was taken.
func (s *Server) launch() error {
	conf := filepath.Join(s.dir, "redis.conf")
	lines := append([]string{
		"bind 127.0.0.1",
		"port " + strconv.Itoa(s.port),
		"dir " + s.dir,
		"unixsocket " + s.Socket(),
		"save \"\"",
		"appendonly no",
		"repl-diskless-sync-delay 0",
	}, s.config...)
	if s.certs != nil {
		lines = append(lines, s.certs.config()...)
	}
	if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command("redis-server", append([]string{conf}, s.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed in the end, which is an error to Wait
		close(exited)
	}()
	s.process, s.exited = cmd.Process, exited
	return s.awaitAnswer()
}

// awaitAnswer polls, because there is nothing else that tells when a server
// listens.
func (s *Server) awaitAnswer() error {
	pid := strconv.Itoa(s.process.Pid)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case <-s.exited:
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("redis-server ended:\n%s", log)
		case <-time.After(5 * time.Millisecond):
		}
		// A server of another test may have the port and answer in place of ours.
		if info, err := s.try("INFO", "server"); err == nil && field(info, "process_id") == pid {
			return nil
		}
	}
	s.t.Fatalf("redistest: %s does not answer", s.Addr())
	return nil
}

// Addr is the server's address, as host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Socket is the path of the server's Unix socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "redis.sock") }

// URL is the server's address as a URL, with the password of the default user
// if it has one.
func (s *Server) URL() string { return s.UserURL("", s.password) }

// UserURL is the server's address as a URL for a user.
func (s *Server) UserURL(user, password string) string {
	u := url.URL{Scheme: "redis", Host: s.Addr()}
	if password != "" {
		u.User = url.UserPassword(user, password)
	}
	return u.String()
}

// Kill ends the server at once, as SIGKILL does, and returns when the process is
// gone. It does nothing if it is gone already.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Kill() // fails only if it has ended
	<-s.exited
	s.process = nil
}

// Restart kills the server and starts it again at the same address. It has
// forgotten everything, unless its configuration says otherwise.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.launch(); err != nil {
		s.t.Fatalf("redistest: restart on port %d: %v", s.port, err)
	}
}

// Pause stops the server from doing anything, without closing its connections,
// until [Server.Resume].
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on with everything that it was sent meanwhile.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.process.Signal(sig); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
}

// Do runs one command on a connection of its own and returns the reply: a
// string, an int64, nil, or a []any of replies. The test ends if there is none,
// or if it is an error.
func (s *Server) Do(args ...string) any {
	s.t.Helper()
	reply, err := s.try(args...)
	if err != nil {
		s.t.Fatalf("redistest: %v: %v", args, err)
	}
	return reply
}

func (s *Server) try(args ...string) (any, error) {
	c, err := dial(s.Addr(), s.password)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(args...)
}

// Dial opens a connection that the test's cleanup closes.
func (s *Server) Dial() *Conn {
	s.t.Helper()
	c, err := dial(s.Addr(), s.password)
	if err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	s.t.Cleanup(c.Close)
	return c
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
	return field(s.Do("INFO", section), name)
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
	reply, _ := s.try("INFO", section)
	return field(reply, name)
}

// field finds "name:value" among the lines of an INFO reply.
func field(info any, name string) string {
	text, _ := info.(string)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// await polls until condition holds.
func await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("redistest: gave up waiting: %s", what)
		}
	}
}
