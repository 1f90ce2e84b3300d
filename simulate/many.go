package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// tally counts the runs of many plans.
type tally struct {
	mu      sync.Mutex // guards what follows, and the output
	next    uint64     // seed
	last    uint64     // or 0 if there is no last one
	runs    int
	holds   int
	failed  []uint64 // seeds
	excused int
	broken  error // why no more plans are run
}

// many runs the plans of many seeds, until ctx ends or there were so many. If most is 0 there is no such number.
func (s *simulation) many(ctx context.Context, from uint64, most, parallel int) error {
	began := time.Now()
	t := &tally{next: from}
	if most > 0 {
		t.last = from + uint64(most) - 1
	}
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for seed, more := t.take(ctx); more; seed, more = t.take(ctx) {
				s.count(context.WithoutCancel(ctx), t, seed)
			}
		})
	}
	all.Wait()
	if t.broken != nil {
		return t.broken
	}
	fmt.Fprintf(
		s.out, "%d runs from seed %d on, with %d holds, in %v: %d failed, and %d have overlaps that a fault explains\n",
		t.runs, from, t.holds, time.Since(began).Round(time.Second), len(t.failed), t.excused,
	)
	if len(t.failed) > 0 {
		return fmt.Errorf("%w: %d of %d, with the seeds %v", errFailed, len(t.failed), t.runs, t.failed)
	}
	return nil
}

// take returns the next seed, and false if there are no more.
func (t *tally) take(ctx context.Context) (uint64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil || t.broken != nil || t.last != 0 && t.next > t.last {
		return 0, false
	}
	t.next++
	return t.next - 1, true
}

// count runs the plan of a seed, and counts what the judges say. It tells of a run that fails.
func (s *simulation) count(ctx context.Context, t *tally, seed uint64) {
	of := s.settings
	of.seed = seed
	p, err := of.plan()
	var o *outcome
	if err == nil {
		o, err = s.machine.run(ctx, p, nil)
	}
	var v verdict
	if err == nil {
		v = judge(o)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.broken = fmt.Errorf("seed %d: %w", seed, err)
		return
	}
	t.runs++
	t.holds += len(o.holds)
	if len(v.excused) > 0 {
		t.excused++
	}
	if len(v.wrong) > 0 {
		t.failed = append(t.failed, seed)
		fmt.Fprint(s.out, s.report(o, v))
	}
}
