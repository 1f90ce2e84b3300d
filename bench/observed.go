package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/tracing"
)

// observedLoad is a load that is measured with and without an observer.
type observedLoad struct {
	key      string
	title    string
	load     load
	unrested bool // no lock rests
}

// observedLoads are the loads, beginning with one goroutine. Locks that one goroutine has for itself never rest.
func (b *bench) observedLoads() []observedLoad {
	own := func(goroutines int) load {
		return load{goroutines: goroutines, window: b.plan.ObservedWindow, name: ownName, grace: callsEnd}
	}
	one := load{
		goroutines: 64, window: b.plan.ObservedWindow, name: func(int, int) string { return "bench/one" }, grace: callsEnd,
	}
	return []observedLoad{
		{"own-1", "own lock through Redis, 1 goroutine", own(1), true},
		{"own-64", "own locks through Redis, 64 goroutines", own(64), true},
		{"one-64", "one lock, 64 goroutines", one, false},
	}
}

// beside fills a table of one row with what measure finds of agents at a server, beside an agent that
// nobody observes.
func (b *bench) beside(
	ctx context.Context, t *table, measure func(addr string, bare *contender.Agent, found *series) error,
) error {
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	bare, err := contender.OpenAgent(ctx, s.Addr(), channelapi.Config{}, nil)
	if err != nil {
		return err
	}
	defer bare.Close()
	found := newSeries()
	if err := measure(s.Addr(), bare, found); err != nil {
		return err
	}
	t.Rows = []*row{found.row(contender.Lockagent)}
	return nil
}

// inTurn has a load on two contenders in turn, and adds under key how many times as long a
// cycle takes on the second. What the second has left to do is done before the first goes on.
func (l load) inTurn(
	ctx context.Context, rounds int, bare, observed contender.Contender, rest func(context.Context) error, found *series,
	key string,
) error {
	for i := range 2 * rounds {
		first, second := bare, observed
		if i%2 == 1 { // what the machine does at every other moment must not favour one of them
			first, second = second, first
		}
		rates := make(map[contender.Contender]float64)
		for _, c := range []contender.Contender{first, second} {
			collect()
			o, err := l.run(ctx, c)
			if err != nil {
				return err
			}
			rates[c] = o.rate()
			if err := rest(ctx); err != nil {
				return err
			}
		}
		found.add(key, rates[bare]/rates[observed])
	}
	return nil
}

// journal is an event log in this process, and the agent that publishes to it.
type journal struct {
	*contender.Agent
	server    *natsserver.Server
	publisher *natslog.Publisher
}

// openJournal starts a NATS server with a file store, and opens an agent that publishes to it.
func openJournal(ctx context.Context, addr string) (j *journal, err error) {
	j = new(journal)
	defer func() {
		if err != nil {
			j.close()
		}
	}()
	if j.server, err = natsserver.Start(natsserver.Config{Temporary: true}); err != nil {
		return nil, err
	}
	id := lockagent.NewAgentID()
	j.publisher, err = natslog.NewPublisher(natslog.Config{
		Connection: natslog.Connection{InProcess: j.server}, Agent: id, MaxBytes: -1,
	})
	if err != nil {
		return nil, err
	}
	j.Agent, err = contender.OpenAgent(ctx, addr, channelapi.Config{ID: id, Recorder: j.publisher}, nil)
	return j, err
}

// close ends all that was opened.
func (j *journal) close() {
	if j.Agent != nil {
		j.Agent.Close()
	}
	if j.publisher != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = j.publisher.Close(ctx) // what was dropped is counted
	}
	if j.server != nil {
		_ = j.server.Stop() // its directory is temporary
	}
}

// logged measures what the event log costs.
func (b *bench) logged(ctx context.Context) error {
	t := &table{
		Name:  "events",
		Title: "With the event log: the same load with and without a publisher",
		Notes: []string{
			"The publisher writes to an embedded NATS server with a JetStream in files, in the same process. Both sides take " +
				"turns, and what is queued is published in between; a ratio is that of the time of one cycle.",
			fmt.Sprintf(
				"The last columns are of one lock and 64 goroutines for %v without a pause. Nothing may be dropped.", b.plan.LogFor,
			),
		},
	}
	for _, l := range b.observedLoads() {
		t.Columns = append(t.Columns, column{Key: "x-" + l.key, Title: l.title + ", x without", Spread: true})
	}
	t.Columns = append(t.Columns,
		column{Key: "rate", Title: "grants/s"}, column{Key: "x-long", Title: "x without"},
		column{Key: "records", Title: "events/s"}, column{Key: "dropped", Title: "dropped"})
	return b.beside(ctx, t, func(addr string, bare *contender.Agent, found *series) error {
		j, err := openJournal(ctx, addr)
		if err != nil {
			return err
		}
		defer j.close()
		var without, with contender.Contender
		var one load
		for _, l := range b.observedLoads() {
			without, with, one = bare, b.slow(j.Agent), l.load
			if l.unrested {
				without, with = bare.Unrested(), b.slow(j.Agent.Unrested())
			}
			if err := l.load.inTurn(
				ctx, b.plan.ObservedRounds, without, with, j.publisher.Flush, found, "x-"+l.key,
			); err != nil {
				return fmt.Errorf("%s: %w", l.key, err)
			}
		}
		return j.longest(ctx, one, b.plan.LogFor, without, with, found)
	})
}

