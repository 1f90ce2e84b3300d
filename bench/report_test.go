package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
)

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 7: "7", 0.123456: "0.123", 1.5: "1.50", 12.345: "12.3", 99.99: "100.0", 123.4: "123",
		1234567: "1,234,567", -1234: "-1,234", 0.00001234: "0.000012",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestCell(t *testing.T) {
	c := column{Spread: true}
	if got := c.cell(stat.Of(1.2, 1.1, 1.3)); got != "1.20 (1.10..1.30)" {
		t.Errorf("got %q", got)
	}
	if got := c.cell(stat.Of(1.2)); got != "1.20" {
		t.Errorf("one round: %q", got)
	}
	if got := c.cell(stat.Of()); got != "" {
		t.Errorf("not measured: %q", got)
	}
}

// written writes a report, and returns its page. Each plot is there, and linked, and the figures can be read back.
func written(t *testing.T, r *results) (page string) {
	t.Helper()
	dir := t.TempDir()
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	file := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var read results
	if err := json.Unmarshal(file("results.json"), &read); err != nil || len(read.Tables) != len(r.Tables) {
		t.Errorf("read back: %d tables of %d, %v", len(read.Tables), len(r.Tables), err)
	}
	page = string(file("RESULTS.md"))
	linked := make(map[string]bool)
	for _, link := range regexp.MustCompile(`\]\((\S+)\)`).FindAllStringSubmatch(page, -1) {
		linked[link[1]] = true
		if !bytes.Contains(file(link[1]), []byte("</svg>")) {
			t.Errorf("%s is no plot", link[1])
		}
	}
	for _, table := range r.Tables {
		if plot := table.Name + ".svg"; linked[plot] != (table.Plotted != "" || table.Lines != nil) {
			t.Errorf("%s is linked: %t", plot, linked[plot])
		}
	}
	if !strings.Contains(page, "| target | measured | reached? |") {
		t.Error("the page has no table of targets")
	}
	return page
}

func TestAReportIsWritten(t *testing.T) {
	s := newSeries()
	s.add("x-p50", 1.1)
	s.waits.Record(20 * time.Microsecond)
	s.waits.Record(30 * time.Microsecond)
	s.note = "no connection"
	columns := []column{{Key: "x-p50", Title: "cycle p50"}}
	line := curve{"a curve", plotter.XYs{{X: 1, Y: 1}, {X: 10, Y: 2}}}
	page := written(t, &results{
		Date: time.Date(2000, time.January, 2, 3, 4, 0, 0, time.UTC), Took: 1.5,
		Machine: "a machine", Versions: map[string]string{"redis": "7.0"},
		Tables: []*table{
			{Name: "cold-1", Title: "Latencies", Columns: columns, Rows: []*row{s.row(us)}, Plotted: "a cycle"},
			{Name: "lines", Title: "Curves", Columns: columns, Lines: &lines{"Curves", "goroutines", "cycles", []curve{line}}},
			{Name: "plain", Title: "Figures", Columns: columns, Notes: []string{"a note of the table"}},
		},
	})
	for _, part := range []string{
		"on 2000-01-02 03:04 UTC, in 2 s.", "\na machine\n", "| redis | 7.0 |\n",
		"\n## Latencies\n\n|  | cycle p50 |\n|---|---|\n| lockagent | 1.10 |\n", "the first error was: no connection",
		"![Percentiles of a cycle](cold-1.svg)", "![cycles against goroutines](lines.svg)",
		"\n## Figures\n", "\na note of the table\n",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q:\n%s", part, page)
		}
	}
	if !regexp.MustCompile(`(?m)^\| Cold names, 1 goroutine: cycle p50 .* \| 1\.10 x \| yes \|$`).MatchString(page) {
		t.Errorf("no target is reached on the page:\n%s", page)
	}
}

