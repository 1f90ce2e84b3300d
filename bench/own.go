package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
)

// own measures locks that nobody contends for: each goroutine has one of its own.
func (b *bench) own(ctx context.Context, goroutines int) error {
	t := &table{
		Name:    "own-" + strconv.Itoa(goroutines),
		Title:   fmt.Sprintf("Own locks, uncontended, goroutines: %d", goroutines),
		Columns: cycleColumns,
		Plotted: "one acquire and release",
		Notes: []string{
			"Each round of a contender comes right after one of the floor; the ratios are medians of those pairs, with the " +
				"least and the most.",
			restNote,
		},
	}
	return b.besideFloor(
		ctx, t,
		load{
			goroutines: min(goroutines, b.plan.Goroutines), window: b.plan.Window, name: ownName, floorName: ownFloorName,
			grace: callsEnd,
		},
		restedAndNot(),
	)
}

const restNote = "The locks of `" + contender.Lockagent +
	"` rest in the process between two holds. `lockagent-unrested` is the same without resting."

// restedAndNot are all contenders, and lockagent without resting as well.
func restedAndNot() []contender.Kind {
	i := slices.IndexFunc(contender.Kinds, func(k contender.Kind) bool { return k.Name == contender.Lockagent })
	return slices.Insert(slices.Clone(contender.Kinds), i+1, contender.Unrested)
}

// Whether peers are measured beside the floor and lockagent.
const (
	withPeers    = true
	withoutPeers = false
)

// cold measures locks of which each is used once.
func (b *bench) cold(ctx context.Context, goroutines int, peers bool) error {
	t := &table{
		Name:    "cold-" + strconv.Itoa(goroutines),
		Title:   fmt.Sprintf("Cold names: every acquire a new name, goroutines: %d", goroutines),
		Columns: cycleColumns,
		Notes:   []string{"As with own locks, but no name is used twice."},
	}
	kinds := slices.Clone(contender.Kinds)
	if !peers {
		kinds = slices.DeleteFunc(kinds, contender.Kind.IsPeer)
		t.Notes = append(t.Notes, "Peers are measured with 64 goroutines only, to save time.")
	}
	var names atomic.Int64
	name := func(int, int) string { return "bench/cold/" + strconv.FormatInt(names.Add(1), 10) }
	return b.besideFloor(
		ctx, t, load{goroutines: goroutines, window: b.plan.Window, name: name, floorName: name, grace: callsEnd}, kinds,
	)
}

// do measures what most programs do: a name is used once, by Do if the contender has that, and each call has a
// deadline.
func (b *bench) do(ctx context.Context, goroutines int) error {
	t := &table{
		Name:    "do-" + strconv.Itoa(goroutines),
		Title:   fmt.Sprintf("Names used once, a deadline on each call, goroutines: %d", goroutines),
		Columns: cycleColumns,
		Notes: []string{
			"As with cold names, but each cycle has a context of its own, from `context.WithTimeout`. lockagent uses `Do`.",
		},
	}
	var names atomic.Int64
	name := func(int, int) string { return "bench/do/" + strconv.FormatInt(names.Add(1), 10) }
	l := load{
		goroutines: goroutines, window: b.plan.Window, name: name, floorName: name, grace: callsEnd,
		deadline: patience, do: true,
	}
	return b.besideFloor(ctx, t, l, slices.Clone(contender.Kinds))
}

// paced measures latency at a fixed rate, and who can keep it.
func (b *bench) paced(ctx context.Context) error {
	const goroutines = 64
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	floor, _ := contender.Named(contender.Floor)
	rate, err := b.capacity(ctx, s, floor, goroutines)
	if err != nil {
		return err
	}
	t := &table{
		Name:    "paced",
		Title:   "Own locks at a fixed rate, 64 goroutines",
		Columns: slices.Insert(slices.Clone(cycleColumns), 1, column{Key: paceKept, Title: "of the pace"}),
		Plotted: "one acquire and release, from when it was due",
		Notes: []string{
			fmt.Sprintf(
				"Half of what the floor does in a closed loop: %s cycles/s. Latency counts from the moment when a cycle was due, "+
					"so that a stall is seen by all who would have come meanwhile (no coordinated omission). The lateness of "+
					"timers, up to 1 ms, is part of it for all alike.",
				number(rate/2),
			),
			restNote,
		},
	}
	l := load{
		goroutines: goroutines, window: 2 * b.plan.Window, name: ownName, floorName: ownFloorName, grace: callsEnd,
		every: time.Duration(goroutines / (rate / 2) * float64(time.Second)),
	}
	if err := b.besideFloor(ctx, t, l, restedAndNot()); err != nil {
		return err
	}
	if note := fellBehind(t.Rows); note != "" {
		t.Notes = append(t.Notes, note)
	}
	return nil
}

