package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
)

// commands measures a command under a lock of the daemon, beside flock.
func (b *bench) commands(ctx context.Context) error {
	t := &table{
		Name:    "command",
		Title:   "A command under a free lock: lockagent lock -n NAME true",
		Plotted: "one command",
		Columns: []column{
			{Key: "n", Title: "n"},
			{Key: "min", Title: "min µs"},
			{Key: "p50", Title: "p50 µs"},
			{Key: "p90", Title: "p90 µs"},
			{Key: "max", Title: "max µs"},
			{Key: "x", Title: "x floor, p50"},
		},
		Notes: []string{
			"From the start of the program until it has ended, one after the other, in turn. The floor is the sum of the two " +
				"rows above: `flock -n FILE true`, and a Go program that does nothing.",
		},
	}
	b.results.Tables = append(b.results.Tables, t)
	d, err := b.startDaemon(ctx)
	if err != nil {
		return err
	}
	defer d.end()
	flock, err := exec.LookPath("flock") // of util-linux
	if err != nil {
		return err
	}
	nothing, err := b.programs.path(ctx, nothingProgram)
	if err != nil {
		return err
	}
	const flocks, empty = "floor: flock", "floor: a Go program"
	runs := []struct {
		name string
		argv []string
		ways []time.Duration
	}{
		{name: flocks, argv: []string{flock, "-n", filepath.Join(d.dir, "lock"), "true"}},
		{name: empty, argv: []string{nothing}},
		{name: contender.Lockagent, argv: []string{d.path, "lock", "--socket", d.socket(), "-n", "bench/command", "true"}},
	}
	for range b.plan.Starts {
		for i := range runs {
			r := &runs[i]
			cmd := exec.CommandContext(ctx, r.argv[0], r.argv[1:]...)
			cmd.Env = withoutSettings()
			began := time.Now()
			if said, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%q: %w: %s", r.argv, err, said)
			}
			r.ways = append(r.ways, time.Since(began))
		}
	}
	floor := 0.0
	for _, r := range runs {
		made := wayRow(r.name, r.ways, r.ways)
		p50 := made.Values["p50"].Median
		if r.name == contender.Lockagent {
			made.Values["x"] = stat.Of(p50 / floor)
		}
		floor += p50
		t.Rows = append(t.Rows, made)
	}
	return nil
}
