package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/tracing"
)

// Config is a demonstration. Work, Agents and Duration are required.
type Config struct {
	Work
	Agents   int
	Duration time.Duration

	// Redis is the URL of the store. Empty, the agents share a store in memory.
	Redis string
	// NATS is the server that keeps the event log. Without a URL, a server inside this
	// process does.
	NATS natslog.Connection
	// Stream, Prefix and what follows are those of the event log. They may be zero.
	Stream, Prefix string
	Replicas       int
	MaxBytes       int64
	MaxAge         time.Duration
	// Keep is the directory in which the server inside this process keeps the event log.
	// Empty, the log is gone in the end.
	Keep string

	// Command makes the command that runs [Join] as a process of its own, once for
	// each agent. Nil, the agents run in this process. Without it, or without
	// locks, Redis may be empty.
	Command func() *exec.Cmd

	// Logger is told of trouble with the store and the event log. Defaults to
	// [slog.Default].
	Logger *slog.Logger

	// Telemetry is where the spans and metrics of agents in this process go.
	Telemetry tracing.Config

	// Watch, if it is not nil, is called with what has been done whenever a time of
	// Every has passed, and when a Phase begins. The calls come one at a time.
	Watch func(Progress)
	Every time.Duration
}

// Progress is how far a demonstration is.
type Progress struct {
	Phase   Phase
	Elapsed time.Duration // of the phase Working
	Stats   Stats
	Locked  bool
	Writes  int64 // that the counters accepted
	Lost    int64 // of them
}

// Phase is a part of a demonstration.
type Phase string

// The phases.
const (
	Opened   Phase = "opened" // everything that is needed is there
	Working  Phase = "working"
	Stopping Phase = "stopping"
	Auditing Phase = "auditing"
)

// member is an agent, in this process or in one of its own.
type member interface {
	id() lockagent.AgentID
	// run works until ctx ends and returns when everything is over.
	run(ctx context.Context) error
	stats() Stats
}

// show is one run of a demonstration.
type show struct {
	cfg      Config
	resource *resource
	log      eventLog        // zero without locks
	hub      *hub            // nil if all is in this process
	memory   *memstore.Store // nil if the store is Redis
	members  []member
	ends     []error // of the members
}

// ErrNoEventLog is returned by [Run] if NATS cannot be reached.
var ErrNoEventLog = errors.New("there is no event log")

// Run runs a demonstration for Duration, or until ctx ends, and sums it up. It
// returns an error if it could not begin: one that is
// [lockagent.ErrStoreUnavailable] if the store cannot be reached, or
// [ErrNoEventLog].
func Run(ctx context.Context, cfg Config) (Summary, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &show{cfg: cfg, resource: newResource(cfg.names(), !cfg.NoLocks)}
	return s.run(ctx)
}

func (s *show) run(ctx context.Context) (summary Summary, err error) {
	// What is opened first is closed last, whatever happens.
	defer func() {
		if s.hub != nil {
			err = errors.Join(err, s.hub.close())
		}
	}()
	var server *natsserver.Server
	defer func() {
		if server != nil {
			err = errors.Join(err, server.Stop())
		}
	}()
	if !s.cfg.NoLocks {
		if server, err = s.openLog(); err != nil {
			return Summary{}, err
		}
	}
	if err := s.gather(ctx); err != nil {
		return Summary{}, err
	}
	if s.cfg.Command == nil { // a process tells of its own
		defer showPublishing(s.total, s.telemetry())()
	}
	s.tell(Opened, 0)
	elapsed := s.perform(ctx)
	summary = s.sum(elapsed)
	if !s.cfg.NoLocks {
		s.tell(Auditing, elapsed)
		// Who stops it early wants to know all the same.
		summary.judge(s.audit(context.WithoutCancel(ctx)))
	}
	return summary, nil
}

// showPublishing shows in the metrics of this process what becomes of its events, until it is stopped.
func showPublishing(stats func() Stats, telemetry tracing.Config) (stop func()) {
	return tracing.Publishing(func() tracing.PublishStats {
		now := stats()
		return tracing.PublishStats{Published: now.Published, Dropped: now.Dropped, Queued: now.Unpublished}
	}, telemetry)
}

