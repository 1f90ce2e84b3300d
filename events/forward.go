package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
)

// ForwardConfig says what a [Forwarder] forwards, and to where. From and To must say how to reach
// NATS. Everything else has a usable zero value.
type ForwardConfig struct {
	// From has the stream to read: that of a host, for example.
	From ReaderConfig

	// To has the stream that gets a copy: that of the hub. It should allow atomic batches, as
	// one that a forwarder makes does. Otherwise each message costs a round trip. The hub must
	// run nats-server 2.11 or later. If its Prefix is another than that of From, the subjects of
	// the copies begin with it.
	To ReaderConfig

	// MaxBytes and MaxAge bound the stream of the hub if this forwarder is the one who makes it,
	// as those of a [Config] do. An existing stream is left as it is.
	MaxBytes int64
	MaxAge   time.Duration

	// Logger gets what goes wrong. Defaults to [slog.Default].
	Logger *slog.Logger
}

// check returns everything that is wrong with cfg, and sets its defaults.
func (cfg *ForwardConfig) check() error {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	var errs []error
	for _, end := range []struct {
		name string
		*ReaderConfig
	}{{"From", &cfg.From}, {"To", &cfg.To}} {
		if end.Logger == nil {
			end.Logger = cfg.Logger
		}
		if end.Stream == "" {
			end.Stream = DefaultStream
		}
		if end.Prefix == "" {
			end.Prefix = DefaultPrefix
		}
		if err := errors.Join(end.Connection.check(), checkStream(end.Stream), checkPrefix(end.Prefix)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", end.name, err))
		}
	}
	if cfg.MaxBytes < -1 || cfg.MaxAge < 0 {
		errs = append(errs, &lockagent.OptionError{Option: "MaxBytes or MaxAge",
			Reason: fmt.Sprintf("%d bytes and %v cannot bound a stream", cfg.MaxBytes, cfg.MaxAge)})
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	return errors.Join(errs...)
}

// ForwardStats counts messages since the forwarder was made. A message has one record or several.
type ForwardStats struct {
	Forwarded uint64 // the hub said that it stored them
	Present   uint64 // not forwarded: the hub had them
	Foreign   uint64 // not forwarded: they are not from a [Publisher]
	Refused   uint64 // not forwarded: too large for the hub
	Discarded uint64 // not forwarded: the source removed them before

	// Missing is which records were refused or discarded, as far as their numbers are known:
	// the numbers that an agent's messages leave out where some were refused or discarded. Some
	// of them may have been dropped by the agent itself. At most the latest 100 are kept.
	Missing []Gap

	// Conflicts counts how often another program added to the agents' records in the hub while
	// we did: a second forwarder of the same stream, for example. That does no harm but costs time.
	Conflicts uint64

	// Behind is how many messages of the source the hub lacked when the last one was forwarded.
	Behind uint64

	// Err is why nothing is being forwarded, or nil.
	Err error
}

// maxMissing bounds [ForwardStats.Missing].
const maxMissing = 100

// Forwarder copies the messages of one stream to another: in order, and each of them once. It must
// be made by [NewForwarder]. Stats may be called at any time. Run must be called once.
//
// # How it resumes
//
// A forwarder keeps no state of its own. Each copy in the hub has a header that says where the
// message stands in the source. So a forwarder asks the hub for its last message of each agent, and
// goes on behind the last of these places. It does so at its start and after anything that went
// wrong. It does not matter how long that took.
//
// # Why nothing is stored twice
//
// The hub stores a message only if its last message of the same agent is still the one that the
// forwarder knows of. It stores a batch of messages as a whole or not at all. Therefore the hub has
// the beginning of the source at any moment, in its order and without holes. Messages that a dead
// connection delivers late are refused. So are those of a second forwarder of the same stream: the
// two of them take turns.
//
// # What is lost
//
// A stream that is full discards its oldest messages, also those that were not forwarded yet. The
// hub is told: see [Forwarder.Run].
type Forwarder struct {
	cfg    ForwardConfig
	limit  int          // how many messages to send in one batch; only Run uses it
	seen   knownAgents  // only Run uses it
	warned bool         // only Run uses it: the hub takes no batches
	mu     sync.Mutex   // guards what follows
	stats  ForwardStats // Missing is copied when it is changed
}

// Limits of a batch. The server's own limit is 1000 messages.
const (
	forwardBatch      = 500
	forwardBatchBytes = 1 << 20
)

// NewForwarder returns a forwarder that does nothing until it is run.
//
// It returns a [*lockagent.OptionError] or [ErrBadURL] for a wrong cfg.
func NewForwarder(cfg ForwardConfig) (*Forwarder, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Forwarder{cfg: cfg, limit: 1}, nil
}

// Run forwards until ctx ends, and returns the cause of ctx. Neither end has to be there when it
// begins. What goes wrong is logged and in Stats, and tried again. Only a source and a hub that are
// the same stream make Run return earlier, with a [*lockagent.OptionError].
//
// If messages are refused or discarded, the hub gets three records of an agent that stands for the
// source: an EventAgentStarted with the host of the forwarder, an EventDropped and an
// EventAgentStopped. The numbers that are missing before the EventDropped are as many as the
// messages. Nobody knows their kinds, so an audit of the hub names the gap and its verdict is
// lower. A gap is told before the message that follows it.
func (f *Forwarder) Run(ctx context.Context) error {
	backoff := minBackoff
	for {
		before := f.Stats().Forwarded
		err := f.session(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, lockagent.ErrBadOption) {
			return err
		}
		f.stall(err)
		// A batch that fails may have one message that the hub will not take, or be too much for
		// a slow line. So the next session begins with one message at a time.
		f.limit = 1
		if f.Stats().Forwarded > before {
			backoff = minBackoff
		}
		select {
		case <-time.After(backoff/2 + rand.N(backoff)): // many forwarders lose one hub at once
			backoff = min(2*backoff, maxBackoff)
		case <-ctx.Done():
		}
	}
}

// Stats returns the counts as they are now.
func (f *Forwarder) Stats() ForwardStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// count changes the counts.
func (f *Forwarder) count(change func(*ForwardStats)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.stats)
}

