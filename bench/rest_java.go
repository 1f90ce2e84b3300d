package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
	"github.com/lockagent/lockagent/interop/redisson/driver"
)

// restGap is the time between two holds of a lock before Java asks for it. With it a lock rests for as long as it ever
// does.
const restGap = 15 * time.Millisecond

// javaTurn is how long a lock that Java has just had does not rest, and a little more.
const javaTurn = 260 * time.Millisecond

// restJava measures how long Redisson waits for a lock that rests. It tells no agent that it wants the lock.
func (b *bench) restJava(ctx context.Context) error {
	if err := driver.Available(); err != nil {
		return err
	}
	t := &table{
		Name:  "rest-java",
		Title: "Redisson waits for a lock that rests in an agent",
		Columns: []column{
			{Key: "n", Title: "n"},
			{Key: "rested", Title: "of them met a rest"},
			{Key: "p50", Title: "p50 ms"},
			{Key: "p99", Title: "p99 ms"},
			{Key: "max", Title: "max ms"},
			{Key: "h-n", Title: "beside a hot loop: n"},
			{Key: "h-p50", Title: "p50 ms"},
			{Key: "h-p99", Title: "p99 ms"},
			{Key: "h-max", Title: "max ms"},
			{Key: "h-rate", Title: "cycles/s of the loop"},
		},
		Notes: []string{
			fmt.Sprintf(
				"The agent uses the lock every %v until it rests, and a few times more, and then Java calls `tryLock`. Its wait "+
					"counts from the command to the driver until the answer. The row of `%s` is of an agent whose locks never rest. "+
					"Both take turns. ",
				restGap, contender.Unrested.Name,
			) +
				"The hot loop is one goroutine that acquires and releases the lock without a pause. Java calls `tryLock` again " +
				"after 260 to 360 ms, because a lock that Java has just had does not rest for a quarter of a second.",
		},
	}
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	all, err := startMachines(ctx, s, 1)
	if err != nil {
		return err
	}
	defer all.end()
	java := all[0]
	if _, err := all.rush("plain", 1, b.plan.Window); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	sides := []*besideJava{{kind: asItComes()}, {kind: contender.Unrested}}
	for _, side := range sides {
		if side.agent, err = b.open(ctx, side.kind, s); err != nil {
			return err
		}
		defer side.agent.Close()
		side.name, side.waits, side.hot = "bench/java/"+side.kind.Name, stat.NewHistogram(), stat.NewHistogram()
	}
	rested, unrested := sides[0], sides[1]
	for i := range b.plan.JavaWaits {
		if err := rested.untilItRests(ctx, i%6); err != nil {
			return err
		}
		if err := java.take(rested.name, rested.waits); err != nil {
			return err
		}
		if err := unrested.use(ctx, 3); err != nil {
			return err
		}
		if err := java.take(unrested.name, unrested.waits); err != nil {
			return err
		}
	}
	for i, side := range sides {
		if err := side.besideHotLoop(ctx, java, max(1, b.plan.HotWaits>>(3*i))); err != nil {
			return fmt.Errorf("%s, beside a hot loop: %w", side.kind.Name, err)
		}
		found := newSeries()
		found.add("n", float64(b.plan.JavaWaits))
		found.add("rested", float64(side.rested))
		found.add("h-n", float64(side.hot.Count()))
		found.add("h-rate", side.rate)
		found.waitsInMs("", side.waits)
		found.waitsInMs("h-", side.hot)
		t.Rows = append(t.Rows, found.row(side.kind.Name))
	}
	return nil
}

func (s *series) waitsInMs(prefix string, h *stat.Histogram) {
	s.add(prefix+"p50", inMs(h.At(50)))
	s.add(prefix+"p99", inMs(h.At(99)))
	s.add(prefix+"max", inMs(h.Max()))
}

// besideJava is an agent, and a lock that Java wants as well.
type besideJava struct {
	kind   contender.Kind
	agent  *opened
	name   string
	rested int             // how often the lock rested when Java asked for it
	waits  *stat.Histogram // of Java, for a lock that was used a few times
	hot    *stat.Histogram // beside a hot loop
	rate   float64         // of that
}

// untilItRests uses the lock until it rests in the agent, and some times more. It notes whether the lock rests then. It
// looks only once, because an agent that is asked about a free lock forgets how it was used.
func (j *besideJava) untilItRests(ctx context.Context, more int) error {
	const enough = int(javaTurn/restGap) + 4
	if err := j.use(ctx, enough+more); err != nil {
		return err
	}
	resting, err := j.resting(ctx)
	if resting {
		j.rested++
	}
	return err
}

// use acquires and releases the lock a few times.
func (j *besideJava) use(ctx context.Context, times int) error {
	cycle := cycleOf(ctx, j.agent.Contender, j.name)
	for range times {
		sleep(restGap)
		if err := cycle(); err != nil {
			return err
		}
	}
	return nil
}

// resting reports whether the lock rests in the agent.
func (j *besideJava) resting(ctx context.Context) (bool, error) {
	c := j.agent.Contender
	if slowed, ok := c.(*contender.Slowed); ok {
		c = slowed.Contender
	}
	status, err := c.(*contender.Agent).Locks().Lock(j.name).Status(ctx)
	return status.Resting, err
}

// besideHotLoop has Java lock the lock again and again, while one goroutine does without a pause.
func (j *besideJava) besideHotLoop(ctx context.Context, java *javaMachine, times int) (err error) {
	collect()
	ctx, stop := context.WithCancel(ctx)
	over := make(chan *outcome, 1)
	failed := make(chan error, 1)
	go func() {
		o := &outcome{Cycles: make([]int64, 1)}
		cycle := cycleOf(context.WithoutCancel(ctx), j.agent.Contender, j.name)
		began := time.Now()
		for ctx.Err() == nil {
			if err := cycle(); err != nil {
				failed <- err
				break
			}
			o.Cycles[0]++
		}
		o.Seconds = time.Since(began).Seconds()
		over <- o
	}()
	for range times {
		sleep(javaTurn + rand.N(100*time.Millisecond))
		if err = java.take(j.name, j.hot); err != nil {
			break
		}
	}
	stop()
	j.rate = (<-over).rate()
	select {
	case err := <-failed:
		return err
	default:
		return err
	}
}

// take has Java lock a lock and unlock it, and notes how long it waited.
func (m *javaMachine) take(name string, waits *stat.Histogram) error {
	begin := time.Now()
	got, err := m.call("plain.tryLock", name, fmt.Sprint(patience.Milliseconds()), "-1")
	if err != nil {
		return err
	}
	if got != "true" {
		return fmt.Errorf("tryLock is %s after %v", got, time.Since(begin))
	}
	waits.Record(time.Since(begin))
	_, err = m.call("plain.unlock", name)
	return err
}
