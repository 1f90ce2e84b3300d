package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
)

// restCrowds are how many goroutines have a lock each that rests.
var restCrowds = []int{1, 64, 1024}

// restRow is the row of so many goroutines.
func restRow(goroutines int) string {
	if goroutines == 1 {
		return us
	}
	return fmt.Sprintf("%s, %d goroutines", us, goroutines)
}

// rest measures locks that rest, with and without deadlines and an event log.
func (b *bench) rest(ctx context.Context) error {
	t := &table{
		Name:  "rest",
		Title: "Locks that rest: each goroutine has one of its own, 1, 64 and 1024 goroutines",
		Columns: []column{
			{Key: "rate", Title: "cycles/s"},
			{Key: "sent", Title: "commands/cycle"},
			{Key: "d-rate", Title: "with deadlines, cycles/s"},
			{Key: "d-x", Title: "x without", Spread: true},
			{Key: "d-sent", Title: "commands/cycle"},
			{Key: "e-rate", Title: "with the event log, cycles/s"},
			{Key: "e-x", Title: "x without", Spread: true},
			{Key: "e-sent", Title: "commands/cycle"},
			{Key: "dropped", Title: "events dropped"},
		},
		Notes: []string{
			"The rates beside the floor's are in the tables of own locks. With deadlines, each call of Lock has a context of " +
				"its own from `context.WithTimeout`, and making that counts. The event log is that of the table `events`. The " +
				"three take turns, round by round. At the beginning of a round no lock rests. Commands are those that clients " +
				"sent, see bench/commandstats.",
		},
	}
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	agent, err := b.open(ctx, asItComes(), s)
	if err != nil {
		return err
	}
	defer agent.Close()
	j, err := openJournal(ctx, s.Addr())
	if err != nil {
		return err
	}
	defer j.close()
	logged := b.slow(j.Agent)
	for _, goroutines := range restCrowds {
		found := newSeries()
		l := load{goroutines: min(goroutines, b.plan.Goroutines), window: b.plan.Window, name: ownName, grace: callsEnd}
		for range b.plan.OurRounds {
			without, err := l.resting(ctx, s, agent.Contender, found, "")
			if err != nil {
				return err
			}
			bounded := l
			bounded.deadline = patience
			with, err := bounded.resting(ctx, s, agent.Contender, found, "d-")
			if err != nil {
				return fmt.Errorf("with deadlines: %w", err)
			}
			found.add("d-x", with/without)
			apart := l
			apart.name = ownLoggedName
			was := j.publisher.Stats()
			if with, err = apart.resting(ctx, s, logged, found, "e-"); err != nil {
				return fmt.Errorf("with the event log: %w", err)
			}
			found.add("e-x", with/without)
			if err := j.publisher.Flush(ctx); err != nil {
				return err
			}
			found.add("dropped", float64(j.publisher.Stats().Dropped-was.Dropped))
		}
		t.Rows = append(t.Rows, found.row(restRow(goroutines)))
	}
	return nil
}

// ownLoggedName is a lock that another agent has for a goroutine. One that rests in the first agent would have to be
// recalled.
func ownLoggedName(goroutine, _ int) string { return ownLoggedNames[goroutine] }

var ownLoggedNames = numbered("bench/logged/")

// resting is one round of locks that rest. It returns the rate.
func (l load) resting(
	ctx context.Context, s *server, c contender.Contender, found *series, prefix string,
) (float64, error) {
	collect()
	before, err := s.counts()
	if err != nil {
		return 0, err
	}
	o, err := l.run(ctx, c)
	if err != nil {
		return 0, err
	}
	after, err := s.counts()
	if err != nil {
		return 0, err
	}
	if o.Error != "" {
		found.note = o.Error
	}
	found.add(prefix+"rate", o.rate())
	found.add(prefix+"sent", float64(after.Since(before).Sent())/float64(max(1, o.total())))
	return o.rate(), nil
}

// eachRest is a target of a figure of all restCrowds.
func eachRest(key, format string, reached func(v float64) bool) measurement {
	return func(f figures) (string, bool) {
		var said []string
		all := true
		for _, goroutines := range restCrowds {
			v := f.of("rest", restRow(goroutines), key)
			said = append(said, fmt.Sprintf(format, v))
			all = all && reached(v)
		}
		return strings.Join(said, ", "), all
	}
}

// few reports whether so many commands a cycle are as few as wanted.
func few(v float64) bool { return v < 0.01 }

// price is a target of what resting costs those who take turns.
func price(key string, most float64) measurement {
	return func(f figures) (string, bool) {
		v := f.ours("rest-price", "x-"+key)
		return atMost(most, v, "%.2f x (%.0f µs to %.0f µs); in the mean %.2f x", v,
			f.ours("rest-price", "p50-"+key), f.of("rest-price", contender.Unrested.Name, "p50-"+key),
			f.ours("rest-price", "m-"+key))
	}
}

// inMs is a duration as tables show it.
func inMs(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
