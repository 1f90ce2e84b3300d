package plan

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/lockagent/lockagent"
)

// takeOutsiders has a program that is no agent use the plain lock, in half of the plans that have one. Some faults are
// about that program. All else is as without it.
func (p *Plan) takeOutsiders(random *rand.Rand) {
	if p.OutsidersUse() == "" || random.IntN(2) == 0 {
		return
	}
	p.Outsiders = 1 + random.IntN(2)
	var suitable []form
	for _, of := range forms { // a split would excuse most of what the program does, and it has no journal
		if of.agent && of.kind != Split && of.kind != Resume {
			suitable = append(suitable, of)
		}
	}
	for range random.IntN(3) {
		f := newFault(random, p, suitable[random.IntN(len(suitable))])
		f.Agent = p.Agents
		p.Faults = append(p.Faults, f)
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
}

// OutsidersUse returns the name of the lock that outsiders use, if there are any. It returns "" if there is none.
func (p Plan) OutsidersUse() string {
	i := slices.IndexFunc(p.Locks, func(l Lock) bool { return l.Kind == lockagent.PlainLock })
	if i < 0 {
		return ""
	}
	return p.Locks[i].Name
}

// Shared reports whether outsiders use a lock.
func (p Plan) Shared(lock string) bool { return p.Outsiders > 0 && lock == p.OutsidersUse() }

// IsOutsider reports whether a client is a thread of the program that is no agent.
func (p Plan) IsOutsider(client int) bool { return p.Outsiders > 0 && AgentOf(client) == p.Agents }

// Parties is how many programs take part: the agents, and behind them the program of the outsiders.
func (p Plan) Parties() int { return p.Agents + min(p.Outsiders, 1) }
