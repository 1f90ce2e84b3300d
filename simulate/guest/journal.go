package main

import (
	"maps"
	"math/rand/v2"
	"sync"

	"github.com/lockagent/lockagent/internal/saved"
)

// journal is that of one agent. It is in the memory of the run, and outlives the processes of the agent.
type journal struct {
	mu      sync.Mutex // guards what follows
	random  *rand.Rand
	records map[string][]byte // as they are on the disk
	late    [][]saved.Change  // that are not due: the disk may not have them yet
	owner   *agent            // the process that may write
}

func newJournal(w *world, index, life int) *journal {
	random := rand.New(rand.NewPCG(w.plan.Seed, uint64(500+index+1000*life)))
	return &journal{random: random, records: make(map[string][]byte)}
}

// of is the journal as one process of the agent writes it.
func (j *journal) of(a *agent) *page {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.owner = a
	return &page{j, a}
}

// stop ends the process that writes. Some of what was not due is lost.
func (j *journal) stop() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.owner = nil
	j.flush(j.random.IntN(len(j.late) + 1))
}

// flush brings the first late changes, so many of them, to the disk. It expects mu to be held.
func (j *journal) flush(n int) {
	for _, changes := range j.late[:n] {
		for _, c := range changes {
			if c.Data == nil {
				delete(j.records, c.Key)
			} else {
				j.records[c.Key] = c.Data
			}
		}
	}
	j.late = nil
}

// left is the agent that the journal tells of, or nil if it tells of none.
func (j *journal) left() *saved.Agent {
	j.mu.Lock()
	records := maps.Clone(j.records)
	j.mu.Unlock()
	left, err := saved.Read(records)
	if err != nil {
		panic(err)
	}
	return left
}

// page is a journal for one process of its agent. What a process writes that has ended is lost.
type page struct {
	journal *journal
	of      *agent
}

// Begin implements [actor.Journal].
func (p *page) Begin(changes []saved.Change) {
	j := p.journal
	j.mu.Lock()
	if j.owner == p.of {
		clear(j.records)
		j.late = nil
	}
	j.mu.Unlock()
	p.Write(changes, true)
}

// Write implements [actor.Journal].
func (p *page) Write(changes []saved.Change, due bool) {
	j := p.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.owner != p.of {
		return
	}
	j.late = append(j.late, append([]saved.Change(nil), changes...))
	if due {
		j.flush(len(j.late))
	}
}
