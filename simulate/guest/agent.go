package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/simulate/plan"
)

// agent is one life of an agent, with its workers.
type agent struct {
	world       *world
	index, life int
	link        *link
	log         *eventLog

	alive context.Context // ends when the agent dies
	end   context.CancelFunc

	locks   *channelapi.Locks // once ready is closed
	store   *redisstore.Store
	ready   chan struct{}
	workers sync.WaitGroup

	mu     sync.Mutex // guards what follows
	stands time.Time  // until then the agent does nothing
}

func newAgent(w *world, index, life int) *agent {
	name := fmt.Sprintf("a%d.%d", index, life)
	a := &agent{
		world: w, index: index, life: life, link: newLink(w, name, uint64(100+index+1000*life)),
		log: newEventLog(w, channelapi.NewAgentID()), ready: make(chan struct{}),
	}
	a.alive, a.end = context.WithCancel(context.Background())
	return a
}

// live connects the agent, and has its workers work until the agent dies or the time for work is over.
func (a *agent) live() {
	url := "redis://" + a.link.addr()
	config := redisstore.Config{Logger: slog.New(slog.DiscardHandler)}
	if a.world.plan.NoGrace {
		config.Grace = redisstore.GraceOff
	}
	var err error
	for {
		if a.store, err = config.Open(a.alive, url); err == nil {
			break
		}
		a.world.note("agent %d: %v", a.index, err)
		if sleep(a.alive, 100*time.Millisecond); a.isDead() {
			return
		}
	}
	a.locks, err = channelapi.New(channelapi.Config{
		Store: a.store, ID: a.log.agent, Recorder: a.log, Lease: a.world.plan.Lease, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	time.AfterFunc(plan.Heartbeat, a.log.live)
	for i := range a.world.plan.Workers {
		a.workers.Go(newWorker(a, i).work)
	}
	close(a.ready)
}

func (a *agent) isDead() bool { return a.alive.Err() != nil }

// kill ends the agent without a word to the server.
func (a *agent) kill() {
	a.link.end()
	a.end()
	a.log.end()
	go func() {
		select {
		case <-a.ready:
			_ = a.locks.Close()
			a.store.Close()
		case <-time.After(time.Minute): // it never reached the server
		}
	}()
}

// suspend has the agent do nothing for a while.
func (a *agent) suspend(until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stands = later(a.stands, until)
}

// standStill waits while the agent does nothing.
func (a *agent) standStill() {
	a.mu.Lock()
	until := a.stands
	a.mu.Unlock()
	sleep(a.alive, time.Until(until))
}

// finish gets each lock once, and ends the agent.
func (a *agent) finish() {
	<-a.ready
	a.workers.Wait()
	w := newWorker(a, a.world.plan.Workers)
	for _, l := range a.world.plan.Locks {
		w.last(l)
	}
	if err := a.locks.Close(); err != nil {
		a.world.note("agent %d: Close: %v", a.index, err)
	}
	a.store.Close()
	a.log.end()
}
