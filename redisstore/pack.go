package redisstore

import (
	"cmp"
	"slices"
	"sync"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// packer makes few scripts of many calls, because a server's work is in the
// commands and not in the locks: one script acquires locks and one releases locks;
// in a Cluster there is one for each slot. Agents that share a store have scripts of
// their own. Each lane has a packer.
type packer struct {
	publish       string
	cluster       bool // the keys of a command must be in one slot
	countsOthers  bool
	queues        bool   // locks may be passed on
	store         string // the id of the store
	subscriptions *transport.Subscriptions
	incarnations  *incarnations
	send          func(*transport.Call) // for what has to travel once more

	mu sync.Mutex // guards what follows: a reply may be read while the next batch is packed
	// placed are the tenures that may have a place in a queue.
	placed map[waiting]bool
	// latest is the latest time that a server's clock has shown.
	latest lockagent.StoreTime

	calls []*transport.Call // what pack returned last
	spare []*together       // made for earlier batches, to be used again
	text  text

	acquiring []*acquireCall // of the present batch
	releasing []*releaseCall
}

// together are locks that one script is about.
type together struct {
	transport.Call
	acquires []*acquireCall
	releases []*releaseCall
	acquired []outcome[lockagent.AcquireReply] // of the reply
	released []outcome[lockagent.ReleaseReply]
}

// pack returns the scripts that a batch is made as.
func (p *packer) pack(items []transport.Item) []*transport.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range items {
		switch i := i.(type) {
		case *acquireCall:
			p.acquiring = append(p.acquiring, i)
		case *releaseCall:
			p.releasing = append(p.releasing, i)
		}
	}
	clear(p.calls)
	p.calls = p.calls[:0]
	// First those that make room for the others.
	for parties := range split(p.releasing) {
		p.calls = append(p.calls, p.release(p.blank(), parties))
	}
	for parties := range split(p.acquiring) {
		p.calls = append(p.calls, p.acquire(p.blank(), parties))
	}
	clear(p.acquiring)
	clear(p.releasing)
	p.acquiring, p.releasing = p.acquiring[:0], p.releasing[:0]
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

// blank returns a call without keys and arguments. It expects mu to be held.
func (p *packer) blank() *together {
	last := len(p.spare) - 1
	if last < 0 {
		return new(together)
	}
	t := p.spare[last]
	p.spare = p.spare[:last]
	return t
}

// giveBack keeps a call that was answered, for another one.
func (p *packer) giveBack(t *together) {
	clear(t.Keys)
	clear(t.Args)
	clear(t.acquires)
	clear(t.releases)
	clear(t.acquired)
	clear(t.released)
	*t = together{
		Call:     transport.Call{Keys: t.Keys[:0], Args: t.Args[:0]},
		acquires: t.acquires[:0], releases: t.releases[:0], acquired: t.acquired[:0], released: t.released[:0],
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spare = append(p.spare, t)
}

// outcome is what became of one lock.
type outcome[R any] struct {
	reply R
	err   error
}

// each answers all of n, one after the other, also if one of them ends the goroutine.
func each(n int, answer func(i int)) {
	i := 0
	defer func() {
		if rest := i + 1; rest < n {
			each(n-rest, func(i int) { answer(rest + i) })
		}
	}()
	for ; i < n; i++ {
		answer(i)
	}
}
