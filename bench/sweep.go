package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
)

// A tenure ends by what is spent first: its grants or its time. For both to show there
// has to be something inside, or all of sweepGrants would pass in a few milliseconds.
var (
	sweepCrowd  = crowd{name: "sweep", processes: 8, goroutines: 160, inside: 100 * time.Microsecond}
	sweepGrants = []int{1, 4, 16, 64, 256, 1024}
	sweepTimes  = []time.Duration{
		time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
		200 * time.Millisecond,
	}
)

// sweep measures one lock in several processes with hand-off budgets around the
// default, and draws what more of it gives and costs.
func (b *bench) sweep(ctx context.Context, path string) error {
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	kind, _ := contender.Named(contender.Lockagent)
	var rates, waits []curve
	fmt.Printf("%8s %8s %12s %12s %12s\n", "time", "grants", "grants/s", "p99 ms", "commands/grant")
	for _, d := range sweepTimes {
		rate, wait := curve{name: d.String()}, curve{name: d.String()}
		for _, grants := range sweepGrants {
			found := newSeries()
			for range b.plan.InsideRounds {
				o, err := b.crowd(ctx, s, sweepCrowd, kind, task{Grants: grants, GrantsWithin: d})
				if err != nil {
					return err
				}
				found.crowd(o)
			}
			median := func(key string) float64 { return stat.Median(found.values[key]) }
			rate.points = append(rate.points, plotter.XY{X: float64(grants), Y: median("rate")})
			wait.points = append(wait.points, plotter.XY{X: float64(grants), Y: median("p99")})
			fmt.Printf(
				"%8v %8d %12s %12s %12s\n", d, grants, number(median("rate")), number(median("p99")), number(median("sent")),
			)
		}
		rates, waits = append(rates, rate), append(waits, wait)
	}
	return drawSweep(path, rates, waits)
}

// drawSweep draws two plots, one above the other.
func drawSweep(path string, rates, waits []curve) error {
	canvas := vgsvg.New(plotWidth, 2*plotHeight)
	tiles := draw.Tiles{Rows: 2, Cols: 1, PadY: vg.Inch / 2}
	over := draw.New(canvas)
	const x = "HandOffGrants, one line for each HandOffTime"
	for i, l := range []*lines{
		{sweepCrowd.title() + ": grants per second", x, "grants/s", rates},
		{"The same: 99th percentile of the wait", x, "ms", waits},
	} {
		p, err := l.draw()
		if err != nil {
			return err
		}
		p.Draw(tiles.At(over, 0, i))
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := canvas.WriteTo(file); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
