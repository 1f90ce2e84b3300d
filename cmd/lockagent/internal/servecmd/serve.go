//go:build linux

package servecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel/propagation"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/telemetry"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/config"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/journal"
	"github.com/lockagent/lockagent/internal/daemon/socket"
	"github.com/lockagent/lockagent/internal/daemon/state"
)

// NewServe makes the verb serve.
func NewServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Hold locks for all programs of this host",
		Long: `Serve is the daemon of a host. It holds locks for programs in any language, and for
shell scripts. They reach it over a Unix socket. What a program holds is released when the
program ends, however it ends.

It needs no configuration. Without --redis the locks are those of this host alone. The events
are in a log on this host, and with --nats also in that of a hub. A setting need not be a flag:
see lockagent config.

An interrupt, or SIGTERM, ends the daemon, and the next one goes on with its claims. With
--drain-then release it drains first: no new claims, and time for those that are left. A
second interrupt ends that. SIGHUP has it read the configuration file again.`,
		Example: "  lockagent serve\n  lockagent serve --redis " + cli.ExampleRedis,
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return serve(cmd) },
	}
	addSettings(cmd)
	return cmd
}

// SocketName is what systemd calls the socket that it listens on for the daemon.
const SocketName = "lockagent"

// server is the parts of a daemon, in the order in which they begin.
type server struct {
	cmd    *cobra.Command
	config atomic.Pointer[config.Config] // a reload replaces it
	stderr io.Writer
	level  slog.LevelVar
	logger *slog.Logger

	state     *state.Dir
	journal   *journal.Journal
	before    journal.Recovered
	agent     lockagent.AgentID
	telemetry *telemetry.SDK
	status    status
	listener  net.Listener // of the clients, who wait until the daemon serves
	log       *hostLog     // nil if it cannot be used
	store     lockagent.Store
	numbers   *daemon.Remembered // the same, if it is in memory
	where     string             // the locks are
	access    *access.Access
	web       net.Listener // of the live page, or nil
	daemon    *daemon.Daemon
	ended     bool // the claims are released, or left to the next daemon

	drained time.Time      // when the time for the drain is over; zero until it has begun
	closers []func() error // of the parts; the last one is called first
}

// serve runs the daemon until it is asked to end.
func serve(cmd *cobra.Command) (err error) {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP) // one that comes too early waits
	defer signal.Stop(reload)
	s, err := newServer(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, begin := range s.parts() {
		if err := begin(); errors.Is(err, errAsked) {
			s.notify("STOPPING=1")
			return nil
		} else if err != nil {
			return err
		}
	}
	s.tell("Ready: "+s.daemon.Address()+", with the locks in "+s.where+"\nTry: curl --unix-socket "+
		cli.ShellWord(s.daemon.Address())+
		" --json '{}' http://localhost/lockagent.v1.LookService/List\n",
		"ready", "socket", s.daemon.Address(), "locks", s.where, "state", s.state.Path(), "agent", s.agent)
	s.notify("READY=1", "STATUS=Serving "+s.daemon.Address())
	for {
		select {
		case <-reload:
			s.reload()
			continue
		case <-s.daemon.IdentityTaken():
			return s.refused()
		case <-cmd.Context().Done():
		case <-s.daemon.Served():
		}
		return s.drain()
	}
}

// errAsked ends a start during which somebody has asked the daemon to end.
var errAsked = errors.New("the daemon was asked to end")

// newServer reads the settings. Nothing has begun.
func newServer(cmd *cobra.Command) (*server, error) {
	settings, err := loadSettings(cmd)
	if err != nil {
		return nil, err
	}
	s := &server{cmd: cmd}
	s.config.Store(settings)
	s.level.Set(levelOf(settings))
	queue := newLogQueue(cmd.ErrOrStderr(), newDaemonLogger(cmd.ErrOrStderr(), settings.Settings.Log.Format, &s.level))
	s.onClose(func() error {
		queue.close()
		return nil
	})
	s.stderr = queue
	s.logger = newDaemonLogger(s.stderr, settings.Settings.Log.Format, &s.level)
	return s, nil
}

// parts begin the daemon, in this order. What others may have taken comes before the claims go on.
func (s *server) parts() []func() error {
	return []func() error{
		s.openState, s.openAccess, s.openTelemetry, s.openOperator, s.openSocket, s.openWeb, s.openStore, s.openLog,
		s.startDaemon, s.awaitIdentity, s.measure, s.beat, s.servePage,
	}
}

// settings are those that count now.
func (s *server) settings() *config.Settings { return &s.config.Load().Settings }

// onClose adds what ends a part.
func (s *server) onClose(end func() error) { s.closers = append(s.closers, end) }

