package main

import (
	"context"
	"errors"
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
	floorRelay  = "floor: a relay"        // a byte by way of a third process, over Unix sockets
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
			{Key: "awake", Title: "awake: p50 µs"},
			{Key: "failed", Title: "failed"},
		},
		Notes: []string{
			"Both clocks are CLOCK_MONOTONIC of one machine; the waiter has waited for 30 to 90 ms, chosen anew each time. " +
				"The contenders take turns, and so do the floors, after the same pauses.",
			"`" + floorSum +
				"` is what ratios are to: one script call (its round trip in one process) plus one published message received " +
				"(from the call of PUBLISH until another process has it), measured one after the other and added. " +
				"`" + floorOne + "` is a release script that publishes, from its call until the message is received. `" +
				floorAgain +
				"` goes on until the receiver has run a script of its own, as a design has to that wakes a waiter who then tries " +
				"to acquire.",
			"`" + floorRelay +
				"` is the least that a daemon can take: it wakes a process that wakes another one, which is what Redis does as " +
				"well. *Awake* are hand-offs that follow each other, after pauses of 2 ms. Contenders that poll slowly are left " +
				"out there.",
			daemonNote,
		},
	}
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.serve(ctx, b); err != nil {
		return err
	}
	relay, err := startRelay(ctx)
	if err != nil {
		return err
	}
	defer relay.end()
	floors, err := b.startFloors(ctx, s)
	if err != nil {
		return err
	}
	defer floors.end()
	all, err := b.startHandoffs(ctx, s)
	defer all.end()
	if err != nil {
		return err
	}
	for _, h := range all {
		h.awake = h.n >= b.plan.HandOffs
	}
	if err := all.pass(b, ctx, func() error { return errors.Join(floors.measure(), relay.measure()) }); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		ways []time.Duration
	}{
		{floorSum, floors.sums},
		{floorOne, floors.ones},
		{floorAgain, floors.replies},
		{floorScript, floors.scripts},
		{floorWay, floors.messages},
	} {
		t.Rows = append(t.Rows, wayRow(f.name, f.ways, floors.sums))
	}
	t.Rows = append(t.Rows, awakeRow(wayRow(floorRelay, relay.ways, floors.sums), relay.quick))
	for _, h := range all {
		row := awakeRow(wayRow(h.kind.Name, h.ways, floors.sums), h.quick)
		row.Values["failed"] = stat.Of(float64(h.failed))
		t.Rows = append(t.Rows, row)
	}
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

// awakeRow adds the hand-offs between processes that are awake to a row, if there are any.
func awakeRow(r *row, quick []time.Duration) *row {
	h := stat.NewHistogram()
	for _, way := range quick {
		h.Record(way)
	}
	if len(quick) > 0 {
		r.Values["awake"] = stat.Of(stat.Us(h.At(50)))
	}
	return r
}

// handoffs are many hand-offs of one contender.
type handoffs struct {
	server *server
	kind   contender.Kind
	n      int  // how many there are to be
	awake  bool // each is followed by quick ones

	pair   *handoffPair
	ways   []time.Duration
	quick  []time.Duration // the last one of the quick ones
	failed int
}

// handoffsInTurn are hand-offs of several contenders, or on several servers, that take turns.
type handoffsInTurn []*handoffs

func (all handoffsInTurn) end() {
	for _, h := range all {
		if h.pair != nil {
			h.pair.end()
		}
	}
}

// startHandoffs starts the processes of all contenders. Those it returns with an error
// have to be ended as well.
func (b *bench) startHandoffs(ctx context.Context, s *server) (all handoffsInTurn, err error) {
	for _, kind := range append(b.waiting(), contender.Daemon) {
		h := &handoffs{server: s, kind: kind, n: b.plan.HandOffs}
		switch kind.Name {
		case contender.Lockagent, contender.Daemon.Name:
			h.n *= 2
		case contender.Redsync, contender.Redislock: // they wait for 100 ms and more
			h.n = b.plan.PollerHandOffs
		}
		all = append(all, h)
		if h.pair, err = b.startHandoff(ctx, s, kind); err != nil {
			return all, err
		}
	}
	return all, nil
}

