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

// plots draws the distributions and the lines of all tables that have some into files, and returns
// their names by those of the tables.
func (r *results) plots(dir string) (map[string]string, error) {
	files := make(map[string]string)
	for _, t := range r.Tables {
		plot := t.plot
		switch {
		case t.Lines != nil:
			plot = t.Lines.plot
		case t.Plotted == "":
			continue
		}
		file := t.Name + ".svg"
		if err := plot(filepath.Join(dir, file)); err != nil {
			return nil, fmt.Errorf("plot %s: %w", t.Name, err)
		}
		files[t.Name] = file
	}
	return files, nil
}

// lines are a plot of some curves, with logarithmic scales.
type lines struct {
	title, x, y string
	curves      []curve
}

// curve is a line of a plot.
type curve struct {
	name   string
	points plotter.XYs
}

// draw makes the plot.
func (l *lines) draw() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = l.title
	p.X.Label.Text = l.x
	p.Y.Label.Text = l.y
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for i, c := range l.curves {
		line, err := plotter.NewLine(c.points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = plotutil.Color(i), vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(c.name, line)
	}
	return p, nil
}

// plot draws the plot into a file.
func (l *lines) plot(path string) error {
	p, err := l.draw()
	if err != nil {
		return err
	}
	return p.Save(plotWidth, plotHeight, path)
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