// longest has the load on the agent for a long time, between two shorter ones without a log. In the full plan these are
// long enough that a moment in which the machine is slow decides nothing.
func (j *journal) longest(
	ctx context.Context, l load, d time.Duration, bare, slowed contender.Contender, found *series,
) error {
	short := l
	short.window = min(d, max(time.Second, d/6))
	long := l
	long.window = d
	before, err := short.run(ctx, bare)
	if err != nil {
		return err
	}
	was := j.publisher.Stats()
	o, err := long.run(ctx, slowed)
	if err != nil {
		return err
	}
	if err := j.publisher.Flush(ctx); err != nil {
		return err
	}
	now := j.publisher.Stats()
	after, err := short.run(ctx, bare)
	if err != nil {
		return err
	}
	found.add("rate", o.rate())
	found.add("x-long", (before.rate()+after.rate())/2/o.rate())
	found.add("records", float64(now.Published-was.Published)/o.Seconds)
	found.add("dropped", float64(now.Dropped-was.Dropped))
	return nil
}

// traced measures what spans and metrics cost.
func (b *bench) traced(ctx context.Context) error {
	t := &table{
		Name:  "tracing",
		Title: "With spans and metrics: own lock through Redis, 1 goroutine",
		Columns: []column{
			{Key: "x-none", Title: "without an SDK, x without tracing", Spread: true},
			{Key: "x-1", Title: "1 % sampled, x without tracing", Spread: true},
			{Key: "x-all", Title: "and metrics, x without tracing", Spread: true},
		},
		Notes: []string{
			"The goroutine does one cycle with and one without in turn; a ratio is that of the mean times of a cycle, without " +
				"the slowest in a thousand. The sampled spans go to a batch processor, the metrics to a reader that is not asked.",
		},
	}
	spans := trace.NewTracerProvider(
		trace.WithSampler(trace.ParentBased(trace.TraceIDRatioBased(0.01))), trace.WithBatcher(tracetest.NewNoopExporter()),
	)
	defer func() { _ = spans.Shutdown(context.WithoutCancel(ctx)) }()
	metrics := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	return b.beside(ctx, t, func(addr string, bare *contender.Agent, found *series) error {
		for key, cfg := range map[string]tracing.Config{
			"x-none": {},
			"x-1":    {TracerProvider: spans},
			"x-all":  {TracerProvider: spans, MeterProvider: metrics},
		} {
			agent, err := contender.OpenAgent(
				ctx, addr, channelapi.Config{Recorder: tracing.Recorder(nil, cfg)},
				func(store lockagent.Store) lockagent.Store { return tracing.Store(store, cfg) },
			)
			if err != nil {
				return err
			}
			err = b.cycleByCycle(ctx, bare.Unrested(), agent.Unrested(), found, key)
			agent.Close()
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// cycleByCycle adds under key how many times as long a cycle takes on the second of two contenders, in the mean. One
// goroutine does a cycle on each in turn, so each pair meets the same machine. Between two rounds of a load a cycle
// varies much more than by what is looked for here. It is not for background work, which slows both.
func (b *bench) cycleByCycle(ctx context.Context, bare, observed contender.Contender, found *series, key string) error {
	without := cycleOf(ctx, bare, "bench/bare")
	with := b.wasting(cycleOf(ctx, observed, "bench/observed"))
	for range b.plan.ObservedRounds {
		collect()
		var took [2][]float64
		begin := time.Now()
		for n := 0; n < minCycles || time.Since(begin) < b.plan.ObservedWindow; n++ {
			for i := range 2 {
				side := (i + n) % 2 // neither is always the one right behind the other
				start := time.Now()
				if err := [...]func() error{without, with}[side](); err != nil {
					return err
				}
				took[side] = append(took[side], float64(time.Since(start)))
			}
		}
		found.add(key, trimmedMean(took[1])/trimmedMean(took[0]))
	}
	return nil
}

// trimmedMean is the mean without the slowest in a thousand, in which something else had the processor. A cycle
// whose spans are sampled is one in a hundred.
func trimmedMean(took []float64) float64 {
	slices.Sort(took)
	took = took[:len(took)-len(took)/1000]
	sum := 0.0
	for _, t := range took {
		sum += t
	}
	return sum / float64(len(took))
}

// minCycles are done on each side however short a round is.
const minCycles = 100

// cycleOf returns a function that acquires and releases a lock.
func cycleOf(ctx context.Context, c contender.Contender, name string) func() error {
	return func() error {
		held, err := c.Lock(ctx, name)
		if err != nil {
			return err
		}
		return held.Unlock()
	}
}
