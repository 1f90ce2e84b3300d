package main

import (
	"context"
	"errors"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/channelapi"
)

// reentrant measures an acquire and release of a lock that the session holds already,
// beside what two switches between goroutines cost on this machine.
func (b *bench) reentrant(ctx context.Context) error {
	t := &table{
		Name:  "reentrant",
		Title: "Re-entrant acquire and release in a session",
		Columns: []column{
			{Key: "ns", Title: "ns"},
			{Key: "x", Title: "x echo", Spread: true},
			{Key: "commands", Title: "Redis commands"},
			{Key: "cycles", Title: "in cycles"},
		},
		Notes: []string{
			"The echo is a goroutine that sends back what it receives, over channels without a buffer. Commands are all that " +
				"the server ran meanwhile, whoever sent them.",
		},
	}
	b.results.Tables = append(b.results.Tables, t)
	found, echoes, err := b.reentrants(ctx, b.plan.OurRounds)
	if err != nil {
		return err
	}
	t.Rows = []*row{echoes.row("echo"), found.row(contender.Lockagent)}
	return nil
}

func (b *bench) reentrants(ctx context.Context, rounds int) (found, echoes *series, err error) {
	s, err := startServer()
	if err != nil {
		return nil, nil, err
	}
	defer s.stop()
	agent, err := contender.OpenAgent(ctx, s.Addr(), channelapi.Config{}, nil)
	if err != nil {
		return nil, nil, err
	}
	defer agent.Close()
	session, err := agent.Session()
	if err != nil {
		return nil, nil, err
	}
	lock := session.Lock("bench/reentrant")
	outer, err := lock.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	ping, stop := newEcho()
	defer stop()
	found, echoes = newSeries(), newSeries()
	for range rounds {
		echo, _, err := timed(b.plan.Window/2, ping)
		if err != nil {
			return nil, nil, err
		}
		before, err := s.counts()
		if err != nil {
			return nil, nil, err
		}
		ns, cycles, err := timed(b.plan.Window/2, b.wasting(func() error {
			inner, err := lock.Acquire(ctx)
			if err != nil {
				return err
			}
			return inner.Release(ctx)
		}))
		if err != nil {
			return nil, nil, err
		}
		after, err := s.counts()
		if err != nil {
			return nil, nil, err
		}
		echoes.add("ns", echo)
		found.add("ns", ns)
		found.add("x", ns/echo)
		found.add("commands", float64(after.Since(before).All()))
		found.add("cycles", float64(cycles))
	}
	if !outer.Held() {
		return nil, nil, errors.New("the outer hold was lost")
	}
	return found, echoes, nil
}

// timed repeats something for a while and returns how many nanoseconds one took.
func timed(d time.Duration, do func() error) (ns float64, n int, err error) {
	begin := time.Now()
	for time.Since(begin) < d {
		for range 16 {
			if err := do(); err != nil {
				return 0, n, err
			}
			n++
		}
	}
	return float64(time.Since(begin)) / float64(n), n, nil
}

// wasting is a cycle that takes longer by the part that is to be wasted.
func (b *bench) wasting(cycle func() error) func() error {
	if b.slowdown == 0 {
		return cycle
	}
	return func() error {
		begin := time.Now()
		err := cycle()
		now := time.Now()
		contender.Waste(now, time.Duration(b.slowdown*float64(now.Sub(begin))))
		return err
	}
}

// newEcho starts a goroutine that sends back what ping sends it.
func newEcho() (ping func() error, stop func()) {
	there, back := make(chan int), make(chan int)
	go func() {
		defer close(back)
		for v := range there {
			back <- v
		}
	}()
	ping = func() error {
		there <- 0
		<-back
		return nil
	}
	return ping, func() {
		close(there)
		<-back
	}
}
