package main

import (
	"context"
	"fmt"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
	"github.com/lockagent/lockagent/channelapi"
)

// restGoroutines are how many goroutines have a lock each that rests.
var restGoroutines = []int{1, 64, 1024}

func restKey(key string, goroutines int) string { return fmt.Sprintf("%s-%d", key, goroutines) }

// rest measures locks that rest: each goroutine has one of its own, and uses it again and again.
func (b *bench) rest(ctx context.Context) error {
	t := &table{
		Name:  "rest",
		Title: "Locks that rest: each goroutine has one of its own",
		Notes: []string{
			"With deadlines, each cycle has a context of its own from `context.WithTimeout`. With events, a publisher writes to an embedded NATS server with a JetStream in files, in the same process. The sides take turns. " +
				"Commands are those that clients sent.",
		},
	}
	for _, n := range restGoroutines {
		t.Columns = append(t.Columns,
			column{Key: restKey("rate", n), Title: fmt.Sprintf("%d: cycles/s", n)},
			column{Key: restKey("sent", n), Title: "commands/cycle"},
			column{Key: restKey("deadline", n), Title: "with deadlines, x without", Spread: true},
			column{Key: restKey("events", n), Title: "with events, x without", Spread: true})
	}
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	kind, _ := contender.Named(contender.Lockagent)
	bare, err := b.open(ctx, kind, s)
	if err != nil {
		return err
	}
	defer bare.Close()
	j, err := openJournal(ctx, s.Addr(), false)
	if err != nil {
		return err
	}
	defer j.close()
	logged := b.slow(j.Agent)
	other := func(goroutine, cycle int) string { return "logged/" + ownName(goroutine, cycle) } // or it would wake the first agent
	found := newSeries()
	for _, n := range restGoroutines {
		l := load{goroutines: min(n, b.plan.Goroutines), window: b.plan.Window, name: ownName, grace: callsEnd}
		hurried := l
		hurried.deadline = patience
		for range b.plan.OurRounds {
			before, err := s.counts()
			if err != nil {
				return err
			}
			collect()
			o, err := l.run(ctx, bare.Contender)
			if err != nil {
				return err
			}
			after, err := s.counts()
			if err != nil {
				return err
			}
			collect()
			with, err := hurried.run(ctx, bare.Contender)
			if err != nil {
				return err
			}
			collect()
			apart := l
			apart.name = other
			told, err := apart.run(ctx, logged)
			if err != nil {
				return err
			}
			if err := j.publisher.Flush(ctx); err != nil {
				return err
			}
			found.add(restKey("rate", n), o.rate())
			found.add(restKey("sent", n), float64(after.Since(before).Sent())/float64(max(1, o.total())))
			found.add(restKey("deadline", n), with.rate()/o.rate())
			found.add(restKey("events", n), told.rate()/o.rate())
		}
	}
	t.Rows = []*row{found.row(us)}
	return nil
}

// restPauses are those between the turns of two agents.
var restPauses = []time.Duration{time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond}

func priceKey(key string, pause time.Duration) string { return key + "-" + pause.String() }

// restPrice measures what resting costs those that share a lock: two agents that take turns, with a pause between. And what it
// costs a lock that is used once.
func (b *bench) restPrice(ctx context.Context) error {
	t := &table{
		Name:  "rest-price",
		Title: "The price of resting: two agents take turns on one lock, with a pause between the turns",
		Notes: []string{
			"The time of a grant, with resting on and off in turn. The first turns are those in which a lock still rests, and is recalled. All turns count.",
			"![The price over the pause](rest-price.svg)",
		},
	}
	for _, pause := range restPauses {
		t.Columns = append(t.Columns,
			column{Key: priceKey("on", pause), Title: fmt.Sprintf("%v: on, p50 µs", pause)},
			column{Key: priceKey("off", pause), Title: "off, p50 µs"},
			column{Key: priceKey("x", pause), Title: "x off", Spread: true},
			column{Key: priceKey("p90", pause), Title: "p90 x off"})
	}
	t.Columns = append(t.Columns, column{Key: "x-once", Title: "never used twice: p50 x off", Spread: true})
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	var pairs [2][2]contender.Contender // with resting on, and off
	for i, cfg := range []channelapi.Config{{}, {NoRest: true}} {
		for k := range pairs[i] {
			agent, err := contender.OpenAgent(ctx, s.Addr(), cfg, nil)
			if err != nil {
				return err
			}
			defer agent.Close()
			pairs[i][k] = b.slow(agent)
		}
	}
	found := newSeries()
	for _, pause := range restPauses {
		for round := range b.plan.PriceRounds {
			var took [2]*stat.Histogram
			for i, pair := range pairs {
				name := fmt.Sprintf("bench/price/%v/%d", pause, i) // the same in all rounds: what was learnt stays
				if took[i], err = turns(ctx, pair, name, pause, max(20, min(b.plan.PriceTurns, int(b.plan.PriceFor/pause)))); err != nil {
					return fmt.Errorf("pause of %v, round %d: %w", pause, round, err)
				}
			}
			found.add(priceKey("on", pause), stat.Us(took[0].At(50)))
			found.add(priceKey("off", pause), stat.Us(took[1].At(50)))
			found.add(priceKey("x", pause), float64(took[0].At(50))/float64(took[1].At(50)))
			found.add(priceKey("p90", pause), float64(took[0].At(90))/float64(took[1].At(90)))
		}
	}
	for round := range b.plan.PriceRounds {
		var took [2]*stat.Histogram
		for i, pair := range pairs {
			took[i] = stat.NewHistogram()
			for n := range b.plan.PriceTurns {
				if err := timedLock(ctx, pair[0], fmt.Sprintf("bench/price/once/%d/%d/%d", round, i, n), took[i]); err != nil {
					return err
				}
			}
		}
		found.add("x-once", float64(took[0].At(50))/float64(took[1].At(50)))
	}
	t.Rows = []*row{found.row(us)}
	return nil
}

