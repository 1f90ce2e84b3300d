package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// story is what the log tells of one lock.
type story struct {
	name  lockagent.Name
	fold  *events.Fold
	past  []hold // those that were kept
	lives map[lockagent.AgentID][]life
	found bool // there is a record about the lock

	// stores leads from an identity of a store to the one that it had before.
	stores map[string]string

	// keep says of a hold that is over whether to keep it.
	keep func(*hold) bool
	// gaveUp is called with each request that has waited in vain, if it is not nil. It still waits in the
	// fold then.
	gaveUp func(events.Record)
}

// life is one run of an agent.
type life struct {
	epoch   uint64
	process events.Process
	stopped bool
}

func newStory(name lockagent.Name, keep func(*hold) bool) *story {
	s := &story{name: name, keep: keep, lives: make(map[lockagent.AgentID][]life), stores: make(map[string]string)}
	s.fold = events.NewFold(events.FoldConfig{Ended: func(h *events.Hold) {
		if over := (hold{*h}); s.keep(&over) {
			s.past = append(s.past, over)
		}
	}})
	return s
}

// read reads what there is about the lock, and says so if there is nothing.
func (s *story) read(cmd *cobra.Command, from *source) (err error) {
	log, err := from.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	if err := log.replayLock(cmd.Context(), s.name, s.visit); err != nil {
		return err
	}
	if !s.found {
		return log.nothing(fmt.Sprintf("the event log has nothing of %q", s.name), "lockagent events holders"+from.place()+"    (the locks that are held)")
	}
	log.warn()
	return nil
}

// replayLock visits the records about a lock, and before them those that tell of the lives of the
// agents and of the stores. A file is read once: then there are other records as well.
func (l *eventLog) replayLock(ctx context.Context, name lockagent.Name, visit events.Visit) error {
	if l.lines != nil {
		return l.replay(ctx, startAt{}, events.Filter{}, visit)
	}
	lives := events.Filter{Kinds: []lockagent.EventKind{
		lockagent.EventAgentStarted, lockagent.EventAgentStopped, lockagent.EventStoreReset,
	}}
	if err := l.replay(ctx, startAt{}, lives, visit); err != nil {
		return err
	}
	return l.replay(ctx, startAt{}, events.Filter{Lock: name}, visit)
}

// visit folds the records about the lock. The records about agents and stores come before those, in a
// stream, or between them, in a file. So they cannot be folded.
func (s *story) visit(r events.Record, err error) error {
	switch {
	case err != nil: // the audit tells of what is no event
	case r.Kind == lockagent.EventAgentStarted:
		s.lives[r.Agent] = append(s.lives[r.Agent], life{epoch: r.Epoch, process: events.Process(r.Process)})
	case r.Kind == lockagent.EventAgentStopped:
		for i := range s.lives[r.Agent] {
			if l := &s.lives[r.Agent][i]; l.epoch == r.Epoch {
				l.stopped = true
			}
		}
	case r.Kind == lockagent.EventStoreReset:
		if before, now := s.store(r.Reset.Store), s.store(r.Store); before != "" && before != now {
			s.stores[now] = before
		}
	case r.Lock == s.name:
		s.found = true
		r.Store = s.store(r.Store)
		switch r.Kind {
		case lockagent.EventTimedOut, lockagent.EventCancelled, lockagent.EventRefused:
			if s.gaveUp != nil {
				s.gaveUp(r)
			}
		}
		s.fold.Apply(r)
	}
	return nil
}

// store is the first identity of a store. Its data may have been lost since, and its identity with it.
func (s *story) store(id string) string {
	for s.stores[id] != "" {
		id = s.stores[id]
	}
	return id
}

// all returns all holds, in the order of their tokens for each store.
func (s *story) all() []hold {
	holds := slices.Clone(s.past)
	for l := range s.fold.Locks() {
		for _, h := range l.Holders {
			holds = append(holds, hold{h})
		}
	}
	for i := range holds {
		s.complete(&holds[i])
	}
	slices.SortStableFunc(holds, func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.Store, b.Store), cmp.Compare(a.Token, b.Token), a.From.Compare(b.From))
	})
	return holds
}

// behind is for whom a request waits, or nil.
func (s *story) behind(agent lockagent.AgentID, request uint64) *events.Party {
	for _, w := range s.waiting() {
		if w.Agent == agent && w.Request == request {
			return w.Behind
		}
	}
	return nil
}

// waiting returns the requests that still wait.
func (s *story) waiting() (all []events.Waiter) {
	for l := range s.fold.Locks() {
		all = append(all, l.Waiters...)
	}
	for i := range all {
		s.locate(all[i].Behind)
	}
	return all
}

// complete adds to a hold what is known of its agent.
func (s *story) complete(h *hold) {
	lives := s.lives[h.Agent]
	for i, l := range lives {
		if l.epoch == h.Epoch {
			h.Process = l.process
			h.Gone = h.latest().IsZero() && (l.stopped || i < len(lives)-1)
		}
	}
	s.locate(h.Behind)
}

// locate adds where the agent of a party runs, or ran last.
func (s *story) locate(p *events.Party) {
	if p != nil {
		p.Process = s.process(p.Agent)
	}
}

// process is where an agent ran last.
func (s *story) process(id lockagent.AgentID) (p events.Process) {
	if lives := s.lives[id]; len(lives) > 0 {
		p = lives[len(lives)-1].process
	}
	return p
}
