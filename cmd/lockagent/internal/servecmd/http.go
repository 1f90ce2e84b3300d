//go:build linux

package servecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/telemetry"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/daemon/socket"
)

// status is the health of the daemon, for those who ask over HTTP. Before it serves, it is alive and not ready.
type status struct {
	daemon  atomic.Pointer[daemon.Daemon]
	waiting atomic.Pointer[error] // what the start waits for
}

// waits says what keeps the daemon from its start.
func (s *status) waits(err error) { s.waiting.Store(&err) }

// serves says which daemon it is.
func (s *status) serves(d *daemon.Daemon) { s.daemon.Store(d) }

// ready returns why no lock can be granted at the moment, or nil.
func (s *status) ready(ctx context.Context) error {
	if d := s.daemon.Load(); d != nil {
		return d.Ready(ctx)
	}
	if err := s.waiting.Load(); err != nil {
		return fmt.Errorf("the daemon waits for Redis: %w", *err)
	}
	return errors.New("the daemon starts")
}

// notReady begins the answer of a daemon that can grant no lock.
const notReady = "not ready"

// route adds what is asked over HTTP by anybody. Why a lock cannot be granted is for the operator alone: it has paths,
// addresses and errors.
func (s *status) route(mux *http.ServeMux) { s.routeWith(mux, func(error) string { return notReady }) }

// routeForOperator is route that also says why.
func (s *status) routeForOperator(mux *http.ServeMux) {
	s.routeWith(mux, func(err error) string { return notReady + ": " + err.Error() })
}

// routeWith is route that says the text of an error.
func (s *status) routeWith(mux *http.ServeMux, text func(error) string) {
	// The write fails if the client has gone.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.ready(r.Context()); err != nil {
			http.Error(w, text(err), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok") // likewise
	})
}

// openTelemetry begins what the settings and the environment want to know of the daemon.
func (s *server) openTelemetry() error {
	_, sdk, err := telemetry.Start(s.cmd, s.logger, s.settings().Metrics.Listen, s.access, s.status.route)
	s.telemetry = sdk
	s.onClose(func() error {
		sdk.Close()
		return nil
	})
	if err == nil && sdk.URL != "" {
		s.tell("Metrics: "+sdk.URL+"\n", "metrics", "url", sdk.URL)
	}
	return err
}

// Bounds of the operator's socket.
const (
	operatorReadTime = 10 * time.Second // for a request; a profile takes as long as it is asked to
	operatorEndTime  = time.Second      // for answers that are under way at the end
)

// settingsPath is where the operators of a daemon find its settings. A URL in them may have a password.
const settingsPath = "/settings"

// openOperator serves profiles, the settings and the health of the daemon, on a socket for its user and root.
func (s *server) openOperator() error {
	path := s.settings().Operator.Socket
	if err := s.makeSocketDir("operator.socket", path); err != nil {
		return err
	}
	listener, err := socket.Listen(socket.Config{Path: path, Mode: 0o600, Remade: s.remade("operator's socket", path)})
	if errors.Is(err, socket.ErrTaken) {
		return &cli.Failure{
			Code: cli.ExitFailed, Err: err, Try: "lockagent serve --operator-socket " + cli.ShellWord(path+"2"),
		}
	}
	if err != nil {
		return &cli.Failure{Code: cli.ExitFailed, Err: err}
	}
	mux := http.NewServeMux()
	s.status.routeForOperator(mux)
	mux.HandleFunc("GET "+settingsPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(s.settings()) // a client that has gone
	})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	s.onClose(serveHTTP(listener, mux))
	return nil
}

// serveHTTP serves requests until the function that it returns is called.
func serveHTTP(listener net.Listener, handler http.Handler) (end func() error) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: operatorReadTime}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), operatorEndTime)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // what still runs has had its time
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
}
