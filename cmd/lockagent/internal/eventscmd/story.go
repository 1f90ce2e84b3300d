package eventscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/spf13/cobra"
)

// story is what the log tells of one lock, or of those that a pattern selects.
type story struct {
	name  lockagent.Name // or a pattern, or empty for all locks
	of    events.Filter
	fold  *fold.Fold
	past  []hold // those that were kept
	found bool   // there is a record about the lock
	most  int    // how many of them are wanted, the latest ones; 0 for all

	// granted is the position of the last record of each agent that tells of a hold which goes on.
	granted map[lockagent.AgentID]uint64

	// keep says of a hold that is over whether to keep it.
	keep func(*hold) bool
	// gaveUp is called with the end of each request that has waited in vain, and with whom it has waited for, if it
	// is not nil.
	gaveUp func(r events.Record, behind *fold.Party)
}

func newStory(name lockagent.Name, keep func(*hold) bool) *story {
	return &story{
		name: name, of: lockFilter(name), keep: keep, fold: fold.New(), granted: make(map[lockagent.AgentID]uint64),
	}
}

// read reads what there is about the lock, and says so if there is nothing.
func (s *story) read(cmd *cobra.Command, from *source) (err error) {
	log, err := from.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	if log.lines != nil { // a file is read once
		err = log.replay(cmd.Context(), startAt{}, events.Filter{}, s.visit)
	} else {
		err = s.replay(cmd.Context(), log)
	}
	if err != nil {
		return err
	}
	switch {
	case s.found:
	case s.name == "":
		return log.nothing("the event log has nothing", "lockagent demo --keep demo.log")
	case s.of.Pattern != "":
		return log.nothing(
			fmt.Sprintf("the event log has nothing of locks such as %q", s.name), "lockagent events holders"+from.place(),
		)
	default:
		return log.nothing(
			fmt.Sprintf("the event log has nothing of %q", s.name),
			"lockagent events holders"+from.place()+"    (the locks that are held)",
		)
	}
	log.warn()
	return nil
}

