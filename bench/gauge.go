package main

import (
	"context"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
)

// gauge is one ratio that -check watches. Its two sides are measured in turn, so that
// the machine's mood is in both.
type gauge struct {
	name string
	text string
	more bool // is better
	// open prepares the gauge. read is one round of both sides.
	open func(*bench, context.Context) (read func() (float64, error), shut func(), err error)
}

var gauges = []gauge{
	{"own-1", "own lock through Redis, 1 goroutine: cycles/s to the floor's", true, ownGauge(1)},
	{"own-64", "own locks through Redis, 64 goroutines: cycles/s to the floor's", true, ownGauge(64)},
	{"own-1024", "own locks through Redis, 1024 goroutines: cycles/s to the floor's", true, ownGauge(1024)},
	{
		"rest-1", "own lock that rests, 1 goroutine: time of a cycle to that of an echo between two goroutines", false,
		restGauge,
	},
	{"one-64", "one lock, 64 goroutines: grants for each echo between two goroutines", true, oneGauge},
	{"one-8x8", "one lock, 8 processes x 8: grants/s to the floor's cycles/s with 64 goroutines", true, sharedGauge},
	{"handoff", "hand-off between two processes: p50 to the floor's", false, handoffGauge},
	{"reentrant", "re-entrant acquire and release: time to that of an echo between two goroutines", false, reentrantGauge},
}

// A round of a gauge changes sides many times, so that what else the machine does
// meets both.
const (
	gaugeTurns      = 8
	gaugeTurn       = 40 * time.Millisecond
	gaugeShared     = 800 * time.Millisecond
	gaugeHandOffs   = 10
	gaugeHandFloors = 4
)

// closers are what to close, the last one first.
type closers []func()

func (c *closers) add(f func()) { *c = append(*c, f) }

func (c *closers) close() {
	for i := len(*c) - 1; i >= 0; i-- {
		(*c)[i]()
	}
}

// pairOf opens a server, the floor and a kind of lockagent.
func (b *bench) pairOf(
	ctx context.Context, agentKind contender.Kind,
) (s *server, floor, agent *opened, shut func(), err error) {
	var all closers
	defer func() {
		if err != nil {
			all.close()
		}
	}()
	if s, err = startServer(); err != nil {
		return
	}
	all.add(s.stop)
	floorKind, _ := contender.Named(contender.Floor)
	if floor, err = b.open(ctx, floorKind, s); err != nil {
		return
	}
	all.add(floor.Close)
	if agent, err = b.open(ctx, agentKind, s); err != nil {
		return
	}
	all.add(agent.Close)
	return s, floor, agent, all.close, nil
}

// asItComes is lockagent as it comes.
func asItComes() contender.Kind {
	kind, _ := contender.Named(contender.Lockagent)
	return kind
}

// rateOf is a round of a load as one side of a gauge.
func (l load) rateOf(ctx context.Context, c *opened) func() (float64, error) {
	return func() (float64, error) {
		o, err := l.run(ctx, c.Contender)
		if err != nil {
			return 0, err
		}
		return o.rate(), nil
	}
}

// inTurns returns the ratio of two sides that take turns.
func inTurns(turns int, ours, base func() (float64, error)) (float64, error) {
	collect()
	var above, below float64
	for range turns {
		b, err := base()
		if err != nil {
			return 0, err
		}
		o, err := ours()
		if err != nil {
			return 0, err
		}
		above, below = above+o, below+b
	}
	return above / below, nil
}

func sum(figures []float64) (total float64) {
	for _, f := range figures {
		total += f
	}
	return total
}

func ownGauge(goroutines int) func(*bench, context.Context) (func() (float64, error), func(), error) {
	return func(b *bench, ctx context.Context) (func() (float64, error), func(), error) {
		_, floor, agent, shut, err := b.pairOf(ctx, contender.Unrested)
		if err != nil {
			return nil, nil, err
		}
		l := load{goroutines: goroutines, window: gaugeTurn, name: ownName, grace: callsEnd}
		turns := gaugeTurns
		if goroutines > 64 { // a cycle can take as long as a turn
			turns, l.window = gaugeTurns/4, 6*gaugeTurn
		}
		return func() (float64, error) {
			return inTurns(turns, l.rateOf(ctx, agent), l.rateOf(ctx, floor))
		}, shut, nil
	}
}

