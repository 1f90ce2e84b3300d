package main

import (
	"fmt"
	"math"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	_ "gonum.org/v1/plot/vg/vgsvg" // the format

	"github.com/lockagent/lockagent/bench/contender"
)

const (
	plotWidth  = 8.5 * vg.Inch
	plotHeight = 5 * vg.Inch
)

// plots draws the distributions of all tables that have some into files, and returns
// their names by those of the tables.
func (r *results) plots(dir string) (map[string]string, error) {
	files := make(map[string]string)
	if row := r.find("rest-price", us); row != nil {
		if err := row.price(filepath.Join(dir, "rest-price.svg")); err != nil {
			return nil, fmt.Errorf("plot the price of resting: %w", err)
		}
	}
	for _, t := range r.Tables {
		if t.Plotted == "" {
			continue
		}
		file := t.Name + ".svg"
		if err := t.plot(filepath.Join(dir, file)); err != nil {
			return nil, fmt.Errorf("plot %s: %w", t.Name, err)
		}
		files[t.Name] = file
	}
	return files, nil
}

// plot draws latency against the percentile, both so that the tail can be seen.
func (t *table) plot(path string) error {
	p := plot.New()
	p.Title.Text = t.Title
	p.X.Label.Text = "percentile of " + t.Plotted
	p.Y.Label.Text = "µs"
	p.X.Tick.Marker = percentileTicks{}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for i, row := range t.Rows {
		var line plotter.XYs
		for _, point := range row.Latency {
			if point.Us > 0 {
				line = append(line, plotter.XY{X: nines(point.Percentile), Y: point.Us})
			}
		}
		if len(line) < 2 {
			continue
		}
		drawn, err := plotter.NewLine(line)
		if err != nil {
			return err
		}
		drawn.Color, drawn.Dashes = plotutil.Color(i), plotutil.Dashes(i/7)
		drawn.Width = vg.Points(1)
		if row.Contender == contender.Lockagent {
			drawn.Width = vg.Points(3)
		}
		p.Add(drawn)
		p.Legend.Add(row.Contender, drawn)
	}
	return p.Save(plotWidth, plotHeight, path)
}

// price draws what a grant takes over the pause between the turns of two agents, with resting on and off.
func (r *row) price(path string) error {
	p := plot.New()
	p.Title.Text = "Two agents take turns on one lock"
	p.X.Label.Text = "pause between turns, ms"
	p.Y.Label.Text = "median time of a grant, µs"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Y.Min = 0
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for i, side := range []string{"on", "off"} {
		var line plotter.XYs
		for _, pause := range restPauses {
			line = append(line, plotter.XY{X: float64(pause.Milliseconds()), Y: r.Values[priceKey(side, pause)].Median})
		}
		drawn, err := plotter.NewLine(line)
		if err != nil {
			return err
		}
		drawn.Color, drawn.Width = plotutil.Color(i), vg.Points(1.5)
		p.Add(drawn)
		p.Legend.Add("resting "+side, drawn)
	}
	return p.Save(plotWidth, plotHeight, path)
}

// nines is how many nines a percentile has: 0 for 0, 1 for 90, 2 for 99.
func nines(percentile float64) float64 { return -math.Log10(1 - percentile/100) }

type percentileTicks struct{}

func (percentileTicks) Ticks(_, most float64) []plot.Tick {
	var ticks []plot.Tick
	for _, p := range []float64{0, 50, 90, 99, 99.9, 99.99, 99.999} {
		if x := nines(p); x <= most {
			ticks = append(ticks, plot.Tick{Value: x, Label: fmt.Sprint(p)})
		}
	}
	return ticks
}
