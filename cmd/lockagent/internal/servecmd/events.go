//go:build linux

package servecmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/config"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/tracing"
)

// hostLog is the event log of this host, and what copies it to the hub.
type hostLog struct {
	server    *natsserver.Server
	publisher *natslog.Publisher
	reader    *natslog.Reader
	forwarder *natslog.Forwarder // nil without a hub
}

// PublishTime bounds how long the last events may take.
const PublishTime = 10 * time.Second

// openLog opens the event log in the state directory. Locks do not wait for it, and a daemon that goes on with the
// claims of another one does without it. The agent has to begin next: its first event has the publisher make the
// stream, and a server that stops meanwhile would leave it open.
func (s *server) openLog() error {
	server, err := s.recoverLog()
	switch {
	case err == nil:
		return s.useLog(server)
	case errors.Is(err, errNoJournal):
		return err
	}
	err = fmt.Errorf("the event log in %s: %w", s.state.Events(), err)
	if s.before.Agent == nil {
		return &cli.Failure{Code: cli.ExitFailed, Err: err, Try: "lockagent doctor"}
	}
	s.nextEpoch(nil) // so that an audit sees that a life has no events
	s.logger.Error("the event log cannot be used, and this daemon records no event; what is held goes on; "+
		"mend the log, and start the daemon anew", "error", err)
	return nil
}

// useLog has the events go to the server, and from there to the hub.
func (s *server) useLog(server *natsserver.Server) (err error) {
	settings := s.settings()
	log := &hostLog{server: server}
	s.onClose(log.server.Stop)
	s.limitLog(log.server)
	s.onClose(func() error { // when the last events are there
		if now, err := look(log.server); err == nil { // what does not answer has been complained about
			if err := s.state.Saw(lastSeen(now)); err != nil {
				s.logger.Warn("the next daemon cannot tell whether the event log loses something until then", "error", err)
			}
		}
		return nil
	})
	local := natslog.Connection{InProcess: log.server, Logger: s.logger}
	if log.reader, err = natslog.OpenReader(natslog.ReaderConfig{Connection: local}); err != nil {
		return fmt.Errorf("the event log: %w", err)
	}
	s.onClose(func() error {
		log.reader.Close()
		return nil
	})
	if settings.NATS.URL != "" {
		if log.forwarder, err = s.newForwarder(local); err != nil {
			return s.badHub(err)
		}
	}
	log.publisher, err = natslog.NewPublisher(natslog.Config{
		Connection: local, Agent: s.agent, Epoch: s.nextEpoch(log.reader),
		MaxBytes: noBound(int64(settings.Events.MaxSize)), MaxAge: settings.Events.MaxAge,
		Sending: tracing.Sending(natslog.DefaultStream, tracing.Config{TracerProvider: s.telemetry.TracerProvider}),
	})
	if err != nil {
		return err
	}
	s.log = log
	if log.forwarder != nil {
		s.onClose(s.forward(log.forwarder))
		s.onClose(s.awaitHub) // when the last events are in the log
	}
	s.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), PublishTime)
		defer cancel()
		if err := log.publisher.Close(ctx); err != nil {
			s.logger.Warn("the event log lacks the last events", "error", err)
		}
		return nil
	})
	return nil
}

// epochRecord counts the starts of the agent in the journal: its identity stays, and its numbers in the event log begin
// anew.
const epochRecord = "daemon/epoch"

// nextEpoch counts a start of the agent. Each start before that has granted something is in the journal. One that could
// not write the journal may be in the event log, which may be nil.
func (s *server) nextEpoch(log *natslog.Reader) uint64 {
	// The journal of an older version has no epoch.
	last, _ := strconv.ParseUint(string(s.before.Records[epochRecord]), 10, 64)
	if log != nil {
		ctx, cancel := context.WithTimeout(context.Background(), PublishTime)
		defer cancel()
		latest, err := log.Latest(ctx, s.agent)
		if err != nil {
			s.logger.Warn("the event log does not tell what it has of this agent", "error", err)
		}
		last = max(last, latest.Epoch)
	}
	epoch := last + 1
	s.journal.Put(epochRecord, strconv.AppendUint(nil, epoch, 10))
	return epoch
}

// limitLog has an event log that exists keep what the settings say now. One that is about to be made gets its limits
// from the publisher. Locks do not depend on it.
func (s *server) limitLog(server *natsserver.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), PublishTime)
	defer cancel()
	want := natslog.Limits{MaxBytes: int64(s.settings().Events.MaxSize), MaxAge: s.settings().Events.MaxAge}
	had, err := natslog.SetLimits(ctx, natslog.ReaderConfig{Connection: natslog.Connection{InProcess: server}}, want)
	switch {
	case errors.Is(err, natslog.ErrNoStream):
	case errors.Is(err, natslog.ErrNoRoom):
		s.logger.Warn("there is no room on the disk for all that the event log may keep; make room there, "+
			"or set a smaller events.max_size and start the daemon anew", "error", err)
	case err != nil && had == want:
		s.logger.Warn("the event log has the limits of the settings, and cannot write them anew; "+
			"see whether its disk is full, or read-only", "error", err)
	case err != nil:
		s.logger.Error(
			"the event log keeps its old limits; set others with events.max_size and events.max_age, and start the daemon anew",
			"error", err,
		)
	case had != want:
		s.logger.Info(
			"the event log has other limits from now on", "old_max_size", config.Size(had.MaxBytes), "max_size",
			s.settings().Events.MaxSize, "old_max_age", had.MaxAge, "max_age", want.MaxAge,
		)
	}
}

