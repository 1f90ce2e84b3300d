package redisserver

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// patience bounds every wait for a server. It is long because many tests share
// few processors; nobody waits for it unless something is broken.
const patience = 60 * time.Second

// Config changes how a server is started. The zero Config is a server without
// password or TLS.
type Config struct {
	// Password is asked of the default user. [Server.Do] and [Server.URL] use it.
	Password string
	// Lines are added to the usual ones of the configuration file.
	Lines []string
	// Program is the server's program. If it is empty, that is the redis-server of the PATH.
	Program string
	// Args come after the configuration file on the command line.
	Args []string
	// TLS has the server listen with TLS on a second port. Servers speak TLS among each other, too: the nodes of a
	// Cluster, replicas, and Sentinels.
	TLS *TLS
}

// TLS names the files of a certificate that is its own authority.
type TLS struct{ Cert, Key string }

// Server is one redis-server process.
type Server struct {
	config  Config
	port    int
	tlsPort int
	dir     string

	process *os.Process
	exited  chan struct{} // closed when the process is gone and reaped
}

// Start starts a server and returns when it answers. Its files are in dir, which
// exists, and has a short path, because those of sockets must be.
func Start(dir string, config Config) (*Server, error) {
	s := &Server{config: config, dir: dir}
	var err error
	// Between the choice of a free port and its use somebody else may take it.
	for range 10 {
		if s.port, err = FreePort(); err != nil {
			break
		}
		if s.config.TLS != nil {
			if s.tlsPort, err = FreePort(); err != nil {
				break
			}
		}
		if err = s.launch(); err == nil {
			return s, nil
		}
		if !errors.As(err, new(*endedError)) {
			break
		}
	}
	s.Kill()
	return nil, fmt.Errorf("redisserver: no server could be started: %w", err)
}

// FreePort returns a port that nobody listens on, with the port 10,000 above it
// free as well: that is the bus of a Cluster node. It stays below the ports that
// systems give to outgoing connections, so that a server can have it back after
// a restart.
func FreePort() (int, error) {
	for range 1000 {
		port := 10000 + rand.IntN(12000)
		if isFree(port) && isFree(port+10000) {
			return port, nil
		}
	}
	return 0, errors.New("no free port")
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// endedError says that the process ended instead of answering, most likely because
// its port was taken.
type endedError struct{ log string }

func (e *endedError) Error() string { return "redis-server ended:\n" + e.log }

// launch starts the process and waits until it answers.
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
	}, s.config.Lines...)
	if s.config.Password != "" {
		lines = append(lines, "requirepass "+s.config.Password)
	}
	if tls := s.config.TLS; tls != nil {
		lines = append(lines,
			"tls-port "+strconv.Itoa(s.tlsPort),
			"tls-cert-file "+tls.Cert,
			"tls-key-file "+tls.Key,
			"tls-ca-cert-file "+tls.Cert,
			"tls-auth-clients no",
			"tls-replication yes",
		)
	}
	if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(cmp.Or(s.config.Program, "redis-server"), append([]string{conf}, s.config.Args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return err
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
			return &endedError{log: s.Log()}
		case <-time.After(5 * time.Millisecond):
		}
		// A server of somebody else may have the port and answer in place of ours.
		if info, err := s.Do("INFO", "server"); err == nil && Field(info, "process_id") == pid {
			return nil
		}
	}
	return fmt.Errorf("%s does not answer", s.Addr())
}

// Log is what the server has logged, also before a restart.
func (s *Server) Log() string {
	log, _ := os.ReadFile(s.logFile())
	return string(log)
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// Port is the server's port, without TLS.
func (s *Server) Port() int { return s.port }

// Addr is the server's address, as host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// TLSAddr is the server's address with TLS, as host:port.
func (s *Server) TLSAddr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.tlsPort)) }

// PeerPort is the port by which other servers reach this one.
func (s *Server) PeerPort() int {
	if s.config.TLS != nil {
		return s.tlsPort
	}
	return s.port
}

// Socket is the path of the server's Unix socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "redis.sock") }

// URL is the server's address as a URL, with the password of the default user
// if it has one.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr()}
	if s.config.Password != "" {
		u.User = url.UserPassword("", s.config.Password)
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
func (s *Server) Restart() error {
	s.Kill()
	if err := s.launch(); err != nil {
		return fmt.Errorf("redisserver: restart on port %d: %w", s.port, err)
	}
	return nil
}

// Signal sends a signal to the process.
func (s *Server) Signal(sig os.Signal) error { return s.process.Signal(sig) }

// Do runs one command on a connection of its own and returns the reply. See
// [Conn.Do].
func (s *Server) Do(args ...string) (any, error) {
	c, err := s.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(args...)
}

// Dial opens a connection.
func (s *Server) Dial() (*Conn, error) { return Dial(s.Addr(), s.config.Password) }

// Field finds "name:value" among the lines of an INFO reply. It is "" if there is
// none.
func Field(info any, name string) string {
	text, _ := info.(string)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