// pass has each contender pass its lock as often as it has to. The floors are measured in
// every second turn, if there are any.
func (all handoffsInTurn) pass(b *bench, ctx context.Context, floors func() error) error {
	turns := 0
	for _, h := range all {
		turns = max(turns, h.n)
	}
	for turn := range turns {
		for _, h := range all {
			if !takesPart(h.n, turn, turns) {
				continue
			}
			if err := h.once(b, ctx); err != nil {
				return fmt.Errorf("%s: %w", h.kind.Name, err)
			}
		}
		if floors != nil && turn%2 == 0 {
			if err := floors(); err != nil {
				return fmt.Errorf("floor: %w", err)
			}
		}
	}
	return nil
}

// takesPart is whether a contender takes part in a turn, if it does so in n of all turns.
// These are spread evenly.
func takesPart(n, turn, turns int) bool { return (turn+1)*n/turns > turn*n/turns }

// quickly is the pause before hand-offs that follow each other. The waiter has asked for the lock by then.
const quickly = 2 * time.Millisecond

// quickOnes is how many of them there are. After the first ones all processes are awake.
const quickOnes = 4

// once passes the lock on once. Hand-offs that fail are counted, up to a limit.
func (h *handoffs) once(b *bench, ctx context.Context) error {
	way, err := h.pair.once(pause())
	quick := way
	for i := 0; h.awake && i < quickOnes && err == nil; i++ {
		quick, err = h.pair.once(quickly)
	}
	switch {
	case err == nil && h.awake:
		h.quick = append(h.quick, quick)
		fallthrough
	case err == nil:
		h.ways = append(h.ways, way)
	case h.failed == 3 || errors.Is(err, errOverlap):
		return err
	default: // the two are out of step now
		h.failed++
		h.pair.end()
		if h.pair, err = b.startHandoff(ctx, h.server, h.kind); err != nil {
			return err
		}
	}
	return nil
}

// handoffPair is two processes that pass a lock from one to the other.
type handoffPair struct {
	holder, waiter *worker
	waste          float64       // part of a hand-off that the holder wastes
	last           time.Duration // how long the last one took
}

func (b *bench) startHandoff(ctx context.Context, s *server, kind contender.Kind) (*handoffPair, error) {
	t := task{Role: "handoff", Contender: kind.Name, Addr: s.AddrFor(kind), Name: "bench/handoff/" + kind.Name}
	p := new(handoffPair)
	if kind.Family == contender.Lockagent {
		p.waste = b.slowdown / (1 + b.slowdown) // the last one has its waste in it
	}
	var err error
	if p.holder, err = startWorker(ctx, t); err != nil {
		return nil, err
	}
	if p.waiter, err = startWorker(ctx, t); err != nil {
		p.holder.end()
		return nil, err
	}
	return p, nil
}

func (p *handoffPair) end() {
	p.waiter.end()
	p.holder.end()
}

// once passes the lock on once, after a pause.
func (p *handoffPair) once(pause time.Duration) (time.Duration, error) {
	var locked, unlocked, got, after moment
	if err := p.holder.ask(order{What: "lock"}, &locked); err != nil {
		return 0, err
	}
	if err := p.waiter.say(order{What: "lock"}); err != nil {
		return 0, err
	}
	waste := time.Duration(p.waste * float64(p.last))
	if err := p.holder.ask(order{What: "unlock", Pause: pause, Waste: waste}, &unlocked); err != nil {
		return 0, err
	}
	if err := p.waiter.hear(&got); err != nil {
		return 0, err
	}
	if got.Error != "" {
		return 0, fmt.Errorf("lock: %s", got.Error)
	}
	if err := p.waiter.ask(order{What: "unlock"}, &after); err != nil {
		return 0, err
	}
	if got.Ended < unlocked.Began {
		return 0, fmt.Errorf(
			"%w: the lock was got %v before it was given back", errOverlap, time.Duration(unlocked.Began-got.Ended),
		)
	}
	p.last = time.Duration(got.Ended - unlocked.Began)
	return p.last, nil
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
			held, err = c.Lock(wait, t.Name)
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
