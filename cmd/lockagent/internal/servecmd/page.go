//go:build linux

package servecmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/telemetry"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/address"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/webui"
)

// openWeb listens for browsers, if the settings say where.
func (s *server) openWeb() (err error) {
	where := s.settings().Web.Listen
	if where == "" {
		return nil
	}
	if s.web, err = net.Listen("tcp", where); err != nil {
		return &cli.Failure{
			Code: cli.ExitFailed, Err: fmt.Errorf("%s: %w", s.place("web.listen"), err),
			Try: "lockagent serve --web 127.0.0.1:0    (takes any free port)",
		}
	}
	s.onClose(func() error { return closeListener(s.web) })
	return nil
}

// servePage serves the live page, which needs the event log.
func (s *server) servePage() error {
	if s.web == nil {
		return nil
	}
	if s.log == nil {
		s.logger.Warn("there is no live page without an event log")
		return s.web.Close()
	}
	name, _, _ := net.SplitHostPort(s.settings().Web.Listen) // it is one, says its setting
	var hub webui.Past
	if s.log.forwarder != nil {
		reader := &hubReader{cfg: s.hub()}
		s.onClose(reader.close)
		hub = reader
	}
	s.daemon.ServePage(daemon.PageConfig{
		Listener: s.web, Log: s.log.reader, Hub: hub, StoreName: s.where,
		Parts:      s.log.parts(address.Redacted(s.settings().NATS.URL)),
		AllowBreak: func() bool { return s.settings().Web.AllowBreak },
		Host:       s.settings().Host, Names: []string{name},
	})
	url := telemetry.URLOf(s.web) + "/"
	s.tell("Page: "+url+"\n", "page", "url", url)
	return nil
}

// hubReader reads the event log of the hub. It connects when somebody wants to read: a daemon does not wait for its
// hub.
type hubReader struct {
	cfg natslog.ReaderConfig

	mu     sync.Mutex
	reader *natslog.Reader // guarded by mu; nil until the hub was there
}

var _ webui.Past = (*hubReader)(nil)

func (h *hubReader) open() (*natslog.Reader, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reader != nil {
		return h.reader, nil
	}
	reader, err := natslog.OpenReader(h.cfg)
	if err == nil {
		h.reader = reader
	}
	return reader, err
}

// State implements [webui.Past].
func (h *hubReader) State(ctx context.Context) (natslog.StreamState, error) {
	reader, err := h.open()
	if err != nil {
		return natslog.StreamState{}, err
	}
	return reader.State(ctx)
}

// Replay implements [webui.Past].
func (h *hubReader) Replay(ctx context.Context, from natslog.From, filter events.Filter, visit events.Visit) error {
	reader, err := h.open()
	if err != nil {
		return err
	}
	return reader.Replay(ctx, from, filter, visit)
}

func (h *hubReader) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reader != nil {
		h.reader.Close()
	}
	return nil
}

// parts returns what says how the event log is, and what copies it to the hub.
func (l *hostLog) parts(hub string) func() []webui.Part {
	return func() []webui.Part {
		local := webui.Part{Name: "Event log", Where: "NATS in this daemon", State: webui.PartGood, Say: "up to date"}
		switch of := l.publisher.Stats(); {
		case of.Err != nil:
			local.State, local.Say = webui.PartBad, of.Err.Error()
		case of.Dropped > 0:
			local.Say = readable.Counted(of.Dropped, "event was dropped", "events were dropped") + " since the start"
		}
		return []webui.Part{local, l.hubPart(hub)}
	}
}

// hubPart says how the forwarder is.
func (l *hostLog) hubPart(hub string) webui.Part {
	if l.forwarder == nil {
		return webui.Part{Name: "NATS", Where: "no hub", State: webui.PartOff, Say: "the events stay on this host"}
	}
	part := webui.Part{Name: "NATS", Where: hub, State: webui.PartGood, Say: "has all events"}
	switch of := l.forwarder.Stats(); {
	case of.Err != nil:
		err := of.Err
		if end, ok := errors.AsType[*natslog.EndError](err); ok {
			err = end.Err
		}
		part.State, part.Say = webui.PartBad, err.Error()
	case of.Behind > 0:
		part.Say = readable.Counted(of.Behind, "message", "messages") + " behind"
	}
	return part
}