// gather makes the members, ready to run, or none.
func (s *show) gather(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			s.dismiss()
		}
	}()
	if s.cfg.Command != nil {
		return s.gatherProcesses(ctx)
	}
	for range s.cfg.Agents {
		var store lockagent.Store
		if !s.cfg.NoLocks {
			if store, err = s.openStore(ctx); err != nil {
				return err
			}
		}
		a, err := newAgent(s.cfg.Work, s.resource, store, s.log, s.telemetry())
		if err != nil {
			return err
		}
		s.members = append(s.members, a)
	}
	return nil
}

func (s *show) gatherProcesses(ctx context.Context) (err error) {
	if !s.cfg.NoLocks { // one clear error is better than one of each process
		store, err := s.openStore(ctx)
		if err != nil {
			return err
		}
		if err := store.Close(); err != nil {
			return err
		}
	}
	if s.hub, err = openHub(s.resource, s.cfg.Agents); err != nil {
		return err
	}
	var started []*process
	for i := range s.cfg.Agents {
		inv := invitation{Work: s.cfg.Work, Index: i, Hub: s.hub.path, Redis: s.cfg.Redis, Log: s.log}
		p, err := startProcess(s.cfg.Command(), s.hub, inv)
		if err != nil {
			return fmt.Errorf("start process %d of %d: %w", i+1, s.cfg.Agents, err)
		}
		s.members = append(s.members, p)
		started = append(started, p)
	}
	for i, p := range started {
		if err := p.await(ctx); err != nil {
			return fmt.Errorf("agent %d cannot begin: %w", i+1, err)
		}
	}
	return nil
}

// dismiss has the members end that were made before something went wrong.
func (s *show) dismiss() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for _, m := range s.members {
		_ = m.run(over) // what went wrong is known
	}
	s.members = nil
}

// perform has the members work, and returns for how long they did once all of
// them have ended.
func (s *show) perform(ctx context.Context) time.Duration {
	ctx, stop := context.WithTimeout(ctx, s.cfg.Duration)
	defer stop()
	began := time.Now()
	var elapsed time.Duration
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		s.watch(ctx, began)
		elapsed = time.Since(began)
		s.tell(Stopping, elapsed)
	}()
	s.ends = make([]error, len(s.members))
	var running sync.WaitGroup
	for i, m := range s.members {
		running.Go(func() { s.ends[i] = m.run(ctx) })
	}
	running.Wait()
	stop()
	<-watching
	return elapsed
}

func (s *show) watch(ctx context.Context, began time.Time) {
	if s.cfg.Watch == nil {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(s.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.tell(Working, time.Since(began))
		case <-ctx.Done():
			return
		}
	}
}

func (s *show) tell(phase Phase, elapsed time.Duration) {
	if s.cfg.Watch == nil {
		return
	}
	p := Progress{Phase: phase, Elapsed: elapsed, Stats: s.total(), Locked: !s.cfg.NoLocks}
	for _, c := range s.resource.state() {
		p.Writes += c.Writes
		p.Lost += c.Lost()
	}
	s.cfg.Watch(p)
}

func (s *show) total() Stats {
	var total Stats
	for _, m := range s.members {
		total = total.add(m.stats())
	}
	return total
}

// audit reads back what the members have published.
func (s *show) audit(ctx context.Context) (audit.Report, error) {
	reader, err := s.log.open()
	if err != nil {
		return audit.Report{}, err
	}
	defer reader.Close()
	var filter events.Filter
	for _, m := range s.members {
		filter.Agents = append(filter.Agents, m.id())
	}
	auditor, before, begun := audit.New(), uint64(0), false
	err = reader.Replay(ctx, natslog.From{}, filter, func(r *events.Record, err error) error {
		// The log of the members begins here, whatever others wrote into the stream before.
		if !begun {
			before, begun = r.Position-1, true
		}
		r.Position -= before
		return auditor.Visit(r, err)
	})
	if err != nil {
		return audit.Report{}, err
	}
	return auditor.Report(), nil
}