// paceKept is the part of the cycles that were due that were done.
const paceKept = "pace"

// fellBehind names those who did not keep the pace.
func fellBehind(rows []*row) string {
	const kept = 0.95 // the rest may be under way when the round ends
	var names []string
	for _, r := range rows {
		if e := r.Values[paceKept]; e.Rounds > 0 && e.Median < kept {
			names = append(names, "`"+r.Contender+"`")
		}
	}
	if names == nil {
		return ""
	}
	return "Not able to keep the pace: " + strings.Join(names, ", ") +
		". Who falls behind does so further the longer a round takes, so those latencies say how long that was."
}

// capacity is the rate of a contender in a closed loop.
func (b *bench) capacity(ctx context.Context, s *server, kind contender.Kind, goroutines int) (float64, error) {
	c, err := b.open(ctx, kind, s)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	o, err := load{goroutines: goroutines, window: b.plan.Window, name: ownName, grace: callsEnd}.run(ctx, c.Contender)
	if err != nil {
		return 0, err
	}
	return o.rate(), nil
}

var cycleColumns = []column{
	{Key: "rate", Title: "cycles/s"},
	{Key: "x-rate", Title: "x floor", Spread: true},
	{Key: "p50", Title: "p50 µs"},
	{Key: "x-p50", Title: "p50 x floor", Spread: true},
	{Key: "p99", Title: "p99 µs"},
	{Key: "x-p99", Title: "p99 x floor", Spread: true},
	{Key: "failed", Title: "failed"},
}

// besideFloor puts a load on each contender that takes part, and on the floor right before each.
func (b *bench) besideFloor(ctx context.Context, t *table, l load, kinds []contender.Kind) error {
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	floorKind, _ := contender.Named(contender.Floor)
	floor, err := b.open(ctx, floorKind, s)
	if err != nil {
		return err
	}
	defer floor.Close()
	floors := newSeries()
	var rows []*row
	for _, kind := range kinds {
		if kind.Name == contender.Floor || !b.wants(kind) {
			continue
		}
		c, err := b.open(ctx, kind, s)
		if err != nil {
			return err
		}
		found := newSeries()
		for range b.rounds(kind) {
			if err = l.pair(ctx, floor.Contender, c.Contender, floors, found); err != nil {
				break
			}
		}
		c.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", kind.Name, err)
		}
		rows = append(rows, found.row(kind.Name))
	}
	t.Rows = append([]*row{floors.row(contender.Floor)}, rows...)
	t.Notes = append(t.Notes, bestFloor(rows))
	return nil
}

// bestFloor says which configuration of the floor was the fastest.
func bestFloor(rows []*row) string {
	best, rate := contender.Floor, 1.0
	for _, r := range rows {
		kind, _ := contender.Named(r.Contender)
		if x := r.Values["x-rate"].Median; kind.Family == contender.Floor && x > rate {
			best, rate = r.Contender, x
		}
	}
	return fmt.Sprintf(
		"The configuration of the floor that is best for this case: `%s`, %s x `%s`.", best, number(rate), contender.Floor,
	)
}

// pair is one round of the floor and one of a contender.
func (l load) pair(ctx context.Context, floor, c contender.Contender, floors, found *series) error {
	collect()
	below := l
	below.name = l.floorName
	base, err := below.run(ctx, floor)
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	collect()
	o, err := l.run(ctx, c)
	if err != nil {
		return err
	}
	floors.cycles(base)
	found.cycles(o)
	if l.every > 0 {
		pace := float64(l.goroutines) / l.every.Seconds()
		floors.add(paceKept, base.rate()/pace)
		found.add(paceKept, o.rate()/pace)
	}
	found.add("x-rate", o.rate()/base.rate())
	for _, p := range []struct {
		key        string
		percentile float64
	}{{"p50", 50}, {"p99", 99}} {
		found.add("x-"+p.key, float64(o.Spans.At(p.percentile))/float64(base.Spans.At(p.percentile)))
	}
	return nil
}

// cycles adds what one round found of whole cycles.
func (s *series) cycles(o *outcome) {
	s.add("rate", o.rate())
	s.add("p50", stat.Us(o.Spans.At(50)))
	s.add("p99", stat.Us(o.Spans.At(99)))
	s.add("failed", float64(o.Failed))
	s.waits.Merge(o.Spans)
	if o.Error != "" {
		s.note = o.Error
	}
}