// turns has two contenders take a lock in turn, and returns how long the grants took.
func turns(ctx context.Context, pair [2]contender.Contender, name string, pause time.Duration, n int) (*stat.Histogram, error) {
	collect()
	took := stat.NewHistogram()
	for turn := range n {
		sleep(pause)
		if err := timedLock(ctx, pair[turn%2], name, took); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// timedLock acquires and releases a lock once, and records how long the acquire took.
func timedLock(ctx context.Context, c contender.Contender, name string, took *stat.Histogram) error {
	begin := time.Now()
	held, err := c.Lock(ctx, name)
	if err != nil {
		return err
	}
	took.Record(time.Since(begin))
	return held.Unlock()
}

// restJava measures how long a thread of Redisson's waits for a lock that a goroutine uses without a pause.
func (b *bench) restJava(ctx context.Context) error {
	t := &table{
		Name:  "rest-java",
		Title: "A thread of Redisson's beside a goroutine that uses the lock without a pause",
		Columns: []column{
			{Key: "on", Title: "resting: mean wait ms"},
			{Key: "on-max", Title: "longest wait ms"},
			{Key: "off", Title: "not resting: mean wait ms"},
			{Key: "off-max", Title: "longest wait ms"},
			{Key: "more", Title: "the mean is longer by ms"},
		},
		Notes: []string{"The thread calls lock() and unlock(), and pauses for 30 ms. So the lock rests again when it comes back. What the command takes on its way to the virtual machine and back is part of the wait."},
	}
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	java, err := startMachines(ctx, s, 1)
	if err != nil {
		return err
	}
	defer java.end()
	found := newSeries()
	means := make(map[string]float64)
	for key, cfg := range map[string]channelapi.Config{"on": {}, "off": {NoRest: true}} {
		agent, err := contender.OpenAgent(ctx, s.Addr(), cfg, nil)
		if err != nil {
			return err
		}
		waits, err := java[0].waits(ctx, agent, "bench/java/"+key, b.plan.JavaWaits)
		agent.Close()
		if err != nil {
			return err
		}
		sum, longest := time.Duration(0), time.Duration(0)
		for _, w := range waits {
			sum += w
			longest = max(longest, w)
		}
		means[key] = float64(sum.Microseconds()) / 1e3 / float64(len(waits))
		found.add(key, means[key])
		found.add(key+"-max", float64(longest.Microseconds())/1e3)
	}
	found.add("more", means["on"]-means["off"])
	t.Rows = []*row{found.row(us)}
	return nil
}

// waits are how long a thread waits for a lock, each time after a pause, while a goroutine uses it.
func (m *javaMachine) waits(ctx context.Context, agent contender.Contender, name string, n int) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hot := make(chan error, 1)
	cycle := cycleOf(context.WithoutCancel(ctx), agent, name)
	go func() {
		for ctx.Err() == nil {
			if err := cycle(); err != nil {
				hot <- err
				return
			}
		}
		hot <- nil
	}()
	var waits []time.Duration
	for i := range n + 1 {
		sleep(30 * time.Millisecond)
		begin := time.Now()
		if _, err := m.ask("plain.lock", name, -1); err != nil {
			return nil, err
		}
		if i > 0 { // at first, classes are loaded
			waits = append(waits, time.Since(begin))
		}
		if _, err := m.ask("plain.unlock", name); err != nil {
			return nil, err
		}
	}
	cancel()
	return waits, <-hot
}

// restKilled measures how long others wait when a process in a hot loop is killed.
func (b *bench) restKilled(ctx context.Context) error {
	t := &table{
		Name:    "rest-killed",
		Title:   "A process that uses a lock without a pause is killed: kill -9 called until the waiter's Lock returned",
		Columns: []column{{Key: "wait", Title: "ms", Spread: true}},
		Notes:   []string{"The waiter asks when the process is gone. The lock is then free when the lease in Redis is over."},
	}
	b.results.Tables = append(b.results.Tables, t)
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	kind, _ := contender.Named(contender.Lockagent)
	waiter, err := b.open(ctx, kind, s)
	if err != nil {
		return err
	}
	defer waiter.Close()
	found := newSeries()
	for kill := range b.plan.RestKills {
		name := fmt.Sprintf("bench/rest-killed/%d", kill)
		w, err := startWorker(ctx, task{Role: "hot", Contender: kind.Name, Addr: s.Addr(), Name: name})
		if err != nil {
			return err
		}
		var m moment
		err = w.hear(&m) // it has begun
		begin := time.Now()
		w.quit()
		if err != nil {
			return err
		}
		held, err := waiter.Lock(ctx, name)
		if err != nil {
			return err
		}
		found.add("wait", float64(time.Since(begin).Microseconds())/1e3)
		if err := held.Unlock(); err != nil {
			return err
		}
	}
	t.Rows = []*row{found.row(us)}
	return nil
}

// hotWorker uses a lock without a pause until it is killed. It says so when the lock rests.
func hotWorker(ctx context.Context, t *task, parent *conversation) error {
	c, err := t.open(ctx)
	if err != nil {
		return err
	}
	cycle := cycleOf(ctx, c, t.Name)
	for n := 0; ; n++ {
		if err := cycle(); err != nil {
			return err
		}
		if n == 100 {
			if err := parent.say(moment{}); err != nil {
				return err
			}
		}
	}
}
