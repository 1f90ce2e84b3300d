package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
)

// crowd is who contends for one lock.
type crowd struct {
	name       string
	processes  int
	goroutines int // of each process
	inside     time.Duration
}

var (
	oneProcess        = crowd{name: "one-64", processes: 1, goroutines: 64}
	eightProcesses    = crowd{name: "one-8x8", processes: 8, goroutines: 8}
	eightProcesses5ms = crowd{name: "one-8x8-5ms", processes: 8, goroutines: 8, inside: 5 * time.Millisecond}
)

func (c crowd) title() string {
	who := fmt.Sprintf("%d goroutines of one process", c.goroutines)
	if c.processes > 1 {
		who = fmt.Sprintf("%d processes with %d goroutines each", c.processes, c.goroutines)
	}
	if c.inside == 0 {
		return "One lock, " + who + ", nothing inside"
	}
	return fmt.Sprintf("One lock, %s, %v inside (ideal: %.0f grants/s)", who, c.inside, 1/c.inside.Seconds())
}

// window is how long a round takes.
func (b *bench) window(c crowd) time.Duration {
	switch {
	case c.inside > 0:
		return b.plan.InsideWindow
	case c.processes > 1:
		return b.plan.SharedWindow
	default:
		return b.plan.OneWindow
	}
}

// contended measures one lock that all want. The rounds of the contenders alternate.
func (b *bench) contended(ctx context.Context, c crowd) error {
	t := &table{
		Name:    c.name,
		Title:   c.title(),
		Plotted: "the wait for one lock",
		Notes: []string{
			"A wait that the end of the round cut off counts with its length up to then. A violation of mutual exclusion would have failed the run.",
			"Commands are those that clients sent, see bench/commandstats. The floor cannot wait and is not here.",
		},
		Columns: []column{
			{Key: "rate", Title: "grants/s", Spread: true},
			{Key: "p50", Title: "wait p50 ms"},
			{Key: "p99", Title: "wait p99 ms"},
			{Key: "max", Title: "wait max ms"},
			{Key: "least", Title: "least/mean of goroutines"},
			{Key: "most", Title: "most/mean"},
			{Key: "jain", Title: "Jain"},
			{Key: "p-least", Title: "least/mean of processes"},
			{Key: "p-jain", Title: "Jain of processes"},
			{Key: "sent", Title: "commands/grant"},
			{Key: "failed", Title: "failed waits"},
		},
	}
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	found := make(map[string]*series)
	rounds := b.plan.SharedRounds
	if c.inside > 0 {
		rounds = b.plan.InsideRounds
	}
	for range rounds {
		for _, kind := range contender.Kinds {
			if !kind.Waits || !b.wants(kind) {
				continue
			}
			if found[kind.Name] == nil {
				found[kind.Name] = newSeries()
			}
			o, err := b.crowd(ctx, s, c, kind, task{})
			if err != nil {
				return fmt.Errorf("%s: %w", kind.Name, err)
			}
			found[kind.Name].crowd(o)
		}
	}
	for _, kind := range contender.Kinds {
		if f := found[kind.Name]; f != nil {
			t.Rows = append(t.Rows, f.row(kind.Name))
		}
	}
	return nil
}

// crowdOutcome is what a crowd found.
type crowdOutcome struct {
	outcome       // of all processes; Cycles has the goroutines of one after those of another
	processes int // that share it
	sent      float64
}

// contendReport is what a worker says in the end.
type contendReport struct {
	Outcome  *outcome
	Entered  int64 // also after the window
	Overlaps int64
}