// close ends all parts that have begun.
func (s *server) close() error {
	var errs []error
	for _, end := range slices.Backward(s.closers) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// drain ends the daemon. It leaves the claims to the next one at once: clients shall not wait for that. If the claims
// are to be released, it first waits for them to end.
func (s *server) drain() error {
	timeout := s.settings().Drain.Timeout
	s.ended, s.drained = true, time.Now().Add(timeout)
	if s.settings().Drain.Then == config.KeepClaims {
		s.notify("STOPPING=1", "STATUS=Leaving the claims to the next daemon")
		if n := s.daemon.Counts(); n.Held+n.Waiting > 0 {
			s.tell(fmt.Sprintf("Leaving to the next daemon: %d claims hold locks, and %d wait.\n", n.Held, n.Waiting),
				"leaving", "held", n.Held, "waiting", n.Waiting)
		}
		return s.leave()
	}
	s.notify("STOPPING=1", "STATUS=Waiting for claims to end",
		fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (timeout+extendStop).Microseconds()))
	if n := s.daemon.Counts(); n.Held+n.Waiting > 0 {
		s.tell(
			fmt.Sprintf(
				"Draining for up to %v: %d claims hold locks, and %d wait. Interrupt again to end at once.\n", timeout, n.Held,
				n.Waiting,
			),
			"draining", "timeout", timeout, "held", n.Held, "waiting", n.Waiting,
		)
	}
	ctx, cancel := context.WithDeadline(context.Background(), s.drained)
	defer cancel()
	return s.daemon.Shutdown(ctx)
}

// extendStop is for how long systemd waits for the end of the daemon after the time for its drain. It is longer than
// the last events take.
const extendStop = 3 * PublishTime

// leave leaves the claims, and the socket, to the next daemon.
func (s *server) leave() error {
	socket.Keep(s.listener)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	return s.daemon.Leave(over)
}

// tell tells whoever started the daemon by hand, or the log if programs read it.
func (s *server) tell(text, event string, attributes ...any) {
	if s.settings().Log.Format == config.JSONLog {
		s.logger.Info(event, attributes...)
		return
	}
	fmt.Fprint(s.stderr, text)
}

// notify tells systemd, if that runs the daemon.
func (s *server) notify(states ...string) {
	if err := socket.Notify(states...); err != nil {
		s.logger.Warn("systemd does not know the state of the daemon", "error", err)
	}
}

// beat tells systemd that the daemon is alive, for as long as requests get their answers.
func (s *server) beat() error {
	every := socket.WatchdogEvery()
	if every == 0 {
		return nil
	}
	s.notify("WATCHDOG=1")
	life, stop := context.WithCancel(context.Background())
	ticker, stopped := time.NewTicker(every), make(chan struct{})
	go func() {
		defer close(stopped)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				if s.daemon.Alive(life) {
					s.notify("WATCHDOG=1")
				}
			case <-life.Done():
				return
			}
		}
	}()
	s.onClose(func() error {
		stop()
		<-stopped
		return nil
	})
	return nil
}

// openState takes the state directory.
func (s *server) openState() error {
	dir, err := state.Open(s.settings().StateDir)
	if used, ok := errors.AsType[*state.InUseError](err); ok {
		try := "lockagent serve --state-dir " + cli.ShellWord(used.Path+"2") + " --socket " +
			cli.ShellWord(s.settings().Socket.Path+"2")
		return &cli.Failure{Code: cli.ExitFailed, Err: err, Try: try}
	}
	if err != nil {
		return &cli.Failure{Code: cli.ExitFailed, Err: err, Try: "lockagent serve --state-dir DIRECTORY"}
	}
	s.state = dir
	s.onClose(dir.Close)
	return s.openJournal()
}

// openJournal reads what the daemon before has left. The agent has the same identity as before.
func (s *server) openJournal() error {
	var err error
	if s.journal, s.before, err = journal.Open(s.state.Journal()); err != nil {
		return &cli.Failure{Code: cli.ExitFailed, Err: err, Try: setAside(err, s.state.Journal())}
	}
	s.onClose(s.journal.Close)
	if s.before.Agent != nil {
		s.agent = s.before.Agent.ID
	}
	if s.agent == "" {
		s.agent = s.newAgentID()
	}
	return nil
}

// setAside is the command that moves a journal away which this version cannot read, or empty for another error. The
// event log stays: it tells the next daemon that there was a journal. A daemon with a new directory would grant the
// same locks again.
func setAside(err error, path string) string {
	_, other := errors.AsType[*journal.FormatError](err)
	_, damaged := errors.AsType[*journal.DamagedError](err)
	if !other && !damaged {
		return ""
	}
	return "mv " + cli.ShellWord(path) + " " + cli.ShellWord(path+".damaged")
}

