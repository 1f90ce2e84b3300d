package redisstore

import (
	"cmp"
	"slices"

	"github.com/lockagent/lockagent"
)

// packer makes few scripts of many calls, because a server's work is in the
// commands and not in the locks: one script acquires locks and one releases locks;
// in a Cluster there is one for each slot. Agents that share a store have scripts of
// their own. Whoever serves the lane uses it, one at a time.
type packer struct {
	publish       string
	cluster       bool // the keys of a command must be in one slot
	countsOthers  bool
	queues        bool   // locks may be passed on
	store         string // the id of the store
	subscriptions *subscriptions
	incarnations  *incarnations
	send          func(*call) // for what has to travel once more

	// placed are the tenures that may have a place in a queue.
	placed map[waiting]bool
	// latest is the latest time that a server's clock has shown.
	latest lockagent.StoreTime

	calls []*call // what pack returned last
	spare []*call // made for earlier batches, to be used again
	text  text

	acquires []outcome[lockagent.AcquireReply] // of the present reply
	releases []outcome[lockagent.ReleaseReply]
}

// pack returns the scripts that a batch is made as. They are answered before the
// next batch is packed.
func (p *packer) pack(batch *gathered) []*call {
	for _, c := range p.calls {
		if c.packed {
			p.spare = append(p.spare, c)
		}
	}
	clear(p.calls)
	p.calls = append(p.calls[:0], batch.calls...)
	// First those that make room for the others.
	for together := range split(batch.releases) {
		p.calls = append(p.calls, p.release(p.blank(), together))
	}
	for together := range split(batch.acquires) {
		p.calls = append(p.calls, p.acquire(p.blank(), together))
	}
	return p.calls
}

// party are the calls that one script can make.
type party struct {
	slot   uint16
	agent  lockagent.AgentID
	digits int // of the number of the tenure
}

func partyOf(slot uint16, t lockagent.Tenure) party {
	digits := 1
	for n := t.Number; n >= 10; n /= 10 {
		digits++
	}
	return party{slot, t.Agent, digits}
}

func (p party) compare(q party) int {
	return cmp.Or(cmp.Compare(p.slot, q.slot), cmp.Compare(p.agent, q.agent), cmp.Compare(p.digits, q.digits))
}

// split sorts calls by party, and yields those of each.
func split[C interface{ party() party }](calls []C) func(yield func([]C) bool) {
	return func(yield func([]C) bool) {
		byParty := func(a, b C) int { return a.party().compare(b.party()) }
		if !slices.IsSortedFunc(calls, byParty) {
			slices.SortStableFunc(calls, byParty)
		}
		for len(calls) > 0 {
			n := 1
			for n < len(calls) && calls[n].party() == calls[0].party() {
				n++
			}
			if !yield(calls[:n]) {
				return
			}
			calls = calls[n:]
		}
	}
}

// blank returns a call without keys and arguments.
func (p *packer) blank() *call {
	last := len(p.spare) - 1
	if last < 0 {
		return &call{packed: true}
	}
	c := p.spare[last]
	p.spare = p.spare[:last]
	clear(c.keys)
	clear(c.args)
	*c = call{packed: true, keys: c.keys[:0], args: c.args[:0]}
	return c
}

// outcome is what became of one lock.
type outcome[R any] struct {
	reply R
	err   error
}