func restGauge(b *bench, ctx context.Context) (func() (float64, error), func(), error) {
	_, _, agent, shut, err := b.pairOf(ctx, asItComes())
	if err != nil {
		return nil, nil, err
	}
	ping, stop := newEcho()
	cycle := b.wasting(cycleOf(ctx, agent.Contender, "bench/rest"))
	return func() (float64, error) {
		return inTurns(gaugeTurns, func() (float64, error) {
			ns, _, err := timed(gaugeTurn, cycle)
			return ns, err
		}, func() (float64, error) {
			ns, _, err := timed(gaugeTurn/2, ping)
			return ns, err
		})
	}, func() { stop(); shut() }, nil
}

func oneGauge(b *bench, ctx context.Context) (func() (float64, error), func(), error) {
	_, _, agent, shut, err := b.pairOf(ctx, asItComes())
	if err != nil {
		return nil, nil, err
	}
	ping, stop := newEcho()
	l := load{goroutines: 64, window: gaugeTurn, name: func(int, int) string { return "bench/one" }}
	return func() (float64, error) {
		return inTurns(gaugeTurns, l.rateOf(ctx, agent), func() (float64, error) {
			ns, _, err := timed(gaugeTurn/2, ping)
			return 1e9 / ns, err
		})
	}, func() { stop(); shut() }, nil
}

func sharedGauge(b *bench, ctx context.Context) (func() (float64, error), func(), error) {
	s, floor, agent, shut, err := b.pairOf(ctx, asItComes())
	if err != nil {
		return nil, nil, err
	}
	own := *b // the plan of the others stays as it is
	b = &own
	b.plan.SharedWindow = gaugeShared
	base := load{goroutines: 64, window: gaugeShared / 4, name: ownName, grace: callsEnd}.rateOf(ctx, floor)
	return func() (float64, error) {
		before, err := base()
		if err != nil {
			return 0, err
		}
		o, err := b.crowd(ctx, s, eightProcesses, agent.kind, task{})
		if err != nil {
			return 0, err
		}
		after, err := base()
		return o.rate() / ((before + after) / 2), err
	}, shut, nil
}

func handoffGauge(b *bench, ctx context.Context) (read func() (float64, error), shut func(), err error) {
	var all closers
	defer func() {
		if err != nil {
			all.close()
		}
	}()
	s, err := startServer()
	if err != nil {
		return nil, nil, err
	}
	all.add(s.stop)
	floors, err := b.startFloors(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	all.add(floors.end)
	pair, err := b.startHandoff(ctx, s, asItComes())
	if err != nil {
		return nil, nil, err
	}
	all.add(pair.end)
	return func() (float64, error) {
		ways, sums := stat.NewHistogram(), stat.NewHistogram()
		for i := range gaugeHandOffs {
			way, err := pair.once(pause())
			if err != nil {
				return 0, err
			}
			ways.Record(way)
			if i < gaugeHandFloors {
				if err := floors.measure(); err != nil {
					return 0, err
				}
				sums.Record(floors.sums[len(floors.sums)-1])
			}
		}
		return float64(ways.At(50)) / float64(sums.At(50)), nil
	}, all.close, nil
}

func reentrantGauge(b *bench, ctx context.Context) (func() (float64, error), func(), error) {
	own := *b // the plan of the others stays as it is
	b = &own
	b.plan.Window = 2 * gaugeTurn
	return func() (float64, error) {
		found, echoes, err := b.reentrants(ctx, gaugeTurns)
		if err != nil {
			return 0, err
		}
		return sum(found.values["ns"]) / sum(echoes.values["ns"]), nil
	}, func() {}, nil
}
