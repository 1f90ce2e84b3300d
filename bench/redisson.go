package main

import (
	"context"
	"fmt"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/interop/redisson/driver"
)

// besideRedisson has the kinds of lock that are measured beside the real Redisson. The driver has a name for each.
var besideRedisson = []struct {
	lock   string
	title  string
	shared bool
}{
	{"plain", "plain lock", false},
	{"fair", "fair lock", false},
	{"read", "read lock", true},
}

const (
	theirs  = "redisson"
	threads = 8 // of each process, or goroutines
)

// redisson measures one lock that several processes want, beside as many virtual machines with Redisson. The rounds of
// the two alternate.
func (b *bench) redisson(ctx context.Context) error {
	if err := driver.Available(); err != nil {
		return err
	}
	t := &table{
		Name: "redisson",
		Title: fmt.Sprintf(
			"One lock, %d processes with %d threads each, nothing inside, beside Redisson", b.plan.Processes, threads,
		),
		Notes: []string{
			"Redisson runs in as many Java virtual machines with as many threads, on its default configuration. They have run " +
				"for a round before the first that counts.",
			"The wait is the longest of any thread. Commands are those that clients sent.",
		},
	}
	for _, kind := range besideRedisson {
		t.Columns = append(t.Columns,
			column{Key: kind.lock + "-rate", Title: kind.title + ", grants/s"},
			column{Key: kind.lock + "-x", Title: "x redisson", Spread: true},
			column{Key: kind.lock + "-sent", Title: "commands/grant"},
			column{Key: kind.lock + "-max", Title: "longest wait ms"})
	}
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	java, err := startMachines(ctx, s, b.plan.Processes)
	if err != nil {
		return err
	}
	defer java.end()
	ours, _ := contender.Named(contender.Lockagent)
	here, there := newSeries(), newSeries()
	for _, kind := range besideRedisson {
		c := crowd{
			name: "redisson-" + kind.lock, processes: b.plan.Processes, goroutines: threads, lockKind: kind.lock,
			shared: kind.shared,
		}
		if _, err := java.rush(kind.lock, threads, b.window(c)); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
		for range b.plan.SharedRounds {
			before, err := s.counts()
			if err != nil {
				return err
			}
			r, err := java.rush(kind.lock, threads, b.window(c))
			if err != nil {
				return err
			}
			after, err := s.counts()
			if err != nil {
				return err
			}
			o, err := b.crowd(ctx, s, c, ours, task{})
			if err != nil {
				return err
			}
			rate := float64(r.grants) / b.window(c).Seconds()
			there.add(kind.lock+"-rate", rate)
			there.add(kind.lock+"-sent", float64(after.Since(before).Sent())/float64(max(1, r.grants)))
			there.add(kind.lock+"-max", float64(r.longest.Milliseconds()))
			here.add(kind.lock+"-rate", o.rate())
			here.add(kind.lock+"-x", o.rate()/rate)
			here.add(kind.lock+"-sent", o.sent)
			here.add(kind.lock+"-max", float64(o.Waits.Max().Milliseconds()))
		}
	}
	t.Rows = []*row{here.row(us), there.row(theirs)}
	return nil
}
