package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"

	"github.com/lockagent/lockagent/bench/contender"
)

// batches are how many locks are acquired and released at a time.
var batches = []int{1, 64, 256}

// leastPair is the row of the least scripts that keep a lock as Redisson knows it.
const leastPair = "least pair"

// serverTime measures how long Redis itself is busy with an acquire and its release.
func (b *bench) serverTime(ctx context.Context) error {
	t := &table{
		Name:  "server",
		Title: "Time that Redis spends in scripts for one acquire and its release through Redis, uncontended",
		Notes: []string{
			"From `INFO commandstats`: the time of all scripts, by the number of pairs, which is the same for all. lockagent " +
				"has as many goroutines as locks at a time, each with a lock of its own, which never rests. How many of their " +
				"calls travel together is up to lockagent. `" + leastPair +
				"` is the least pair of scripts that keeps locks as Redisson knows them, a hash with a lease and a message at " +
				"its release: EXISTS, HSET, PEXPIRE, and then HDEL, PUBLISH. It has as many locks in a call as there are at a " +
				"time, and always runs the same commands for each. " +
				"`" + contender.Floor +
				"` makes a call for each lock, a string without a message: SET NX PX, and then GET, DEL. The clients have one " +
				"core meanwhile, and leave another one to the server.",
		},
	}
	for _, n := range batches {
		t.Columns = append(t.Columns,
			column{Key: batchKey("us", n), Title: fmt.Sprintf("%d at a time: µs/pair", n)},
			column{Key: batchKey("x", n), Title: "x least pair", Spread: true},
			column{Key: batchKey("locks", n), Title: "locks/call"},
		)
	}
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
	agent, err := b.open(ctx, contender.Unrested, s)
	if err != nil {
		return err
	}
	defer agent.Close()
	// A script that the scheduler interrupts would count with the time of others.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	client := floor.Contender.(*contender.FloorClient)
	sides := []*serverSide{
		// First: the base of the others.
		{name: leastPair, run: func(n, times int) error { return inCalls(ctx, client, n, times) }, found: newSeries()},
		{name: contender.Floor, run: func(n, times int) error { return oneByOne(ctx, client, n, times) }, found: newSeries()},
		{
			name: contender.Lockagent, run: func(n, times int) error { return oneByOne(ctx, agent.Contender, n, times) },
			found: newSeries(),
		},
	}
	for _, n := range batches {
		times := max(1, b.plan.Pairs/n)
		if n > 1 { // a pair takes less
			times *= 4
		}
		for round := range b.plan.OurRounds + 1 { // in the first, scripts are loaded
			base := serverCost{}
			for i, side := range sides {
				cost, err := side.measure(s, n, times)
				if err != nil {
					return fmt.Errorf("%s: %w", side.name, err)
				}
				if i == 0 {
					base = cost
				}
				if round > 0 {
					side.found.serverTime(n, cost, base)
				}
			}
		}
	}
	for _, side := range sides {
		t.Rows = append(t.Rows, side.found.row(side.name))
	}
	return nil
}

func batchKey(key string, n int) string { return key + "-" + strconv.Itoa(n) }

// serverSide is one way to acquire and release n locks a number of times.
type serverSide struct {
	name  string
	run   func(n, times int) error
	found *series
}

// serverCost is what the server spent.
type serverCost struct{ usec, locks float64 } // for a pair; in a call

// measure runs it and asks the server what that cost.
func (side *serverSide) measure(s *server, n, times int) (serverCost, error) {
	collect()
	before, err := s.stats()
	if err != nil {
		return serverCost{}, err
	}
	if err := side.run(n, times); err != nil {
		return serverCost{}, err
	}
	after, err := s.stats()
	if err != nil {
		return serverCost{}, err
	}
	pairs := float64(n * times)
	return serverCost{
		usec:  float64(after.Usec.Since(before.Usec).Scripts()) / pairs,
		locks: 2 * pairs / float64(after.Calls.Since(before.Calls).Scripts()),
	}, nil
}

// serverTime adds what a round cost.
func (s *series) serverTime(n int, cost, base serverCost) {
	s.add(batchKey("us", n), cost.usec)
	s.add(batchKey("x", n), cost.usec/base.usec)
	s.add(batchKey("locks", n), cost.locks)
}

// oneByOne has n goroutines acquire and release locks of their own.
func oneByOne(ctx context.Context, c contender.Contender, n, times int) error {
	failed := make([]error, n)
	var all sync.WaitGroup
	for g := range n {
		all.Go(func() {
			for cycle := 0; cycle < times && failed[g] == nil; cycle++ {
				var held contender.Held
				if held, failed[g] = c.Lock(ctx, ownName(g, cycle)); failed[g] == nil {
					failed[g] = held.Unlock()
				}
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// inCalls acquires n locks in one call and releases them in another.
func inCalls(ctx context.Context, client *contender.FloorClient, n, times int) error {
	for range times {
		if err := client.TakeAll(ctx, ownNames[:n]); err != nil {
			return err
		}
		if err := client.GiveAll(ctx, ownNames[:n]); err != nil {
			return err
		}
	}
	return nil
}