// replay reads what the fold needs for some locks of a stream. These are the records about the lock, and
// those about the lives of agents and about stores. At the end it reads the signs of life of the agents
// with a hold that goes on. It leaves out those of the other agents, which are many.
func (s *story) replay(ctx context.Context, log *eventLog) error {
	var lives []events.Record
	of := events.Filter{Kinds: []lockagent.EventKind{
		lockagent.EventAgentStarted, lockagent.EventAgentStopped, lockagent.EventStoreReset,
	}}
	err := log.replay(ctx, startAt{}, of, func(r *events.Record, err error) error {
		if err == nil {
			lives = append(lives, *r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	tell := func(until uint64) {
		for len(lives) > 0 && lives[0].Position < until {
			s.apply(&lives[0])
			lives = lives[1:]
		}
	}
	err = log.replay(ctx, startAt{}, s.of, func(r *events.Record, err error) error {
		tell(r.Position)
		return s.visit(r, err)
	})
	if err != nil {
		return err
	}
	tell(^uint64(0))
	alive, from := events.Filter{Kinds: []lockagent.EventKind{lockagent.EventAlive}}, startAt{position: ^uint64(0)}
	for l := range s.fold.Locks() {
		for _, h := range l.Holders {
			alive.Agents = append(alive.Agents, h.Agent)
			from.position = min(from.position, s.granted[h.Agent])
		}
	}
	if len(alive.Agents) == 0 {
		return nil
	}
	slices.Sort(alive.Agents)
	alive.Agents = slices.Compact(alive.Agents)
	return log.replay(ctx, from, alive, s.visit)
}

// visit folds the records about the lock, and those about no lock.
func (s *story) visit(r *events.Record, err error) error {
	switch {
	case err != nil: // the audit tells of what is no event
		return nil
	case r.Lock != "" && s.of.Match(r):
		s.found = true
		s.apply(r)
	case r.Lock == "":
		s.apply(r)
	}
	return nil
}

func (s *story) apply(r *events.Record) {
	var behind *fold.Party
	for _, c := range s.fold.Apply(*r) {
		switch c.Kind {
		case fold.RequestOver:
			behind = c.Waiter.Behind
		case fold.HoldEnded, fold.HoldForgotten:
			s.over(hold{Hold: *c.Hold})
		}
	}
	switch r.Kind {
	case lockagent.EventGranted, lockagent.EventHolding:
		s.granted[r.Agent] = r.Position
	case lockagent.EventTimedOut, lockagent.EventCancelled, lockagent.EventRefused:
		if s.gaveUp != nil {
			s.gaveUp(*r, behind)
		}
	}
}

// over looks at a hold that is over. Of those that are kept the latest ones count, if not all are wanted.
func (s *story) over(h hold) {
	if !s.keep(&h) {
		return
	}
	s.past = append(s.past, h)
	if s.most > 0 && len(s.past) >= 2*s.most+100 {
		for i := range s.past {
			s.past[i].Store = s.fold.Store(s.past[i].Store)
		}
		slices.SortStableFunc(s.past, s.compare)
		s.past = s.latest(s.past)
	}
}

// latest are the latest of some holds, as many as are wanted, in their order. The holds that one lock has in two stores
// are in the order of each store, so those that began last are at the end of each.
func (s *story) latest(holds []hold) []hold {
	if s.most == 0 || len(holds) <= s.most {
		return holds
	}
	if s.of.Lock == "" {
		return slices.Clone(holds[len(holds)-s.most:])
	}
	var stores [][]hold // the holds of each
	for _, h := range holds {
		if n := len(stores); n == 0 || stores[n-1][0].Store != h.Store {
			stores = append(stores, nil)
		}
		stores[len(stores)-1] = append(stores[len(stores)-1], h)
	}
	begins := make([]int, len(stores)) // from where the latest ones are
	for i := range stores {
		begins[i] = len(stores[i])
	}
	for range s.most {
		last := -1 // the store whose next hold began last
		for i, begin := range begins {
			if begin > 0 && (last < 0 || stores[i][begin-1].From.After(stores[last][begins[last]-1].From)) {
				last = i
			}
		}
		begins[last]--
	}
	var all []hold
	for i, begin := range begins {
		all = append(all, stores[i][begin:]...)
	}
	return all
}

// all returns all holds: those of one lock in the order of their tokens for each store, and those of several locks in
// that of time.
func (s *story) all() []hold {
	holds := slices.Clone(s.past)
	left := s.left()
	for l := range s.fold.Locks() {
		for _, h := range l.Holders {
			agent, _ := s.fold.Agent(h.Agent)
			holds = append(holds, hold{h, agent.Time})
		}
	}
	for i := range holds {
		h := &holds[i]
		h.Store = s.fold.Store(h.Store) // it may have had another identity then
		h.Left = h.Left || left[leaseOf(&h.Hold)]
	}
	slices.SortStableFunc(holds, s.compare)
	return holds
}

// lease identifies the lease that a hold has left in the store.
type lease struct {
	lock   lockagent.Name
	agent  lockagent.AgentID
	tenure uint64
	token  lockagent.Token
}

func leaseOf(h *fold.Hold) lease { return lease{h.Lock, h.Agent, h.Tenure, h.Token} }

// left are the leases that holds have left in the store which are over. That shows when all was read.
func (s *story) left() map[lease]bool {
	all := make(map[lease]bool)
	for l := range s.fold.Locks() {
		for i := range l.Left {
			all[leaseOf(&l.Left[i])] = true
		}
	}
	return all
}

func (s *story) compare(h, other hold) int {
	if s.of.Lock == "" {
		return cmp.Or(h.From.Compare(other.From), cmp.Compare(h.Lock, other.Lock), cmp.Compare(h.Token, other.Token))
	}
	return cmp.Or(cmp.Compare(h.Store, other.Store), cmp.Compare(h.Token, other.Token), h.From.Compare(other.From))
}

// process is where an agent ran last.
func (s *story) process(id lockagent.AgentID) fold.Process {
	a, _ := s.fold.Agent(id)
	return a.Process
}
