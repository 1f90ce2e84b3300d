package audit

import (
	"cmp"
	"maps"
	"math"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/fold"
)

const (
	// keptFor is how long an audit keeps all that it knows of an agent whose log is over. By then a
	// message is not repeated any more, and an agent that was cut off for a while is back.
	keptFor = 5 * time.Minute

	// mostPast is of how many agents with a log that is over an audit remembers the end: so many
	// that a whole fleet can start again. It remembers twice as many at most.
	mostPast = 8192
)

// past is what an audit remembers of an agent whose log is over, to go on if it comes back. It does
// not remember the contents of the last records, earlier epochs, and holds that were judged.
type past struct {
	Epoch   uint64 `json:"epoch"`
	Next    uint64 `json:"next"`
	Stopped bool   `json:"stopped,omitempty"`

	Store   string              `json:"store,omitempty"`
	Judged  lockagent.StoreTime `json:"judged,omitempty"`
	Stored  time.Time           `json:"stored,omitzero"`
	Settled lockagent.StoreTime `json:"settled,omitempty"`
	Told    lockagent.StoreTime `json:"told,omitempty"`
	Ended   lockagent.StoreTime `json:"ended,omitempty"`

	Unsigned bool                `json:"unsigned,omitempty"`
	Hidden   lockagent.StoreTime `json:"hidden,omitempty"`
	Holes    uint32              `json:"holes,omitempty"`
	Lease    time.Duration       `json:"lease,omitempty"`
	Process  fold.Process        `json:"process,omitzero"`
}

// pastAgents remembers the last agents whose logs are over.
type pastAgents struct {
	New map[lockagent.AgentID]past `json:"new,omitempty"`
	Old map[lockagent.AgentID]past `json:"old,omitempty"`

	// Forgotten says that there were more. So an agent that is not known may have had a log.
	Forgotten bool `json:"forgotten,omitempty"`
}

func (p *pastAgents) add(id lockagent.AgentID, agent past) {
	if len(p.New) >= mostPast {
		p.Forgotten = p.Forgotten || len(p.Old) > 0
		p.New, p.Old = nil, p.New
	}
	if p.New == nil {
		p.New = make(map[lockagent.AgentID]past)
	}
	p.New[id] = agent
}

// with returns the map that has an agent, or nil.
func (p *pastAgents) with(id lockagent.AgentID) map[lockagent.AgentID]past {
	for _, of := range []map[lockagent.AgentID]past{p.New, p.Old} {
		if _, found := of[id]; found {
			return of
		}
	}
	return nil
}

func (p *pastAgents) take(id lockagent.AgentID) (agent past, found bool) {
	of := p.with(id)
	agent, found = of[id]
	delete(of, id)
	return agent, found
}

func (p *pastAgents) clone() pastAgents {
	return pastAgents{maps.Clone(p.New), maps.Clone(p.Old), p.Forgotten}
}

// retire forgets most of an agent whose log is over, and reports whether it did.
func (a *Audit) retire(l *agentLog) bool {
	if l.speaks() || l.current == nil || a.clock.Now-l.Heard <= keptFor {
		return false
	}
	if l.spans > 0 {
		a.abandon(a.store(l.Store))
	}
	if l.spans > 0 {
		return false
	}
	hidden := l.Hidden
	if len(a.fold.Holds(l.ID)) > 0 { // if it comes back, these may go on, and the audit does not know them any more
		l.Holes++
		hidden = l.hidden()
		for _, h := range a.fold.Holds(l.ID) {
			hidden = min(hidden, cmp.Or(h.Start, math.MinInt64))
		}
	}
	a.past.add(l.ID, past{
		Epoch: l.Epoch, Next: l.current.Next, Stopped: l.Stopped, Store: l.Store,
		Judged: l.Judged, Stored: l.Stored, Settled: l.Settled, Told: l.Told,
		Ended: l.Ended, Unsigned: l.Unsigned, Hidden: hidden, Holes: l.Holes, Lease: l.Lease, Process: a.processOf(l),
	})
	delete(a.logs, l.ID)
	a.fold.ForgetAgent(l.ID)
	return true
}

// revive goes on with the log of an agent that comes back.
func (a *Audit) revive(l *agentLog, p *past) {
	l.current = &epochLog{Process: p.Process, Next: p.Next, Known: p.Next, Stopped: p.Stopped}
	l.Epoch, l.Epochs[p.Epoch] = p.Epoch, l.current
	l.Stopped, l.Dead = p.Stopped, !p.Stopped
	l.Store = a.fold.Store(p.Store)
	l.Holes, l.Lease = p.Holes, p.Lease
	newest := a.home(l).Newest // less if the clock was set back
	l.Judged, l.Settled, l.Told = p.Judged, min(p.Settled, newest), min(p.Told, newest)
	l.Stored, l.Ended, l.Hidden = p.Stored, p.Ended, p.Hidden
	l.Unsigned = p.Unsigned
	a.fold.Revive(fold.AgentState{
		Agent: l.ID, Epoch: p.Epoch, Seq: p.Next - 1, Store: l.Store, Process: p.Process, Stopped: p.Stopped,
	})
}
