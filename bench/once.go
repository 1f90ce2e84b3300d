package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
)

// once measures whether names that were used once leave the memory again.
func (b *bench) once(ctx context.Context) error {
	t := &table{
		Name:  "once-1000000",
		Title: fmt.Sprintf("%d names used once and left idle", b.plan.Names),
		Columns: []column{
			{Key: "use", Title: "used in s"},
			{Key: "before", Title: "heap before, KB"},
			{Key: "after", Title: "right after, KB"},
			{Key: "idle", Title: "idle, KB"},
			{Key: "settle", Title: "after s"},
			{Key: "percent", Title: "idle, % of before"},
			{Key: "failed", Title: "failed"},
		},
		Notes: []string{
			"By 1024 goroutines of a process of its own, on its default configuration (Idle 10 s). Heap is what is in use " +
				"after a collection; before is after one acquire and release.",
		},
	}
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	w, err := startWorker(ctx, task{
		Role: "once", Contender: contender.Lockagent, Addr: s.Addr(), Locks: b.plan.Names, Window: b.plan.Settle,
	})
	if err != nil {
		return err
	}
	defer w.quit()
	var r onceReport
	if err := w.hear(&r); err != nil {
		return err
	}
	found := newSeries()
	found.add("use", r.Use)
	found.add("before", r.Before/1024)
	found.add("after", r.After/1024)
	found.add("idle", r.Idle/1024)
	found.add("settle", r.Settle)
	found.add("percent", 100*r.Idle/r.Before)
	found.add("failed", float64(r.Failed))
	t.Rows = append(t.Rows, found.row(contender.Lockagent))
	return nil
}

type onceReport struct {
	Use, Settle         float64 // seconds
	Before, After, Idle float64 // bytes
	Failed              int64
}

// onceWorker uses many names once.
func onceWorker(ctx context.Context, t *task, parent *conversation) error {
	c, err := t.open(ctx)
	if err != nil {
		return err
	}
	cycle := func(name string) error {
		held, err := c.Lock(ctx, name)
		if err != nil {
			return err
		}
		return held.Unlock()
	}
	if err := cycle("bench/once"); err != nil {
		return err
	}
	const goroutines = 1024
	// The runtime keeps what a goroutine needs when it has ended; that of the
	// benchmark's own is not to count.
	var all sync.WaitGroup
	begun := make(chan struct{})
	for range goroutines {
		all.Go(func() { <-begun })
	}
	close(begun)
	all.Wait()
	r := onceReport{Before: heap()}
	begin := time.Now()
	var next, failed atomic.Int64
	for range goroutines {
		all.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(t.Locks) {
					return
				}
				if cycle("bench/once/"+strconv.FormatInt(i, 10)) != nil {
					failed.Add(1)
				}
			}
		})
	}
	all.Wait()
	r.Failed, r.Use = failed.Load(), time.Since(begin).Seconds()
	r.After = heap()
	begin = time.Now()
	for r.Idle = r.After; r.Idle > 1.02*r.Before && time.Since(begin) < t.Window; r.Idle = heap() {
		time.Sleep(time.Second)
	}
	r.Settle = time.Since(begin).Seconds()
	return parent.say(r)
}
