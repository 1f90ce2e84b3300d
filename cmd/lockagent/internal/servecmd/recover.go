//go:build linux

package servecmd

import (
	"context"
	"errors"
	"time"

	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon/state"
	"github.com/lockagent/lockagent/internal/natsserver"
)

// recoverLog starts a server on the event log, and says what of the log is not there any more. A log that the server
// does not recognise is set aside, because the server would write over it.
func (s *server) recoverLog() (*natsserver.Server, error) {
	start := func() (*natsserver.Server, error) {
		return natsserver.Start(natsserver.Config{Dir: s.state.Events(), Logger: s.logger})
	}
	before, err := s.state.Seen()
	if err != nil {
		s.logger.Warn("nobody knows whether the event log has lost something", "error", err)
	}
	server, err := start()
	if err != nil {
		return nil, err
	}
	now, err := look(server)
	if s.before.Agent == nil && max(before.Last, now.Last) > 0 {
		if err := s.missJournal(); err != nil {
			return nil, errors.Join(err, server.Stop())
		}
	}
	switch {
	case errors.Is(err, natslog.ErrNoStream) && before.Last > 0:
		if err := server.Stop(); err != nil {
			return nil, err
		}
		aside, err := s.state.SetEventsAside(time.Now())
		if err != nil {
			return nil, err
		}
		s.logger.Error("the event log could not be recovered, and a new one begins; the locks do not depend on it",
			"messages", before.Last, "old log", aside)
		return start()
	case errors.Is(err, natslog.ErrNoStream): // the first daemon, or nothing was ever recorded
		return server, nil
	case err != nil:
		return nil, errors.Join(err, server.Stop())
	case before.Last > 0 && before.Stream != now.ID():
		s.logger.Error("somebody has replaced the event log", "was", before.Stream, "is", now.ID())
	case now.First > now.Last && before.Last > 0 && now.Limits.MaxAge == 0: // only age removes all of them
		s.logger.Error(
			"the event log has lost all of its messages; the locks do not depend on it", "had messages up to", before.Last,
		)
	case now.Last < before.Last:
		s.logger.Error("the event log has lost its end; the locks do not depend on it",
			"had messages up to", before.Last, "has messages up to", now.Last)
	}
	if now.Missing > 0 {
		s.logger.Error(
			"the event log has messages that cannot be read; the locks do not depend on it", "messages", now.Missing,
		)
	}
	return server, nil
}

// look asks what the event log has.
func look(server *natsserver.Server) (natslog.StreamState, error) {
	reader, err := natslog.OpenReader(natslog.ReaderConfig{Connection: natslog.Connection{InProcess: server}})
	if err != nil {
		return natslog.StreamState{}, err
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(context.Background(), PublishTime)
	defer cancel()
	return reader.State(ctx)
}

// lastSeen is what there is to remember.
func lastSeen(s natslog.StreamState) state.Seen { return state.Seen{Stream: s.ID(), Last: s.Last} }
