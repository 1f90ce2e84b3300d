package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
)

// restPauses are those between two turns.
var restPauses = []time.Duration{time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond}

// neverTwice is the key of locks that are used once.
const neverTwice = "once"

// A lock passes from one agent to the other so often in a measurement, at least and at most.
const (
	turnsLeast = 4
	turnsMost  = 2000
)

// restPrice measures what resting costs others: two agents use one lock in turn.
func (b *bench) restPrice(ctx context.Context) error {
	t := &table{
		Name:  "rest-price",
		Title: "The price of resting: two agents use one lock in turn, a grant with resting and without",
		Notes: []string{
			"The pause is from the end of a turn of one agent until the beginning of the next one, which is the other's. Time " +
				"counts from the call of Lock until it returns. Two agents with resting and two without take turns, with a lock " +
				"of their own each, and half of the pause between them. " +
				"The turns at the beginning, in which the agents learn that the lock is recalled, are in the figures. A recall " +
				"is rare later, so it is in the mean and not in the median. In the last columns no lock is used twice, and there " +
				"is no pause.",
		},
	}
	keys := make([]string, 0, len(restPauses)+1)
	for _, pause := range restPauses {
		keys = append(keys, pause.String())
	}
	for _, key := range append(keys, neverTwice) {
		title := "pause " + key
		if key == neverTwice {
			title = "no lock twice"
		}
		t.Columns = append(t.Columns,
			column{Key: "p50-" + key, Title: title + ": p50 µs"},
			column{Key: "x-" + key, Title: "x without"},
			column{Key: "mean-" + key, Title: "mean µs"},
			column{Key: "m-" + key, Title: "x without"})
	}
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	sides := []*takingTurns{{kind: asItComes()}, {kind: contender.Unrested}}
	for _, side := range sides {
		side.found = newSeries()
		for i := range side.agents {
			if side.agents[i], err = b.open(ctx, side.kind, s); err != nil {
				return err
			}
			defer side.agents[i].Close()
		}
	}
	for i, pause := range restPauses {
		turns := min(max(turnsLeast, int(b.plan.PriceFor/pause)), turnsMost)
		name := func(int) string { return "bench/price/" + keys[i] }
		if err := takeTurns(ctx, sides, turns, pause, name, keys[i]); err != nil {
			return fmt.Errorf("a pause of %v: %w", pause, err)
		}
	}
	turns := min(max(turnsLeast, int(b.plan.PriceFor/time.Millisecond)), turnsMost)
	name := func(turn int) string { return "bench/price/" + neverTwice + "/" + strconv.Itoa(turn) }
	if err := takeTurns(ctx, sides, turns, 0, name, neverTwice); err != nil {
		return fmt.Errorf("no lock twice: %w", err)
	}
	for _, side := range sides {
		t.Rows = append(t.Rows, side.found.row(side.kind.Name))
	}
	t.Lines = priceLines(t)
	return nil
}

// takingTurns are two agents of a kind.
type takingTurns struct {
	kind   contender.Kind
	agents [2]*opened
	found  *series
}

// takeTurns has the agents of each side use a lock in turn, and adds how long a grant takes.
func takeTurns(
	ctx context.Context, sides []*takingTurns, turns int, pause time.Duration, name func(turn int) string, key string,
) error {
	collect()
	took := make([]*stat.Histogram, len(sides))
	sums := make([]time.Duration, len(sides))
	for turn := range turns {
		for i, side := range sides {
			sleep(pause / time.Duration(len(sides))) // so each side comes after a pause, and none right behind another
			begin := time.Now()
			held, err := side.agents[turn%len(side.agents)].Lock(ctx, name(turn)+"/"+side.kind.Name)
			d := time.Since(begin)
			if err != nil {
				return err
			}
			if err := held.Unlock(); err != nil {
				return err
			}
			if took[i] == nil {
				took[i] = stat.NewHistogram()
			}
			took[i].Record(d)
			sums[i] += d
		}
	}
	base := len(sides) - 1 // the side without resting
	for i, side := range sides {
		side.found.add("p50-"+key, stat.Us(took[i].At(50)))
		side.found.add("mean-"+key, stat.Us(sums[i])/float64(turns))
		if i != base {
			side.found.add("x-"+key, float64(took[i].At(50))/float64(took[base].At(50)))
			side.found.add("m-"+key, float64(sums[i])/float64(sums[base]))
		}
	}
	return nil
}

// priceLines are the plot of a grant against the pause.
func priceLines(t *table) *lines {
	l := &lines{title: t.Title, x: "pause between two turns, ms", y: "µs"}
	for _, r := range t.Rows {
		for _, of := range []string{"p50", "mean"} {
			c := curve{name: r.Contender + ", " + of}
			for _, pause := range restPauses {
				c.points = append(c.points, plotter.XY{X: inMs(pause), Y: r.Values[of+"-"+pause.String()].Median})
			}
			l.curves = append(l.curves, c)
		}
	}
	return l
}
