package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
	"github.com/lockagent/lockagent/channelapi"
)

// restKilled measures how long a lock that rests keeps others out after kill -9 of the process that it rests in.
func (b *bench) restKilled(ctx context.Context) error {
	t := &table{
		Name:  "rest-killed",
		Title: "The process that uses a lock again and again is killed: kill -9 called until another process has the lock",
		Columns: []column{
			{Key: "n", Title: "n"},
			{Key: "min", Title: "min ms"},
			{Key: "p50", Title: "p50 ms"},
			{Key: "max", Title: "max ms"},
		},
		Notes: []string{
			"Each process has a lock of its own, and acquires and releases it in one goroutine without a pause. The other " +
				"process asks for the lock up to 0.2 ms before the process is killed, or right after that, in turn. If it was " +
				"granted the lock before, it asks once more.",
		},
	}
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	waiter, err := contender.OpenAgent(ctx, s.Addr(), channelapi.Config{}, nil)
	if err != nil {
		return err
	}
	defer waiter.Close()
	waits := make([]time.Duration, b.plan.RestKills)
	failed := make([]error, b.plan.RestKills)
	var all sync.WaitGroup
	defer all.Wait()
	for i := range b.plan.RestKills {
		victim := task{
			Role: "hot", Contender: contender.Lockagent, Addr: s.Addr(), Name: "bench/rest-killed/" + strconv.Itoa(i),
		}
		w, err := startWorker(ctx, victim)
		if err != nil {
			return err
		}
		if err := w.hear(new(string)); err != nil {
			w.quit()
			return err
		}
		sleep(pause())
		killed := make(chan time.Time, 1)
		wait := func() { waits[i], failed[i] = after(ctx, waiter, victim.Name, killed) }
		if i%2 == 1 {
			all.Go(wait)
			sleep(rand.N(200 * time.Microsecond))
		}
		at := time.Now()
		err = w.cmd.Process.Kill()
		killed <- at
		if i%2 == 0 {
			all.Go(wait)
		}
		w.quit()
		if err != nil {
			return err
		}
	}
	all.Wait() // the waits overlap
	found := newSeries()
	h := stat.NewHistogram()
	for i, d := range waits {
		if failed[i] != nil {
			return fmt.Errorf("process %d was killed: %w", i, failed[i])
		}
		h.Record(d)
	}
	found.add("n", float64(len(waits)))
	found.add("min", inMs(h.At(0)))
	found.add("p50", inMs(h.At(50)))
	found.add("max", inMs(h.Max()))
	t.Rows = []*row{found.row(contender.Lockagent)}
	return nil
}

// after waits for a lock, and returns how long after the kill it was granted.
func after(ctx context.Context, c contender.Contender, name string, killed <-chan time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	held, err := c.Lock(ctx, name)
	got := time.Now()
	at := <-killed
	if err == nil && got.Before(at) {
		if err = held.Unlock(); err == nil {
			held, err = c.Lock(ctx, name)
			got = time.Now()
		}
	}
	if err != nil {
		return 0, err
	}
	return got.Sub(at), held.Unlock()
}

// hotWorker uses a lock again and again until it is killed.
func hotWorker(ctx context.Context, t *task, parent *conversation) error {
	c, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	cycle := cycleOf(ctx, c, t.Name)
	for range 1000 {
		if err := cycle(); err != nil {
			return err
		}
	}
	if err := parent.say("ready"); err != nil {
		return err
	}
	for {
		if err := cycle(); err != nil {
			return err
		}
	}
}