// errNoJournal ends a start that could make a second holder.
var errNoJournal = errors.New("the journal of the daemon before is missing")

// missJournal is for a daemon without a journal, on an event log that another one has begun. Somebody has removed the
// journal, and programs may have the locks in it.
func (s *server) missJournal() error {
	if s.settings().Redis.URL == "" {
		return &cli.Failure{
			Code: cli.ExitFailed,
			Err: fmt.Errorf(
				"%w: %s; programs may have the locks, semaphores and latches that it had in memory; restore the file, "+
					"or end these programs and begin with an empty directory", errNoJournal, s.state.Journal(),
			),
			Try: "mv " + cli.ShellWord(s.state.Path()) + " " + cli.ShellWord(s.state.Path()+".old") +
				"    (when no program has a lock of this daemon)",
		}
	}
	s.logger.Error(
		"the journal of the daemon before is missing; the locks in it are free when their leases have run out in Redis",
		"journal", s.state.Journal(), "agent", s.agent,
	)
	return nil
}

// newAgentID is an identity that nobody had. It begins with the name of the host.
func (s *server) newAgentID() lockagent.AgentID {
	id := lockagent.NewAgentID()
	if host := s.settings().Host; host != "" {
		id = lockagent.AgentID(host) + "-" + id
	}
	return id
}

// startDaemon serves the clients.
func (s *server) startDaemon() error {
	if err := bootclock.Foreign(bootclock.Clock()); err != nil { // doctor may run where the clock is known
		s.logger.Error("clients refuse locks of this daemon: its deadlines mean nothing to them", "error", err)
	}
	settings := s.settings()
	cfg := daemon.Config{
		Listener: s.listener, ID: s.agent, Store: s.tracedStore(), Recorder: s.tracedRecorder(), Logger: s.logger,
		Journal: s.journal, Recovered: s.before, Grace: settings.Claims.Grace,
		Lease: settings.Lease.Duration, Margin: settings.Lease.Margin, NoRest: !settings.Lease.Rest, Access: s.access,
		MaxRequest: int(settings.Limits.RequestSize), NoCommands: !settings.Claims.Commands,
		Trace: traceOf(autoprop.NewTextMapPropagator()),
	}
	if s.numbers != nil {
		cfg.Numbers = s.numbers
	}
	if s.log != nil {
		cfg.Log = s.log
	}
	var err error
	if s.daemon, err = daemon.Start(cfg); errors.Is(err, lockagent.ErrIdentityInUse) {
		return s.identityInUse()
	} else if err != nil {
		return err
	}
	s.onClose(func() error {
		if s.ended {
			return nil
		}
		return s.leave() // a start that fails costs nobody a lock
	})
	s.status.serves(s.daemon)
	return nil
}

// identityTime is for how long a start waits until it is known whether another daemon has the identity. After that,
// the daemon serves without knowing, and makes no call to the store for the claims of the one before until it knows.
const identityTime = time.Second

// awaitIdentity ends the start of a daemon whose identity another one has that is alive.
func (s *server) awaitIdentity() error {
	select {
	case <-s.daemon.IdentityKnown():
	case <-time.After(identityTime):
	case <-s.cmd.Context().Done():
	}
	select {
	case <-s.daemon.IdentityTaken():
		return s.refused()
	default:
		return nil
	}
}

// refused ends the daemon: another one that is alive has its identity, and came first. All claims are over. Nothing
// is given back in the store.
func (s *server) refused() error {
	s.notify("STOPPING=1", "STATUS=Another daemon has the identity of this one")
	s.ended = true
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.daemon.Shutdown(over) // its error says once more that nothing is given back
	return s.identityInUse()
}

// identityInUse says what to do about another daemon with the identity of this one.
func (s *server) identityInUse() error {
	path := s.state.Path()
	return &cli.Failure{
		Code: cli.ExitFailed, Err: fmt.Errorf("another daemon that is alive has the identity of this one, %s: "+
			"the state directory %s is a copy, or was copied; if it is the copy, move it away, and this daemon is a new agent; "+
			"if it is the original, stop the daemon of the copy first", s.agent, path),
		Try: "mv " + cli.ShellWord(path) + " " + cli.ShellWord(path+".copy"),
	}
}

// traceOf returns what finds the trace of a request in its header.
func traceOf(propagator propagation.TextMapPropagator) func(http.Header) context.Context {
	return func(header http.Header) context.Context {
		return propagator.Extract(context.Background(), propagation.HeaderCarrier(header))
	}
}
