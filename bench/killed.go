package main

import (
	"context"
	"fmt"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
)

// killed measures how long a waiter waits after kill -9 of the holder, beside ordinary hand-offs.
func (b *bench) killed(ctx context.Context) error {
	t := &table{
		Name:    "killed",
		Title:   "The holder is killed: kill -9 called until the waiter's Lock returned",
		Plotted: "the wait for the lock of a process that was killed",
		Columns: []column{
			{Key: "n", Title: "n"},
			{Key: "min", Title: "min µs"},
			{Key: "p50", Title: "p50 µs"},
			{Key: "p90", Title: "p90 µs"},
			{Key: "p99", Title: "p99 µs"},
			{Key: "max", Title: "max µs"},
			{Key: "x-p50", Title: "p50 x hand-off"},
			{Key: "x-p99", Title: "p99 x p50 of hand-off"},
		},
		Notes: []string{
			"Two `lockagent serve --redis` stand for two hosts; they share one Redis. `" + contender.Lockagent +
				"` is a holder and a waiter that are clients of one daemon, and `" + otherHost + "` those of two. " +
				"What a hand-off takes if nobody is killed is the base: between two clients of one daemon, and between two " +
				"processes that use Redis themselves. All take turns; the waiter has waited for 30 to 90 ms.",
		},
	}
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.serve(ctx, b); err != nil {
		return err
	}
	other, err := b.startDaemon(ctx, "--redis", "redis://"+s.Addr())
	if err != nil {
		return err
	}
	defer other.end()
	agent, _ := contender.Named(contender.Lockagent)
	ordinary := handoffsInTurn{
		{server: s, kind: contender.Daemon, n: b.plan.Kills},
		{server: s, kind: agent, n: b.plan.Kills},
	}
	defer ordinary.end()
	for _, h := range ordinary {
		if h.pair, err = b.startHandoff(ctx, s, h.kind); err != nil {
			return err
		}
	}
	kills := []*victims{{holders: s.daemon, lock: "bench/killed/here"}, {holders: s.daemon, lock: "bench/killed/there"}}
	for i, at := range []*daemon{s.daemon, other} {
		k := kills[i]
		if k.waiter, err = startWorker(ctx, k.task(at)); err != nil {
			return err
		}
		defer k.waiter.end()
	}
	for range b.plan.Kills {
		for i, h := range ordinary {
			if err := h.once(b, ctx); err != nil {
				return fmt.Errorf("%s: %w", h.kind.Name, err)
			}
			if err := kills[i].once(ctx); err != nil {
				return fmt.Errorf("the holder was killed: %w", err)
			}
		}
	}
	for i, names := range [][2]string{
		{"floor: hand-off", contender.Lockagent},
		{"floor: hand-off through Redis", otherHost},
	} {
		base := wayRow(names[0], ordinary[i].ways, ordinary[i].ways)
		killed := wayRow(names[1], kills[i].ways, ordinary[i].ways)
		killed.Values["x-p99"] = stat.Of(killed.Values["p99"].Median / base.Values["p50"].Median)
		t.Rows = append(t.Rows, base, killed)
	}
	return nil
}

// otherHost is the row of a waiter on another host than the holder's.
const otherHost = contender.Lockagent + ", another host"

// victims are holders that are killed, one after the other. A waiter gets the lock of each.
type victims struct {
	holders *daemon // whose clients they are
	lock    string
	waiter  *worker
	ways    []time.Duration
}

// task is that of a client of a daemon.
func (v *victims) task(of *daemon) task {
	return task{Role: "handoff", Contender: contender.Daemon.Name, Addr: of.socket(), Name: v.lock}
}

// once kills a holder.
func (v *victims) once(ctx context.Context) error {
	holder, err := startWorker(ctx, v.task(v.holders))
	if err != nil {
		return err
	}
	defer holder.quit()
	var m, got moment
	if err := holder.ask(order{What: "lock"}, &m); err != nil {
		return err
	}
	if err := v.waiter.say(order{What: "lock"}); err != nil {
		return err
	}
	time.Sleep(pause())
	killed := monotonic()
	if err := holder.cmd.Process.Kill(); err != nil {
		return err
	}
	if err := v.waiter.hear(&got); err != nil {
		return err
	}
	if got.Error != "" {
		return fmt.Errorf("lock: %s", got.Error)
	}
	if got.Ended < killed {
		return fmt.Errorf("%w: the lock was got %v before its holder was killed", errOverlap, time.Duration(killed-got.Ended))
	}
	v.ways = append(v.ways, time.Duration(got.Ended-killed))
	return v.waiter.ask(order{What: "unlock"}, &m)
}