func TestVerdicts(t *testing.T) {
	r := &results{}
	for _, v := range r.verdicts() {
		if v.Reached != "not measured" {
			t.Errorf("without results, %q is reached: %s", v.Target, v.Reached)
		}
	}
	find := func(r *results, target string) verdict {
		t.Helper()
		for _, v := range r.verdicts() {
			if strings.Contains(v.Target, target) {
				return v
			}
		}
		t.Fatalf("no target %q", target)
		return verdict{}
	}
	type figures = map[string]float64
	of := func(name string, values figures) *row {
		s := newSeries()
		for key, v := range values {
			s.add(key, v)
		}
		return s.row(name)
	}
	for _, c := range []struct {
		table, target string
		ours          figures
		others        []*row
		want, text    string
	}{
		{"own-64", "Own locks, 64 goroutines: at least 1.0 x", figures{"x-rate": 1}, nil, "yes", "1.00 x"},
		{"own-1024", "Own locks, 1024 goroutines: at least 1.0 x", figures{"x-rate": 0.98}, nil, "no", "0.98 x"},
		{"cold-1", "Cold names, 1 goroutine: cycle p50 at most 1.15 x", figures{"x-p50": 1.2}, nil, "no", "1.20 x"},
		{"cold-64", "Cold names, 64 goroutines: at least 1.0 x", figures{"x-rate": 1.1}, nil, "yes", "1.10 x"},
		{"cold-1024", "Cold names, 1024 goroutines: at least 1.0 x", figures{"x-rate": 0.9}, nil, "no", "0.90 x"},
		{
			"do-1", "1 goroutine, by Do",
			figures{"x-p50": 1.4},
			[]*row{of("redislock", figures{"x-p50": 1.5}), of("redsync", figures{"x-p50": 2})},
			"yes", "0.93 x redislock",
		},
		{"do-64", "same with 64 goroutines: p99", figures{"x-p99": 2.1}, nil, "no", "2.10 x"},
		{"do-1024", "same with 1024 goroutines: at least 0.9", figures{"x-rate": 0.9}, nil, "yes", "0.90 x"},
		{
			"one-64", "at least 25 x",
			figures{"rate": 250},
			[]*row{of("redsync", figures{"rate": 10}), of("redislock", figures{"rate": 5})},
			"yes", "25.0 x redsync",
		},
		{
			"one-64", "at least 25 x",
			figures{"rate": 249},
			[]*row{of("redsync", figures{"rate": 10}), of("redislock", figures{"rate": 5})},
			"no", "24.9 x redsync",
		},
		// Peers have deadlines as well.
		{
			"one-64", "at least 18 x",
			figures{"rate": 1, "d-rate": 180},
			[]*row{of("redsync", figures{"rate": 90, "d-rate": 10})},
			"yes", "18.0 x redsync",
		},
		{
			"one-64", "at least 18 x",
			figures{"rate": 900, "d-rate": 170},
			[]*row{of("redsync", figures{"rate": 1, "d-rate": 10})},
			"no", "17.0 x redsync",
		},
		{"one-64", "at most 1.25 x", figures{"d-x": 1.26}, nil, "no", "1.26 x"},
		{"one-64", "under 0.1 Redis", figures{"sent": 0.05}, nil, "yes", "0.050"},
		{"one-64", "under 0.1 Redis", figures{"sent": 0.1}, nil, "no", "0.100"},
		{
			"one-8x8", "at least 7 x",
			figures{"rate": 70},
			[]*row{of("redislock", figures{"rate": 10})},
			"yes",
			"7.0 x redislock",
		},
		// A fair share for each process is not enough.
		{
			"one-8x8", "x 8: every goroutine at least half",
			figures{"least": 0.4, "p-least": 1},
			nil, "no",
			"the least has 0.40 of the mean",
		},
		{
			"one-8x8", "x 8: every goroutine at least half",
			figures{"least": 0.5, "p-least": 1},
			nil, "yes",
			"the least has 0.50 of the mean",
		},
		{"cluster", "three nodes, one lock, 64", figures{"x-one-64": 1.5}, nil, "yes", "1.50 x"},
		{"cluster", "three nodes, one lock, 8 processes", figures{"x-one-8x8": 1.6}, nil, "no", "1.60 x"},
		{"cluster", "three nodes, hand-off", figures{"x-handoff": 1.4}, nil, "yes", "1.40 x"},
		{
			"server", "64 at a time: at most 1.7",
			figures{"x-64": 1.8, "us-64": 18},
			[]*row{of("least pair", figures{"us-64": 10})},
			"no", "1.80 x (18.0 µs to 10.0 µs)",
		},
		{
			"server", "256 at a time: at most 1.7",
			figures{"x-256": 1, "us-256": 10},
			[]*row{of("least pair", figures{"us-256": 10})},
			"yes", "1.00 x (10.0 µs to 10.0 µs)",
		},
		{"own-1", "Lock that rests, 1 goroutine", figures{"x-rate": 19.9}, nil, "no", "19.90 x"},
		// The worst number of goroutines decides, and none may be missing.
		{
			"rest", "with a deadline for each call: at least two",
			figures{"d-x": 0.7},
			[]*row{of(restRow(64), figures{"d-x": 0.6}), of(restRow(1024), figures{"d-x": 0.7})},
			"no", "0.70 x, 0.60 x, 0.70 x",
		},
		{
			"rest", "with the event log: at least half",
			figures{"e-x": 0.5},
			[]*row{of(restRow(64), figures{"e-x": 0.7}), of(restRow(1024), figures{"e-x": 0.6})},
			"yes",
			"0.50 x, 0.70 x, 0.60 x",
		},
		{
			"rest", "under 0.01 Redis commands per cycle",
			figures{"sent": 0.001},
			[]*row{of(restRow(64), figures{"sent": 0.001})},
			"not measured", "",
		},
		{
			"rest-price", "after pauses of 10 ms",
			figures{"x-10ms": 1.2, "p50-10ms": 120, "m-10ms": 1.3},
			[]*row{of(contender.Unrested.Name, figures{"p50-10ms": 100})},
			"no", "1.20 x (120 µs to 100 µs); in the mean 1.30 x",
		},
		{
			"rest-java", "at most 100 ms more",
			figures{"max": 102, "rested": 30},
			[]*row{of(contender.Unrested.Name, figures{"p50": 2})},
			"yes",
			"100.0 ms more: the longest wait of 30 that met a rest is 102.0 ms",
		},
		{
			"rest-java", "beside a hot loop",
			figures{"h-p99": 120, "h-max": 150},
			nil, "no",
			"p99 120.0 ms, the longest 150.0 ms",
		},
		{"rest-killed", "hot loop on a lock killed", figures{"n": 10, "max": 2500}, nil, "yes", "2500 ms, the longest of 10"},
	} {
		r := &results{Tables: []*table{{Name: c.table, Rows: append(c.others, of("lockagent", c.ours))}}}
		if v := find(r, c.target); v.Reached != c.want || v.Measured != c.text {
			t.Errorf("%s of %v: %+v, want %s, %s", c.table, c.ours, v, c.want, c.text)
		}
	}
}

func TestSamples(t *testing.T) {
	begin := time.Now()
	var s samples
	sent := int64(0)
	for i := range 40 {
		if i == 20 {
			sent += 50 // at once
		}
		sent += 1
		s = append(s, sample{begin.Add(time.Duration(i) * 100 * time.Millisecond), sent})
	}
	if got := s.most(100 * time.Millisecond); got != 510 {
		t.Errorf("most in 100 ms is %v/s, want 510", got)
	}
	if got := s.most(time.Second); got < 59 || got > 67 {
		t.Errorf("most in 1 s is %v/s, want about 60", got)
	}
	if got := s.mean(); got < 22 || got > 23 {
		t.Errorf("the mean is %v/s, want 89 in 3.9 s", got)
	}
}
