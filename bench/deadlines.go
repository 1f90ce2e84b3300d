package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
)

var deadlineColumns = []column{
	{Key: "d-rate", Title: "with deadlines, grants/s", Spread: true},
	{Key: "timeout", Title: "WithTimeout ns"},
	{Key: "d-x", Title: "time with deadlines less WithTimeout, x without", Spread: true},
}

const deadlineNote = "With deadlines, each call of Lock has a context of its own from `context.WithTimeout`, " +
	"cancelled after Unlock; without, each goroutine has one for the round. " +
	"The two rounds alternate. WithTimeout is what making and cancelling a context costs by itself: the time in which " +
	"as many goroutines do so once, on all cores. The ratio is that of the time between two grants, with deadlines less " +
	"WithTimeout, to that without."

// deadlines adds a round in which each call has a deadline, after one in which none has.
func (b *bench) deadlines(
	ctx context.Context, s *server, c crowd, kind contender.Kind, without *crowdOutcome, found *series,
) error {
	timeout := timeouts(ctx, c.goroutines, b.window(c)/10)
	with, err := b.crowd(ctx, s, c.withDeadlines(), kind, task{})
	if err != nil {
		return err
	}
	found.deadlines(without.rate(), with.rate(), timeout)
	return nil
}

// deadlines adds the grants per second of two rounds, and what a context takes.
func (s *series) deadlines(without, with float64, timeout time.Duration) {
	s.add("d-rate", with)
	s.add("timeout", float64(timeout))
	s.add("d-x", (1/with-timeout.Seconds())*without)
}

// timeouts is how long it takes to make and cancel a context with a deadline. So many
// goroutines do nothing else: the time that passes is divided by the contexts of all.
func timeouts(ctx context.Context, goroutines int, window time.Duration) time.Duration {
	collect()
	var made atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for range goroutines {
		all.Go(func() {
			parent, cancel := context.WithTimeout(ctx, window+patience) // as a goroutine of a load has
			defer cancel()
			n := int64(0)
			for ; n == 0 || time.Since(begin) < window; n++ {
				_, cancel := context.WithTimeout(parent, patience)
				cancel()
			}
			made.Add(n)
		})
	}
	all.Wait()
	return time.Since(begin) / time.Duration(made.Load())
}