// stall notes why nothing is forwarded. It logs the first reason, and those that follow it only for
// those who look for them.
func (f *Forwarder) stall(err error) {
	f.mu.Lock()
	first := f.stats.Err == nil
	f.stats.Err = err
	f.mu.Unlock()
	if first {
		f.cfg.Logger.Warn("events: nothing is forwarded until this is over; events wait in their stream", "stream", f.cfg.From.Stream, "err", err)
	} else {
		f.cfg.Logger.Debug("events: still nothing is forwarded", "stream", f.cfg.From.Stream, "err", err)
	}
}

// flows notes that there is nothing that keeps us from forwarding.
func (f *Forwarder) flows() {
	f.mu.Lock()
	was := f.stats.Err
	f.stats.Err = nil
	f.mu.Unlock()
	if was != nil {
		f.cfg.Logger.Info("events: forwarding again", "stream", f.cfg.From.Stream)
	}
}

// miss notes which records of an agent are missing.
func (f *Forwarder) miss(g Gap) {
	f.cfg.Logger.Warn("events: records were not forwarded", "agent", g.Agent, "epoch", g.Epoch, "first", g.First, "last", g.Last)
	f.count(func(s *ForwardStats) {
		kept := s.Missing[max(0, len(s.Missing)-maxMissing+1):]
		s.Missing = append(append(make([]Gap, 0, len(kept)+1), kept...), g)
	})
}

// knownAgents is which agents have messages in one source.
type knownAgents struct {
	source string // its origin
	ids    map[lockagent.AgentID]bool
}

// agentSubjects returns the subjects of all messages of an agent in the hub.
func (f *Forwarder) agentSubjects(agent lockagent.AgentID) string {
	return f.cfg.To.Prefix + "." + string(agent) + ".>"
}

// parseSource returns the agent that a subject of the source names, and what follows the prefix. It
// returns false if it is not the subject of an agent.
func (f *Forwarder) parseSource(subject string) (agent lockagent.AgentID, rest string, ok bool) {
	rest, ok = strings.CutPrefix(subject, f.cfg.From.Prefix+".")
	name, _, more := strings.Cut(rest, ".")
	agent = lockagent.AgentID(name)
	return agent, rest, ok && more && validAgent(agent)
}
