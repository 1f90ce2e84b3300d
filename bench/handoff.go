package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
)

// The floors of a hand-off.
const (
	floorSum    = "floor"                 // a script's round trip + a message's way
	floorOne    = "floor: one script"     // a script that publishes, until the message is there
	floorAgain  = "floor: and a script"   // the same, and a script by who received it
	floorScript = "floor: only a script"  // the round trip alone
	floorWay    = "floor: only a message" // PUBLISH, until the message is there
)

// handoff measures from the call of Unlock in one process until Lock returns in
// another, which has waited for 30 to 90 ms.
func (b *bench) handoff(ctx context.Context) error {
	t := &table{
		Name:    "handoff",
		Title:   "Hand-off between two processes: the holder's Unlock called until the waiter's Lock returned",
		Plotted: "one hand-off",
		Columns: []column{
			{Key: "n", Title: "n"},
			{Key: "min", Title: "min µs"},
			{Key: "p50", Title: "p50 µs"},
			{Key: "p90", Title: "p90 µs"},
			{Key: "p99", Title: "p99 µs"},
			{Key: "max", Title: "max µs"},
			{Key: "x-p50", Title: "p50 x floor"},
		},
		Notes: []string{
			"Both clocks are CLOCK_MONOTONIC of one machine; the waiter has waited for 30 to 90 ms, chosen anew each time; the floors are measured in turn with the contenders, after the same pauses.",
			"`" + floorSum + "` is what ratios are to: one script call (its round trip in one process) plus one published message received (from the call of PUBLISH until another process has it), measured one after the other and added. " +
				"`" + floorOne + "` is a release script that publishes, from its call until the message is received. `" + floorAgain + "` goes on until the receiver has run a script of its own, as a design has to that wakes a waiter who then tries to acquire.",
		},
	}
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	floors, err := b.startFloors(ctx, s)
	if err != nil {
		return err
	}
	defer floors.end()
	var rows []*row
	for _, kind := range contender.Kinds {
		if !kind.Waits || !b.wants(kind) {
			continue
		}
		n, perFloor := b.plan.HandOffs, 5
		switch kind.Name {
		case contender.Lockagent:
			n, perFloor = 2*n, 2
		case contender.Redsync, contender.Redislock: // they wait for 100 ms and more
			n = b.plan.PollerHandOffs
		}
		found, err := b.handoffs(ctx, s, kind, n, perFloor, floors)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.Name, err)
		}
		rows = append(rows, wayRow(kind.Name, found, floors.sums))
	}
	for _, f := range []struct {
		name string
		ways []time.Duration
	}{{floorSum, floors.sums}, {floorOne, floors.ones}, {floorAgain, floors.agains}, {floorScript, floors.scripts}, {floorWay, floors.messages}} {
		t.Rows = append(t.Rows, wayRow(f.name, f.ways, floors.sums))
	}
	t.Rows = append(t.Rows, rows...)
	return nil
}

// wayRow sums up how long something took.
func wayRow(name string, ways, floor []time.Duration) *row {
	s := newSeries()
	for _, way := range ways {
		s.waits.Record(way)
	}
	base := stat.NewHistogram()
	for _, way := range floor {
		base.Record(way)
	}
	s.add("n", float64(len(ways)))
	s.add("min", stat.Us(s.waits.At(0)))
	for _, p := range []float64{50, 90, 99} {
		s.add(fmt.Sprintf("p%.0f", p), stat.Us(s.waits.At(p)))
	}
	s.add("max", stat.Us(s.waits.Max()))
	s.add("x-p50", float64(s.waits.At(50))/float64(base.At(50)))
	return s.row(name)
}

// handoffs measures n hand-offs, and each floor once for so many of them.
func (b *bench) handoffs(ctx context.Context, s *server, kind contender.Kind, n, perFloor int, floors *floorWorkers) ([]time.Duration, error) {
	t := task{Role: "handoff", Contender: kind.Name, Addr: s.Addr()}
	holder, err := startWorker(ctx, t)
	if err != nil {
		return nil, err
	}
	defer holder.end()
	waiter, err := startWorker(ctx, t)
	if err != nil {
		return nil, err
	}
	defer waiter.end()
	var ways []time.Duration
	for i := range n {
		o := order{Pause: pause()}
		if kind.Family == contender.Lockagent && b.slowdown > 0 && len(ways) > 0 {
			o.Waste = time.Duration(b.slowdown / (1 + b.slowdown) * float64(ways[len(ways)-1]))
		}
		way, err := handOver(holder, waiter, o)
		if err != nil {
			return nil, err
		}
		ways = append(ways, way)
		if i%perFloor == 0 {
			if err := floors.measure(); err != nil {
				return nil, fmt.Errorf("floor: %w", err)
			}
		}
	}
	return ways, nil
}

// handOver passes the lock from one process to the other once.
func handOver(holder, waiter *worker, o order) (time.Duration, error) {
	var locked, unlocked, got, after moment
	if err := holder.ask(order{What: "lock"}, &locked); err != nil {
		return 0, err
	}
	if err := waiter.say(order{What: "lock"}); err != nil {
		return 0, err
	}
	o.What = "unlock"
	if err := holder.ask(o, &unlocked); err != nil {
		return 0, err
	}
	if err := waiter.hear(&got); err != nil {
		return 0, err
	}
	if err := waiter.ask(order{What: "unlock"}, &after); err != nil {
		return 0, err
	}
	return time.Duration(got.Ended - unlocked.Began), nil
}

// pause is how long a waiter has waited.
func pause() time.Duration { return 30*time.Millisecond + rand.N(60*time.Millisecond) }

// order is what a worker is told to do.
type order struct {
	What  string
	Pause time.Duration // before
	Waste time.Duration // of what is measured
}

// moment is when something that a worker did began and ended, on the clock that all
// processes share.
type moment struct {
	Began, Ended int64
	Again        int64 // when a second thing ended
	Error        string
}

// ask gives an order and waits until it is done.
func (c *conversation) ask(o order, m *moment) error {
	if err := c.say(o); err != nil {
		return err
	}
	if err := c.hear(m); err != nil {
		return err
	}
	if m.Error != "" {
		return fmt.Errorf("%s: %s", o.What, m.Error)
	}
	return nil
}

// handoffWorker is the holder or the waiter.
func handoffWorker(ctx context.Context, t *task, parent *conversation) error {
	c, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var held contender.Held
	cancel := func() {}
	return obey(parent, func(o order) (m moment, err error) {
		switch o.What {
		case "lock":
			// Some hold a lock only as long as the context lives that it was asked for with.
			wait, end := context.WithTimeout(ctx, patience)
			cancel = end
			m.Began = monotonic()
			held, err = c.Lock(wait, "bench/handoff")
		case "unlock":
			m.Began = monotonic()
			contender.Waste(time.Now(), o.Waste)
			err = held.Unlock()
		}
		m.Ended = monotonic()
		if o.What == "unlock" {
			cancel()
		}
		return m, err
	})
}

// obey does what it is told until the conversation ends.
func obey(parent *conversation, do func(order) (moment, error)) error {
	for {
		var o order
		if parent.hear(&o) != nil {
			return nil // it has ended
		}
		sleep(o.Pause)
		m, err := do(o)
		if err != nil {
			m.Error = err.Error()
		}
		if err := parent.say(m); err != nil {
			return err
		}
	}
}
