package main

import (
	"context"
	"sync"
	"time"
)

// party is one life of who takes part in a run: of an agent, or of the outsider. Faults and the last round see no more
// of it.
type party interface {
	live()
	isDead() bool
	network() *link
	suspend(until time.Time)
	// kill ends it without a word to the server. If resumes, another process goes on from its journal.
	kill(resumes bool)
	// next returns the life that follows when it was killed.
	next(resumes bool) party
	// finish gets each lock that it uses once, and ends it.
	finish()
}

// process is what all parties have.
type process struct {
	world       *world
	index, life int
	link        *link

	alive context.Context // ends when the process dies
	end   context.CancelFunc

	mu     sync.Mutex // guards what follows
	stands time.Time  // until then the process does nothing
}

func newProcess(w *world, index, life int, l *link) *process {
	p := &process{world: w, index: index, life: life, link: l}
	p.alive, p.end = context.WithCancel(context.Background())
	return p
}

func (p *process) isDead() bool { return p.alive.Err() != nil }

func (p *process) network() *link { return p.link }

// suspend has the process do nothing for a while.
func (p *process) suspend(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stands = later(p.stands, until)
}

// standStill waits while the process does nothing.
func (p *process) standStill() {
	p.mu.Lock()
	until := p.stands
	p.mu.Unlock()
	sleep(p.alive, time.Until(until))
}