// State implements the log of the API. What was recorded before the call is in the log.
func (l *hostLog) State(ctx context.Context) (natslog.StreamState, error) {
	ctx, cancel := context.WithTimeout(ctx, PublishTime)
	defer cancel()
	if err := l.publisher.Flush(ctx); err != nil {
		return natslog.StreamState{}, err
	}
	return l.reader.State(ctx)
}

// Replay implements the log of the API.
func (l *hostLog) Replay(ctx context.Context, from natslog.From, filter events.Filter, visit events.Visit) error {
	return l.reader.Replay(ctx, from, filter, visit)
}

// Tail implements the log of the API.
func (l *hostLog) Tail(ctx context.Context, from natslog.From, filter events.Filter, visit events.Visit) error {
	return l.reader.Tail(ctx, from, filter, visit)
}

// noBound is how package natslog says what the settings call 0.
func noBound(size int64) int64 {
	if size == 0 {
		return -1
	}
	return size
}

// newForwarder returns the forwarder to the hub of the settings.
func (s *server) newForwarder(local natslog.Connection) (*natslog.Forwarder, error) {
	return natslog.NewForwarder(natslog.ForwardConfig{
		Source: natslog.ReaderConfig{Connection: local}, Hub: s.hub(), Logger: s.logger,
	})
}

// hub is where the events of all hosts are.
func (s *server) hub() natslog.ReaderConfig {
	hub := &s.settings().NATS
	connection := hubConnection(hub)
	connection.Logger = s.logger
	return natslog.ReaderConfig{Stream: hub.Stream, Prefix: hub.Prefix, Connection: connection}
}

// hubConnection is how the hub is reached. It has no logger.
func hubConnection(hub *config.NATS) natslog.Connection {
	return natslog.Connection{
		URL: hub.URL, Creds: hub.Creds, Nkey: hub.Nkey, User: hub.User, PasswordFile: hub.PasswordFile,
		TokenFile: hub.TokenFile, CA: hub.CA, Cert: hub.Cert, Key: hub.Key, ServerName: hub.ServerName,
		TLSFirst: hub.TLSFirst, Domain: hub.Domain,
		InboxPrefix: hub.InboxPrefix,
	}
}

// hubSettings has the setting of each option that package natslog may call wrong.
var hubSettings = map[string]string{
	"URL":          "nats.url",
	"Creds":        "nats.creds",
	"Nkey":         "nats.nkey",
	"User":         "nats.user",
	"PasswordFile": "nats.password_file",
	"TokenFile":    "nats.token_file",
	"CA":           "nats.ca",
	"Cert":         "nats.cert",
	"Key":          "nats.key",
	"ServerName":   "nats.server_name",
	"TLSFirst":     "nats.tls_first",
	"Domain":       "nats.domain",
	"InboxPrefix":  "nats.inbox_prefix",
	"Stream":       "nats.stream",
	"Prefix":       "nats.prefix",
}

// badHub has an error about the hub speak of settings.
func (s *server) badHub(err error) error {
	if end, ok := errors.AsType[*natslog.EndError](err); ok {
		err = end.Err
	}
	what := "nats.url"
	if bad, ok := errors.AsType[*lockagent.OptionError](err); ok && hubSettings[bad.Option] != "" {
		what, err = hubSettings[bad.Option], errors.New(bad.Reason)
	}
	return &cli.Failure{
		Code: cli.ExitConfig, Err: fmt.Errorf("%s: %w", s.place(what), err),
		Try: "lockagent serve --nats " + config.Find("nats.url").Example,
	}
}

// forward runs the forwarder until the function that it returns is called. What the hub lacks then is forwarded by the
// next daemon.
func (s *server) forward(f *natslog.Forwarder) (end func() error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	return func() error {
		cancel(errForwarded)
		if err := <-ended; !errors.Is(err, errForwarded) {
			return s.badHub(err)
		}
		return nil
	}
}

// awaitHub waits until the hub has all events, within the time for the drain. It says if the hub does not. A daemon
// that leaves its claims to the next one waits a moment only: the next one goes on with the claims, and with the log.
func (s *server) awaitHub() error {
	until := s.drained
	if moment := time.Now().Add(time.Second); s.settings().Drain.Then == config.KeepClaims && moment.Before(until) {
		until = moment
	}
	state, err := s.log.reader.State(context.Background())
	if err != nil {
		return nil // the log has been complained about
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	if left := s.log.forwarder.Await(ctx, state.Last); left > 0 {
		s.logger.Warn("the hub does not have the last messages of the event log; the next daemon forwards them",
			"at_most", left, "error", s.log.forwarder.Stats().Err)
	}
	return nil
}

// errForwarded ends a forwarder.
var errForwarded = errors.New("the daemon ends")
