// Package natsserver runs a NATS server with JetStream inside this process, so
// that events have a durable log with nothing installed.
//
// # Usage
//
// [Start] returns a running [Server]. Clients in the process connect through
// [Server.InProcessConn], which needs no port; others only if a loopback address
// was asked for with [Config.Listen]. [Server.Stop] ends it.
//
// # Guarantees
//
// Two servers never share a store directory, whether in one process or in two:
// the second [Start] returns [ErrInUse]. A message that was acknowledged
// survives the death of the process, and all but the last second of them a power
// failure. When the disk was full and has room again, the server starts anew by itself, and its
// clients have to connect again. After [Server.Stop] no goroutine, no port and no lock file is left in
// use, and the same directory can be started again.
//
// # Not guaranteed
//
// The log is not replicated. Whoever may connect may read and write it, unless
// [Config.ConfigFile] says who is who.
//
// # Concurrency
//
// All methods are safe for concurrent use.
//
// # Testing
//
// Package natstest starts servers that end with their test.
package natsserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/filelock"
)

// ErrInUse is returned by [Start] when another server has the store directory.
// NATS itself does not notice, and both would lose what they acknowledged.
var ErrInUse = errors.New(
	"natsserver: the store directory is in use by another server; stop that one or choose another directory",
)

const (
	// syncInterval is how often the log is forced to disk. It costs no throughput
	// down from the two minutes that are the server's own default.
	syncInterval = time.Second

	// startTimeout bounds Start. A log of some million messages is read through
	// in seconds.
	startTimeout = time.Minute

	lockFile = "LOCK"
)

// Config says where a server keeps its log and who can reach it. Exactly one of
// Dir and Temporary must be set; everything else has a usable zero value.
type Config struct {
	// Dir is where the log is kept. It is made if it is missing.
	Dir string

	// Temporary keeps the log in a new directory that [Server.Stop] removes.
	Temporary bool

	// Listen is a loopback address and port to listen on, such as
	// "127.0.0.1:4222", or "127.0.0.1:0" for any free port. Empty, the server can
	// only be reached from within the process.
	Listen string

	// ConfigFile is a configuration file of nats-server, for accounts, users, TLS and a cluster.
	// What the fields of Config say takes precedence over it. Empty, the server knows
	// no users.
	ConfigFile string

	// MaxBytes bounds what all streams together may keep on disk, in bytes.
	// Defaults to three quarters of the free space.
	MaxBytes int64

	// Logger gets the warnings and errors of the server, and at debug level all
	// that it has to say. Defaults to [slog.Default].
	Logger *slog.Logger
}

// Server is a NATS server in this process. There is no useful zero value.
type Server struct {
	cfg  Config // as the next start of the NATS server needs it
	host string
	port int // 0 for none and -1 for any
	log  *logger
	url  string
	lock *os.File
	dir  string // to remove, or empty

	mu   sync.Mutex // guards nats
	nats *server.Server

	endMending context.CancelFunc
	mending    sync.WaitGroup

	stop sync.Once
	err  error // of the stop; written once, before stop is done
}