// crowd has processes contend once. The task may set a hand-off budget.
func (b *bench) crowd(ctx context.Context, s *server, c crowd, kind contender.Kind, t task) (*crowdOutcome, error) {
	path := s.file("guard")
	defer func() { _ = os.Remove(path) }()
	g, err := newGuard(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = g.close() }()
	t.Role, t.Contender, t.Addr, t.Guard = "contend", kind.Name, s.Addr(), path
	t.Name = fmt.Sprintf("bench/%s/%d", kind.Name, time.Now().UnixNano()) // what a round leaves behind is not in the way of the next
	t.Goroutines, t.Window, t.Inside = c.goroutines, b.window(c), c.inside
	ours := kind.Family == contender.Lockagent
	if ours {
		t.Waste = time.Duration(b.slowdown * float64(b.grantTimes[c.name]))
	}
	collect()
	var workers []*worker
	defer func() {
		for _, w := range workers { // first all, so that they end together
			w.dismiss()
		}
		for _, w := range workers {
			w.end()
		}
	}()
	for range c.processes {
		w, err := startWorker(ctx, t)
		if err != nil {
			return nil, err
		}
		workers = append(workers, w)
	}
	if err := each(workers, func(w *worker) error { return w.hear(new(string)) }); err != nil {
		return nil, err
	}
	before, err := s.counts()
	if err != nil {
		return nil, err
	}
	if err := each(workers, func(w *worker) error { return w.say("go") }); err != nil {
		return nil, err
	}
	select {
	case <-time.After(t.Window):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	after, err := s.counts()
	if err != nil {
		return nil, err
	}
	all := &crowdOutcome{processes: c.processes, outcome: outcome{Waits: stat.NewHistogram()}}
	var entered, overlaps int64
	err = each(workers, func(w *worker) error {
		var r contendReport
		if err := w.hear(&r); err != nil {
			return err
		}
		all.Cycles = append(all.Cycles, r.Outcome.Cycles...)
		all.Seconds = max(all.Seconds, r.Outcome.Seconds)
		all.Failed += r.Outcome.Failed
		all.Waits.Merge(r.Outcome.Waits)
		if all.Error == "" {
			all.Error = r.Outcome.Error
		}
		entered += r.Entered
		overlaps += r.Overlaps
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := g.check(entered, overlaps); err != nil {
		return nil, err
	}
	if _, known := b.grantTimes[c.name]; ours && !known && all.total() > 0 {
		b.grantTimes[c.name] = time.Duration(float64(time.Second) / all.rate())
	}
	all.sent = float64(after.Since(before).Sent(kind.Sends...)) / float64(max(1, all.total()))
	return all, nil
}

func each(workers []*worker, do func(*worker) error) error {
	for i, w := range workers {
		if err := do(w); err != nil {
			return fmt.Errorf("process %d: %w", i, err)
		}
	}
	return nil
}

// crowd adds what one round found.
func (s *series) crowd(o *crowdOutcome) {
	s.add("rate", o.rate())
	const ms = 1000
	s.add("p50", stat.Us(o.Waits.At(50))/ms)
	s.add("p99", stat.Us(o.Waits.At(99))/ms)
	s.add("max", stat.Us(o.Waits.Max())/ms)
	s.fairness("", o.Cycles)
	perProcess := make([]int64, o.processes)
	for i, n := range o.Cycles {
		perProcess[i*o.processes/len(o.Cycles)] += n
	}
	if o.processes > 1 {
		s.fairness("p-", perProcess)
	}
	s.add("sent", o.sent)
	s.add("failed", float64(o.Failed))
	s.waits.Merge(o.Waits)
	if o.Error != "" {
		s.note = o.Error
	}
}

func (s *series) fairness(prefix string, shares []int64) {
	mean := 0.0
	for _, n := range shares {
		mean += float64(n) / float64(len(shares))
	}
	s.add(prefix+"least", float64(slices.Min(shares))/mean)
	s.add(prefix+"most", float64(slices.Max(shares))/mean)
	jain := stat.Jain(shares)
	if mean == 0 { // nothing is not fair
		jain = math.NaN()
	}
	s.add(prefix+"jain", jain)
}

// contendWorker is one process of a crowd.
func contendWorker(ctx context.Context, t *task, parent *conversation) error {
	g, err := newGuard(t.Guard)
	if err != nil {
		return err
	}
	c, err := t.open(ctx)
	if err != nil {
		return err
	}
	if t.Waste > 0 {
		c = &contender.Slowed{Contender: c, Each: t.Waste}
	}
	l := load{
		goroutines: t.Goroutines, window: t.Window,
		name:   func(int, int) string { return t.Name },
		inside: func() { g.hold(func() { sleep(t.Inside) }) },
	}
	if err := parent.say("ready"); err != nil {
		return err
	}
	if err := parent.hear(new(string)); err != nil {
		return err
	}
	o, err := l.run(ctx, c)
	if err != nil {
		return err
	}
	if err := parent.say(contendReport{Outcome: o, Entered: g.entered.Load(), Overlaps: g.overlap.Load()}); err != nil {
		return err
	}
	_ = parent.hear(new(string)) // the other processes still use the lock; ends with the conversation
	c.Close()
	return g.close()
}
