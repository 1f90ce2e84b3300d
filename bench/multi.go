package main

import (
	"context"
	"fmt"
	"time"

	"github.com/lockagent/lockagent/channelapi"
)

// multi measures how long it takes to acquire three free locks at once through Redis, beside one.
func (b *bench) multi(ctx context.Context) error {
	t := &table{
		Name:  "multi",
		Title: "Three free locks at once through Redis, 1 goroutine",
		Columns: []column{
			{Key: "one", Title: "acquire of one, µs"},
			{Key: "three", Title: "acquire of three, µs"},
			{Key: "x", Title: "x one", Spread: true},
		},
		Notes: []string{
			"The time until all are granted, without their release. The two take turns, round by round. No lock rests.",
		},
	}
	return b.alone(ctx, t, func(_ *server, of *channelapi.Locks, found *series) error {
		var locks []channelapi.AnyLock
		for i := range 3 {
			locks = append(locks, of.Lock(fmt.Sprintf("bench/multi/%d", i)))
		}
		one, err := acquiring(ctx, b.plan.Window/2, locks[:1])
		if err != nil {
			return err
		}
		three, err := acquiring(ctx, b.plan.Window/2, locks)
		if err != nil {
			return err
		}
		three += time.Duration(b.slowdown * float64(three))
		found.add("one", float64(one.Nanoseconds())/1e3)
		found.add("three", float64(three.Nanoseconds())/1e3)
		found.add("x", float64(three)/float64(one))
		return nil
	})
}

// acquiring acquires and releases the locks for a while, and returns the mean time of an acquire.
func acquiring(ctx context.Context, window time.Duration, locks []channelapi.AnyLock) (time.Duration, error) {
	var sum time.Duration
	n := 0
	for began := time.Now(); time.Since(began) < window; n++ {
		begin := time.Now()
		grants, err := channelapi.All(ctx, locks...)
		sum += time.Since(begin)
		if err != nil {
			return 0, err
		}
		for _, g := range grants {
			if err := g.Release(ctx); err != nil {
				return 0, err
			}
		}
	}
	return sum / time.Duration(n), nil
}