// Start starts a server and returns when clients can connect.
//
// It returns a [*lockagent.OptionError] for a wrong cfg, [ErrInUse] if another
// server has the directory, and otherwise what the operating system or the
// server had against it.
func Start(cfg Config) (*Server, error) {
	host, port, err := cfg.check()
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Server{cfg: cfg, host: host, port: port, log: newLogger(cfg.Logger)}
	if cfg.Temporary {
		if s.dir, err = os.MkdirTemp("", "lockagent-nats-"); err != nil {
			return nil, fmt.Errorf("natsserver: %w", err)
		}
		s.cfg.Dir = s.dir
	}
	if err := s.start(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// check returns the address to listen on; the port is 0 for none and -1 for any.
func (cfg *Config) check() (host string, port int, err error) {
	var errs []error
	bad := func(option, format string, args ...any) {
		errs = append(errs, &lockagent.OptionError{Option: option, Reason: fmt.Sprintf(format, args...)})
	}
	if (cfg.Dir == "") != cfg.Temporary {
		bad("Dir", "it is %q while Temporary is %v; set exactly one of them", cfg.Dir, cfg.Temporary)
	}
	if cfg.MaxBytes < 0 {
		bad("MaxBytes", "it is %d; leave it 0 for a part of the free space", cfg.MaxBytes)
	}
	if cfg.Listen != "" {
		addr, err := netip.ParseAddrPort(cfg.Listen)
		if err != nil || !addr.Addr().IsLoopback() {
			bad(
				"Listen",
				"%q is no loopback address with a port; use one such as 127.0.0.1:4222, for the log is not for other hosts",
				cfg.Listen,
			)
		}
		host, port = addr.Addr().String(), int(addr.Port())
		if port == 0 {
			port = server.RANDOM_PORT
		}
	}
	return host, port, errors.Join(errs...)
}

func (s *Server) start() error {
	if err := s.takeDir(s.cfg.Dir); err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	s.endMending = end
	if err := s.launch(ctx); err != nil {
		return err
	}
	if s.port != 0 {
		s.url = s.nats.ClientURL()
		s.port = s.nats.Addr().(*net.TCPAddr).Port
	}
	s.cfg.MaxBytes = s.nats.JetStreamConfig().MaxStore
	s.mending.Go(func() { s.mend(ctx) })
	return nil
}

// launch starts a NATS server that takes the place of s.nats. It gives up when ctx ends.
func (s *Server) launch(ctx context.Context) error {
	options, err := s.cfg.options(s.host, s.port)
	if err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	ns, err := server.NewServer(options)
	if err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	s.mu.Lock()
	s.nats = ns
	s.mu.Unlock()
	ns.SetLoggerV2(s.log, s.cfg.Logger.Enabled(context.Background(), slog.LevelDebug), false, false)
	ns.Start()
	for deadline := time.Now().Add(startTimeout); !ns.ReadyForConnections(10 * time.Millisecond); {
		select {
		case why := <-s.log.fatal:
			return fmt.Errorf("natsserver: start: %s", why)
		case <-ctx.Done():
			return fmt.Errorf("natsserver: start: %w", context.Cause(ctx))
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("natsserver: start: not ready after %v", startTimeout)
		}
	}
	if !ns.JetStreamEnabled() {
		return fmt.Errorf("natsserver: start: JetStream cannot use %q", s.cfg.Dir)
	}
	return nil
}

func (cfg *Config) options(host string, port int) (*server.Options, error) {
	o := &server.Options{}
	if cfg.ConfigFile != "" {
		var err error
		if o, err = server.ProcessConfigFile(cfg.ConfigFile); err != nil {
			return nil, err
		}
	}
	o.ServerName = cmp.Or(o.ServerName, "lockagent")
	o.Host, o.Port, o.DontListen = host, port, port == 0
	o.NoSigs = true // the process handles its own signals
	o.JetStream, o.DisableJetStreamBanner = true, true
	o.StoreDir = cfg.Dir
	o.JetStreamMaxMemory, o.JetStreamMaxStore = 64<<20, cfg.MaxBytes
	o.SyncInterval = syncInterval
	return o, nil
}

// takeDir locks the store directory until the server has stopped or the process
// has died.
func (s *Server) takeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	if err := filelock.Lock(f); err != nil {
		_ = f.Close() // nothing was written
		if errors.Is(err, filelock.ErrLocked) {
			return fmt.Errorf("%w: %s", ErrInUse, dir)
		}
		return fmt.Errorf("natsserver: lock %s: %w", f.Name(), err)
	}
	s.lock = f
	return nil
}

// InProcessConn returns a new connection to the server that uses no network.
// It returns an error once the server is stopped, and while it starts anew.
func (s *Server) InProcessConn() (net.Conn, error) { return s.server().InProcessConn() }

func (s *Server) server() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nats
}

// URL is the address for clients outside the process, or empty if the server
// does not listen.
func (s *Server) URL() string { return s.url }

// Stop disconnects the clients, writes the log to disk and returns when the last
// goroutine of the server is gone. Repeated calls return the same error.
func (s *Server) Stop() error {
	s.stop.Do(func() {
		if s.endMending != nil {
			s.endMending()
		}
		s.mending.Wait()
		if s.nats != nil {
			s.nats.Shutdown()
			s.nats.WaitForShutdown()
		}
		// The file stays: removing it would let two servers lock two files of
		// the same name.
		if s.lock != nil {
			s.err = filelock.Close(s.lock)
		}
		if s.dir != "" {
			s.err = errors.Join(s.err, os.RemoveAll(s.dir))
		}
	})
	return s.err
}
