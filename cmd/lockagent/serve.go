//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/internal/address"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/daemon/socket"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/redisstore"
)

// serveFlags are what the daemon is told on the command line.
type serveFlags struct {
	socket, redis string
	nats          natsFlags
	drain         time.Duration
}

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Hold locks for all programs of this host",
		Long: `Serve is the daemon of a host. It holds locks for programs in any language, and for
shell scripts. They reach it over a Unix socket. What a program holds is released when the
program ends, however it ends.

Without --redis the locks are those of this host alone.

The first interrupt, or SIGTERM, drains: no new claims, and time for those that are left. The
second one ends the daemon at once.`,
		Example: "  lockagent serve\n  lockagent serve --redis redis://localhost:6379",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().SortFlags = false
	connectionFlag(cmd, &f.socket, "socket", "`path` of the Unix socket, by default "+rootSocket+" for root, and $XDG_RUNTIME_DIR/lockagent/agent.sock for others")
	connectionFlag(cmd, &f.redis, "redis", "`URL` of the Redis that has the locks, such as redis://localhost:6379")
	cmd.Flags().DurationVar(&f.drain, "drain", 30*time.Second, "`time` for claims to end, when the daemon is asked to end")
	f.nats.addForMakers(cmd, "nats", "`URL` of the NATS server for the event log, by default none")
	return cmd
}

// rootSocket is the socket of a daemon of root.
const rootSocket = "/run/lockagent/agent.sock"

// socketName is what systemd calls the socket that it listens on for the daemon.
const socketName = "lockagent"

func (f *serveFlags) run(cmd *cobra.Command) (err error) {
	logger := newLogger(cmd.ErrOrStderr())
	listener, err := f.listen()
	if err != nil {
		return err
	}
	cfg := daemon.Config{Listener: listener, ID: lockagent.NewAgentID(), Logger: logger}
	store, where, err := f.openStore(cmd.Context())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	cfg.Store = store
	publisher, err := f.openLog(cmd, cfg.ID, logger)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if publisher != nil {
		defer closeLog(publisher, logger)
		cfg.Recorder = publisher
	}
	d, err := daemon.Start(cfg)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	path := listener.Addr().String()
	fmt.Fprintf(cmd.ErrOrStderr(), "Ready: %s, with the locks in %s\nTry: curl --unix-socket %s --json '{}' http://localhost/lockagent.v1.LookService/List\n", path, where, shellWord(path))
	tell(logger, "READY=1", "STATUS=Serving "+path)
	select {
	case <-cmd.Context().Done():
	case <-d.Served():
	}
	tell(logger, "STOPPING=1", "STATUS=Waiting for claims to end")
	if n := d.Counts(); n.Held+n.Waiting > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "Draining for up to %v: %d claims hold locks, and %d wait. Interrupt again to end at once.\n", f.drain, n.Held, n.Waiting)
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.drain)
	defer cancel()
	return d.Shutdown(ctx)
}

// tell tells systemd, if that runs the daemon.
func tell(logger *slog.Logger, state ...string) {
	if err := socket.Notify(state...); err != nil {
		logger.Warn("systemd does not know the state of the daemon", "error", err)
	}
}

// listen listens on the socket that systemd passed, or on the one of the flag.
func (f *serveFlags) listen() (net.Listener, error) {
	switch passed, err := socket.Activated(socketName); {
	case err != nil:
		return nil, &failure{code: exitFailed, err: err}
	case passed != nil:
		return passed, nil
	}
	path := f.socket
	if path == "" {
		var err error
		if path, err = defaultSocket(); err != nil {
			return nil, err
		}
	}
	listener, err := socket.Listen(socket.Config{Path: path})
	if errors.Is(err, socket.ErrTaken) {
		return nil, &failure{exitFailed, err, "lockagent serve --socket " + shellWord(path+"2")}
	}
	if err != nil {
		return nil, &failure{code: exitFailed, err: err}
	}
	return listener, nil
}

// defaultSocket is the socket of a daemon that was not told one. It makes the directory of the socket.
func defaultSocket() (string, error) {
	path, mode := rootSocket, os.FileMode(0o755)
	if os.Geteuid() != 0 {
		runtime := os.Getenv("XDG_RUNTIME_DIR")
		if runtime == "" {
			return "", usage("lockagent serve --socket /tmp/lockagent.sock", "there is no $XDG_RUNTIME_DIR for the socket; give its path")
		}
		path, mode = filepath.Join(runtime, "lockagent", "agent.sock"), 0o700
	}
	if err := os.MkdirAll(filepath.Dir(path), mode); err != nil {
		return "", &failure{exitFailed, err, "lockagent serve --socket /tmp/lockagent.sock"}
	}
	return path, nil
}

// openStore opens the store. where says which it is.
func (f *serveFlags) openStore(ctx context.Context) (store lockagent.Store, where string, err error) {
	if f.redis == "" {
		return memstore.New(), "memory", nil
	}
	where = address.Redacted(f.redis)
	opened, err := redisstore.Open(ctx, f.redis)
	if err != nil {
		return nil, "", fmt.Errorf("--redis %s: %w", where, err)
	}
	return opened, where, nil
}

// openLog opens the event log, or returns nil if there is none.
func (f *serveFlags) openLog(cmd *cobra.Command, agent lockagent.AgentID, logger *slog.Logger) (*events.Publisher, error) {
	if f.nats.URL == "" {
		if name := f.nats.given(cmd); name != "" {
			return nil, usage("lockagent serve --nats "+defaultNATS, "--%s is of no use without --nats", name)
		}
		return nil, nil //nolint:nilnil // the daemon has no event log
	}
	connection := f.nats.Connection
	connection.Logger = logger
	publisher, err := events.NewPublisher(events.Config{
		Connection: connection, Agent: agent, Stream: f.nats.stream, Prefix: f.nats.prefix,
		Replicas: f.nats.replicas, MaxBytes: f.nats.maxBytes, MaxAge: f.nats.maxAge,
	})
	if err != nil {
		return nil, f.nats.failure(cmd, err)
	}
	return publisher, nil
}

// publishTime bounds how long the last events may take.
const publishTime = 10 * time.Second

func closeLog(publisher *events.Publisher, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), publishTime)
	defer cancel()
	if err := publisher.Close(ctx); err != nil {
		logger.Warn("the event log lacks the last events", "error", err)
	}
}
