package main

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/backend"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/simulate/plan"
)

// agent is one life of an agent, with its workers.
type agent struct {
	*process
	former  *agent // the life before, or nil
	log     *eventLog
	journal *journal // from which the next life may go on, or nil

	locks   *channelapi.Locks // once ready is closed
	store   *redisstore.Store
	ready   chan struct{}
	workers sync.WaitGroup

	holds []*hold // of workers, also of a former life; the mutex of the process guards them
}

// newAgent returns the next life of an agent. It has another identity than the life before, unless it goes on from the
// journal.
func newAgent(w *world, index int, former *agent, resumes bool) *agent {
	a, life := &agent{former: former, ready: make(chan struct{})}, 0
	if former != nil {
		life = former.life + 1
	}
	if resumes {
		a.log, a.journal, a.holds = former.log.next(), former.journal, former.holds
	} else {
		a.log = newEventLog(w, channelapi.NewAgentID())
		if w.plan.Resumes() {
			a.journal = newJournal(w, index, life)
		}
	}
	a.process = newProcess(w, index, life, newLink(w, fmt.Sprintf("a%d.%d", index, life), uint64(100+index+1000*life)))
	return a
}

func (a *agent) next(resumes bool) party { return newAgent(a.world, a.index, a, resumes) }

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
	of, err := a.begin()
	if err != nil {
		panic(err)
	}
	a.locks = channelapi.Over(backend.Backend{Agent: of, Identity: a.store.Identity, Claim: channelapi.DefaultClaim})
	time.AfterFunc(plan.Heartbeat, a.log.live)
	a.goOn(of.Resumed())
	for i := range a.world.plan.Workers {
		a.workers.Go(newWorker(a, i).work)
	}
	close(a.ready)
}

// begin begins the agent, which goes on from its journal if that has something.
func (a *agent) begin() (*actor.Agent, error) {
	config := actor.Config{
		Store: a.store, ID: a.log.agent, Recorder: a.log, Lease: a.world.plan.Lease, Logger: slog.New(slog.DiscardHandler),
	}
	if a.journal == nil {
		return actor.New(config)
	}
	left := a.journal.left()
	config.Journal = a.journal.of(a)
	if left == nil {
		return actor.New(config)
	}
	left.Confirm(a.alive, a.store, config.Lease, 0)
	return actor.Resume(config, *left)
}

// kill ends the agent without a word to the server. If another one is to go on from its journal, those who hold its
// locks trust them for as long as they have been told.
func (a *agent) kill(resumes bool) {
	a.mu.Lock()
	for _, h := range a.holds {
		h.orphan(resumes)
	}
	a.mu.Unlock()
	if a.journal != nil {
		a.journal.stop()
	}
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

// finish gets each lock once, and ends the agent.
func (a *agent) finish() {
	<-a.ready
	for life := a; life != nil; life = life.former {
		life.workers.Wait() // they may have a hold of this one
	}
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
