package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/errgroup"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/tracing"
)

// Work is what every agent does.
type Work struct {
	Workers int
	Locks   int
	Think   time.Duration // inside the critical section
	Lease   time.Duration
	NoLocks bool // enter the critical section without being granted the lock
}

// names are the locks that the workers contend for. Demonstrations that share a
// store contend for the same ones.
func (w Work) names() []lockagent.Name {
	names := make([]lockagent.Name, w.Locks)
	for i := range names {
		names[i] = lockagent.Name(fmt.Sprintf("lockagent/demo/%d", i+1))
	}
	return names
}

// publishTime bounds how long an agent that has stopped waits for the event log to
// take its last events.
const publishTime = 15 * time.Second

// agent is one agent in this process, with its workers.
type agent struct {
	agentID  lockagent.AgentID
	work     Work
	resource counters
	tally    *tally
	tracer   trace.Tracer

	// Without locks an agent has none of these.
	store     lockagent.Store
	publisher *natslog.Publisher
	locks     *channelapi.Locks
}

// eventLog is where the events of an agent go.
type eventLog struct {
	natslog.Connection
	Stream, Prefix string
	Replicas       int
	MaxBytes       int64
	MaxAge         time.Duration
	Own            bool // nobody uses it but this demonstration
}

func (l eventLog) open() (*natslog.Reader, error) {
	return natslog.OpenReader(natslog.ReaderConfig{Connection: l.Connection, Stream: l.Stream, Prefix: l.Prefix})
}

// newAgent makes an agent that works on resource. It takes over the store, which
// is nil if the work is done without locks.
func newAgent(
	work Work, resource counters, store lockagent.Store, log eventLog, telemetry tracing.Config,
) (*agent, error) {
	a := &agent{agentID: lockagent.NewAgentID(), work: work, resource: resource, tally: newTally()}
	if telemetry.TracerProvider == nil {
		telemetry.TracerProvider = noop.NewTracerProvider()
	}
	a.tracer = telemetry.TracerProvider.Tracer("github.com/lockagent/lockagent/cmd/lockagent")
	if work.NoLocks {
		return a, nil
	}
	a.store = store
	cfg := natslog.Config{
		Connection: log.Connection, Stream: log.Stream, Prefix: log.Prefix, Agent: a.agentID,
		Replicas: log.Replicas, MaxBytes: log.MaxBytes, MaxAge: log.MaxAge,
		Sending: tracing.Sending(cmp.Or(log.Stream, natslog.DefaultStream), tracing.Config{
			TracerProvider: telemetry.TracerProvider, Address: natsAddress(log.URL),
		}),
	}
	if log.Own {
		cfg.MaxBytes = -1 // what is removed to make room cannot be audited
	}
	var err error
	a.publisher, err = natslog.NewPublisher(cfg)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	a.locks, err = channelapi.New(channelapi.Config{
		ID:       a.agentID,
		Store:    countedStore{tracing.Store(store, telemetry), a.tally},
		Recorder: countedRecorder{tracing.Recorder(a.publisher, telemetry), a.tally},
		Logger:   slog.New(slog.DiscardHandler), // its defects are the errors of its requests, which end the demonstration
		Lease:    work.Lease,
	})
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (a *agent) id() lockagent.AgentID { return a.agentID }

// run works until ctx ends, and returns when everything was given back and
// published. An error is one that no later request can do without.
func (a *agent) run(ctx context.Context) error {
	workers, ctx := errgroup.WithContext(ctx)
	names := a.work.names()
	for range a.work.Workers {
		workers.Go(func() error {
			for ctx.Err() == nil {
				if err := a.turn(ctx, names[rand.IntN(len(names))]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return errors.Join(workers.Wait(), a.close())
}

// turn adds one to the counter of a lock. Its span says what the lock was wanted for: those of the
// request and of the hold are below it.
func (a *agent) turn(ctx context.Context, name lockagent.Name) (err error) {
	ctx, span := a.tracer.Start(ctx, "update")
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}()
	if a.work.NoLocks {
		_, err := a.update(ctx, name, 0)
		return err
	}
	asked := time.Now()
	g := <-a.locks.Lock(string(name)).AcquireAsync(ctx)
	switch err := g.Err(); {
	case err == nil:
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, lockagent.ErrNotGranted): // this process was held up for so long that the grant was taken back
		return nil
	default:
		return err
	}
	a.tally.granted(time.Since(asked))

	finished, failed := a.update(g.Context(ctx), name, g.Token())

	// A store that is gone does not hold this up for longer than its own bounds.
	err = <-g.ReleaseAsync(ctx)
	lost, isLost := errors.AsType[*lockagent.LostError](err)
	switch {
	case isLost:
		span.SetStatus(codes.Error, lost.Error())
		a.tally.add(func(s *Stats) { s.Losses[lost.Reason.String()]++ })
		err = nil
	case !finished && failed == nil:
		a.tally.add(func(s *Stats) { s.Unfinished++ })
	}
	if errors.Is(err, lockagent.ErrUnconfirmed) {
		a.tally.add(func(s *Stats) { s.Unconfirmed++ })
		err = nil
	}
	return errors.Join(failed, err)
}

// update is the critical section. It is not finished if ctx ended: because the lock
// is lost, or the demonstration over.
func (a *agent) update(ctx context.Context, name lockagent.Name, token lockagent.Token) (finished bool, err error) {
	value, err := a.resource.read(name, token)
	if err == nil {
		if !pause(ctx, a.work.Think) {
			return false, nil
		}
		err = a.resource.write(name, token, value+1)
	}
	if errors.Is(err, errStale) { // the resource has counted it
		err = nil
	}
	return true, err
}

// pause reports whether d passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (a *agent) close() error {
	if a.store == nil {
		return nil
	}
	var errs []error
	if a.locks != nil {
		// What a store that is gone was not told runs out with its lease.
		if err := a.locks.Close(); !errors.Is(err, lockagent.ErrUnconfirmed) {
			errs = append(errs, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), publishTime)
	defer cancel()
	_ = a.publisher.Close(ctx) // its statistics tell what is missing
	return errors.Join(append(errs, a.store.Close())...)
}

// stats tells what the agent has done so far.
func (a *agent) stats() Stats {
	s := a.tally.read()
	if a.publisher != nil {
		p := a.publisher.Stats()
		s.Published, s.Records, s.Dropped, s.Unpublished = p.Published, p.Records, p.Dropped, p.Queued
	}
	return s
}
