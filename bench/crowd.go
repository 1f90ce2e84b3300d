package main

import (
	"context"
	"fmt"
	"os"
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
	deadlines  bool // measure it a second time, with a deadline for each call
	deadline   time.Duration
	lockKind   string // of lockagent, if it is not plain
	shared     bool   // all may have the lock at a time
	daemon     bool   // lockagent takes part a second time, through the daemon
}

var (
	oneProcess        = crowd{name: "one-64", processes: 1, goroutines: 64, deadlines: true}
	eightProcesses    = crowd{name: "one-8x8", processes: 8, goroutines: 8, daemon: true}
	eightProcesses5ms = crowd{name: "one-8x8-5ms", processes: 8, goroutines: 8, inside: 5 * time.Millisecond}
)

// withDeadlines is the same crowd with a deadline for each call.
func (c crowd) withDeadlines() crowd {
	c.name += "-deadline"
	c.deadlines, c.deadline = false, patience
	return c
}

// of completes the task of one of the crowd's processes.
func (c crowd) of(t task) task {
	t.Goroutines, t.Inside, t.Deadline = c.goroutines, c.inside, c.deadline
	t.LockKind, t.Shared = c.lockKind, c.shared
	return t
}

// load is what one process of a crowd does.
func (t *task) load(inside func()) load {
	return load{
		goroutines: t.Goroutines, window: t.Window, deadline: t.Deadline,
		name:   func(int, int) string { return t.Name },
		inside: inside,
	}
}

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
	t.Role, t.Contender, t.Addr, t.Guard = "contend", kind.Name, s.AddrFor(kind), path
	// What a round leaves behind is not in the way of the next.
	t.Name = fmt.Sprintf("bench/%s/%d", kind.Name, time.Now().UnixNano())
	t.Window = b.window(c)
	t = c.of(t)
	ours := kind.Name == contender.Lockagent
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
	if err := parent.say("ready"); err != nil {
		return err
	}
	if err := parent.hear(new(string)); err != nil {
		return err
	}
	inside := func() { g.hold(func() { occupy(t.Inside) }) }
	if t.Shared {
		inside = func() { occupy(t.Inside) }
	}
	o, err := t.load(inside).run(ctx, c)
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
