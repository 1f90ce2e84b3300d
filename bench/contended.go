package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
)

const daemonNote = "`lockagent-daemon` is lockagent through the daemon of the host: all processes are clients of one " +
	"`lockagent serve --redis`, and the commands are those of the daemon."

// contended measures one lock that all want. The rounds of the contenders alternate.
func (b *bench) contended(ctx context.Context, c crowd) error {
	t := &table{
		Name:    c.name,
		Title:   c.title(),
		Plotted: "the wait for one lock",
		Notes: []string{
			"A wait that the end of the round cut off counts with its length up to then. A violation of mutual exclusion " +
				"would have failed the run.",
			"Commands are those that clients sent, see bench/commandstats. The floor cannot wait and is not here.",
		},
		Columns: []column{
			{Key: "rate", Title: "grants/s", Spread: true},
			{Key: "p50", Title: "wait p50 ms"},
			{Key: "p99", Title: "wait p99 ms"},
			{Key: "max", Title: "wait max ms"},
			{Key: "least", Title: "least/mean of goroutines"},
			{Key: "most", Title: "most/mean"},
			{Key: "jain", Title: "Jain"},
			{Key: "p-least", Title: "least/mean of processes"},
			{Key: "p-jain", Title: "Jain of processes"},
			{Key: "sent", Title: "commands/grant"},
			{Key: "failed", Title: "failed waits"},
		},
	}
	if c.deadlines {
		t.Columns = slices.Insert(t.Columns, 1, deadlineColumns...)
		t.Notes = append(t.Notes, deadlineNote)
	}
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	kinds := b.waiting()
	if c.daemon {
		if err := s.serve(ctx, b); err != nil {
			return err
		}
		kinds = append(kinds, contender.Daemon)
		t.Notes = append(t.Notes, daemonNote)
	}
	found := make(map[string]*series)
	rounds := b.plan.SharedRounds
	if c.inside > 0 {
		rounds = b.plan.InsideRounds
	}
	for range rounds {
		for _, kind := range kinds {
			if found[kind.Name] == nil {
				found[kind.Name] = newSeries()
			}
			o, err := b.crowd(ctx, s, c, kind, task{})
			if err != nil {
				return fmt.Errorf("%s: %w", kind.Name, err)
			}
			found[kind.Name].crowd(o)
			if c.deadlines {
				if err := b.deadlines(ctx, s, c, kind, o, found[kind.Name]); err != nil {
					return fmt.Errorf("%s, with deadlines: %w", kind.Name, err)
				}
			}
		}
	}
	for _, kind := range kinds {
		t.Rows = append(t.Rows, found[kind.Name].row(kind.Name))
	}
	return nil
}

// crowd adds what one round found.
func (s *series) crowd(o *crowdOutcome) {
	s.add("rate", o.rate())
	const ms = 1000
	s.add("p50", stat.Us(o.Waits.At(50))/ms)
	s.add("p99", stat.Us(o.Waits.At(99))/ms)
	s.add("max", stat.Us(o.Waits.Max())/ms)
	s.fairness("", o.Cycles)
	perProcess := make([]int64, o.processes)
	for i, n := range o.Cycles {
		perProcess[i*o.processes/len(o.Cycles)] += n
	}
	if o.processes > 1 {
		s.fairness("p-", perProcess)
	}
	s.add("sent", o.sent)
	s.add("failed", float64(o.Failed))
	s.waits.Merge(o.Waits)
	if o.Error != "" {
		s.note = o.Error
	}
}

func (s *series) fairness(prefix string, shares []int64) {
	mean := 0.0
	for _, n := range shares {
		mean += float64(n) / float64(len(shares))
	}
	s.add(prefix+"least", float64(slices.Min(shares))/mean)
	s.add(prefix+"most", float64(slices.Max(shares))/mean)
	jain := stat.Jain(shares)
	if mean == 0 { // nothing is not fair
		jain = math.NaN()
	}
	s.add(prefix+"jain", jain)
}
