package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/channelapi"
)

// readers measures many readers of one process, beside one goroutine that takes a lock alone, each time
// through Redis.
func (b *bench) readers(ctx context.Context) error {
	const many = 64
	t := &table{
		Name:  "readers",
		Title: fmt.Sprintf("Read lock, %d goroutines of one process, nothing inside", many),
		Columns: []column{
			{Key: "alone", Title: "exclusive through Redis, grants/s"},
			{Key: "rate", Title: "readers, grants/s"},
			{Key: "x", Title: "x exclusive", Spread: true},
			{Key: "sent", Title: "commands/grant of readers"},
			{Key: "least", Title: "least/mean of readers"},
			{Key: "most", Title: "most/mean"},
		},
		Notes: []string{
			"The exclusive lock is a plain one that one goroutine acquires and releases, and nobody else wants. The two take " +
				"turns, round by round.",
			"A reader that nothing keeps waiting goes on until Go's scheduler takes its turn, after 10 ms. That decides about " +
				"the least and the most.",
		},
	}
	return b.alone(ctx, t, func(s *server, locks *channelapi.Locks, found *series) error {
		one, err := cycling(ctx, locks.Lock("bench/readers/alone"), 1, b.plan.Window)
		if err != nil {
			return err
		}
		before, err := s.counts()
		if err != nil {
			return err
		}
		all, err := cycling(ctx, locks.ReadLock("bench/readers/read"), many, b.plan.Window)
		if err != nil {
			return err
		}
		after, err := s.counts()
		if err != nil {
			return err
		}
		rate := all.rate() / (1 + b.slowdown)
		found.add("alone", one.rate())
		found.add("rate", rate)
		found.add("x", rate/one.rate())
		found.add("sent", float64(after.Since(before).Sent())/float64(max(1, all.total())))
		found.fairness("", all.Cycles)
		return nil
	})
}

// alone measures an agent of ours that has a server to itself, and whose locks never rest. The table gets one row.
// round measures once, and adds what it has found.
func (b *bench) alone(
	ctx context.Context, t *table, round func(s *server, locks *channelapi.Locks, found *series) error,
) error {
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	agent, err := contender.OpenAgent(ctx, s.Addr(), channelapi.Config{NoRest: true}, nil)
	if err != nil {
		return err
	}
	defer agent.Close()
	found := newSeries()
	for range b.plan.OurRounds {
		if err := round(s, agent.Locks(), found); err != nil {
			return err
		}
	}
	t.Rows = []*row{found.row(contender.Lockagent)}
	return nil
}

// cycling has goroutines acquire and release a lock for a while. Unlike a load it takes no times: that would
// cost a good part of a grant that needs no command.
func cycling(ctx context.Context, lock *channelapi.Lock, goroutines int, window time.Duration) (*outcome, error) {
	collect()
	ctx, cancel := context.WithTimeout(ctx, window+patience)
	defer cancel()
	o := &outcome{Cycles: make([]int64, goroutines)}
	var over atomic.Bool
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	began := time.Now()
	for g := range goroutines {
		all.Go(func() {
			done := int64(0) // not in o.Cycles, which has its neighbours in the same cache line
			for ; !over.Load(); done++ {
				grant, err := lock.Acquire(ctx)
				if err == nil {
					err = grant.Release(ctx)
				}
				if err != nil {
					failed.Store(&err)
					break
				}
			}
			o.Cycles[g] = done
		})
	}
	time.Sleep(window)
	over.Store(true)
	all.Wait()
	o.Seconds = time.Since(began).Seconds()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return o, nil
}
