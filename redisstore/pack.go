package redisstore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
)

// acquisition is one call of Acquire.
type acquisition struct {
	req  lockagent.AcquireRequest
	slot uint16
	made time.Time
	done func(lockagent.AcquireReply, error)
}

// departure is one call of Release.
type departure struct {
	req  lockagent.ReleaseRequest
	slot uint16
	made time.Time
	done func(lockagent.ReleaseReply, error)
}

// waiting is a tenure that waits for a lock.
type waiting struct {
	name   lockagent.Name
	tenure lockagent.Tenure
}

// packer makes few scripts of many calls, because a server's work is in the
// commands and not in the locks: one script acquires locks and one releases locks;
// in a Cluster there is one for each slot. Agents that share a store have scripts of
// their own. One goroutine uses it.
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

	calls []*call // what pack returned last
	spare []*call // made for earlier batches, to be used again
	text  text
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
	for together := range split(batch.departures) {
		p.calls = append(p.calls, p.release(p.blank(), together))
	}
	for together := range split(batch.acquisitions) {
		p.calls = append(p.calls, p.acquire(p.blank(), together))
	}
	return p.calls
}

// party are the calls that one script can make.
type party struct {
	slot  uint16
	agent lockagent.AgentID
}

func (a acquisition) party() party { return party{a.slot, a.req.Tenure.Agent} }
func (d departure) party() party   { return party{d.slot, d.req.Tenure.Agent} }

func (p party) compare(q party) int {
	return cmp.Or(cmp.Compare(p.slot, q.slot), cmp.Compare(p.agent, q.agent))
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

// acquire makes c the call that acquires locks, see acquire.lua.
func (p *packer) acquire(c *call, batch []acquisition) *call {
	p.text.begin()
	for i := range batch {
		c.keys = append(c.keys, string(batch[i].req.Name))
	}
	for i := range batch {
		c.keys = append(c.keys, p.text.tokenKey(batch[i].req.Name))
	}
	for i := range batch {
		req := &batch[i].req
		tenure, number := p.text.tenure(req.Tenure)
		c.args = append(c.args, tenure, number, p.text.milliseconds(req.Lease), p.text.number(uint64(req.Tokens)), p.text.number(uint64(req.Floor)))
	}
	in := place{cluster: p.cluster, slot: batch[0].slot}
	even, odd := p.text.releasedKeys(batch[0].req.Tenure.Agent, in)
	c.keys = append(c.keys, p.text.clockKey(in), even, odd)
	if !p.cluster {
		c.keys = append(c.keys, incarnationKey)
	}
	if p.queues {
		p.addQueueing(c, batch)
	}
	c.script = acquireScript
	epoch := p.incarnations.known()
	c.done = func(m rueidis.RedisMessage, err error) { p.acquired(batch, epoch, m, err) }
	return c
}

// addQueueing adds which of the tenures ask for a place in a queue, or may have one.
func (p *packer) addQueueing(c *call, batch []acquisition) {
	none := len(c.args)
	for i := range batch {
		req := &batch[i].req
		placed := len(p.placed) > 0 && p.placed[waiting{req.Name, req.Tenure}]
		if !req.Queue && !placed {
			continue
		}
		if len(c.args) == none {
			c.args = append(c.args, p.store)
		}
		if req.Queue {
			c.args = append(c.args, strconv.Itoa(i+1))
		} else {
			c.args = append(c.args, strconv.Itoa(-i-1))
		}
	}
}

// acquired answers the calls that were made together.
func (p *packer) acquired(batch []acquisition, epoch uint64, m rueidis.RedisMessage, err error) {
	if errors.Is(err, lockagent.ErrNotPermitted) && len(batch) > 1 {
		// One lock that the user may not touch must not fail the others.
		for _, a := range batch {
			p.send(p.acquire(new(call), []acquisition{a}))
		}
		return
	}
	if err != nil {
		for i := range batch {
			if p.queues && batch[i].req.Queue { // it may have been queued all the same
				p.note(waiting{batch[i].req.Name, batch[i].req.Tenure}, true)
			}
			batch[i].done(lockagent.AcquireReply{}, err)
		}
		return
	}
	r := readReply(m)
	at, incarnation := lockagent.StoreTime(r.number()), r.text()
	if incarnation != "" {
		p.incarnations.observe(incarnation, at, epoch)
	}
	for i := range batch {
		reply, err := parseAcquire(&r, at, incarnation)
		if p.queues {
			p.note(waiting{batch[i].req.Name, batch[i].req.Tenure}, reply.Queued)
		}
		batch[i].done(reply, err)
	}
}

// note remembers whether a tenure has a place in a queue.
func (p *packer) note(w waiting, queued bool) {
	switch {
	case queued:
		p.placed[w] = true
	case len(p.placed) > 0:
		delete(p.placed, w)
	}
}

// parseAcquire reads what became of one lock.
func parseAcquire(r *reply, at lockagent.StoreTime, incarnation string) (lockagent.AcquireReply, error) {
	reply := lockagent.AcquireReply{At: at, Incarnation: incarnation}
	switch code := r.number(); code {
	case 1:
		reply.Granted = true
		reply.Token = lockagent.Token(r.number())
	case 0, 2:
		reply.Queued = code == 2
		reply.Remaining = remaining(r.number())
		reply.Holder = r.text()
	case -1:
		return lockagent.AcquireReply{}, lockagent.ErrWithdrawn
	case -2:
		return lockagent.AcquireReply{}, &lockagent.OptionError{Option: "tokens", Reason: fmt.Sprintf("the lock has not that many left up to the greatest, %d; ask for fewer, with a floor that was a token", lockagent.MaxToken)}
	case -3:
		return lockagent.AcquireReply{}, refused(r.text())
	}
	if r.err != nil {
		return lockagent.AcquireReply{}, malformed(r.err)
	}
	return reply, nil
}

// release makes c the call that releases locks, see release.lua.
func (p *packer) release(c *call, batch []departure) *call {
	p.text.begin()
	for i := range batch {
		c.keys = append(c.keys, string(batch[i].req.Name))
	}
	c.args = append(c.args, p.publish)
	for i := range batch {
		c.args = append(c.args, p.text.channel(batch[i].req.Name))
	}
	for i := range batch {
		req := &batch[i].req
		tenure, number := p.text.tenure(req.Tenure)
		own := "0"
		switch {
		case !p.countsOthers:
			own = "-1"
		case p.subscriptions.counted(c.args[1+i]):
			own = "1"
		}
		c.args = append(c.args, tenure, number, own)
	}
	c.args = append(c.args, p.store)
	even, odd := p.text.releasedKeys(batch[0].req.Tenure.Agent, place{cluster: p.cluster, slot: batch[0].slot})
	c.keys = append(c.keys, even, odd)
	if p.queues {
		c.keys = append(c.keys, queuesKey)
	}
	c.script = releaseScript
	c.done = func(m rueidis.RedisMessage, err error) { p.released(batch, m, err) }
	return c
}

// released answers the calls that were made together.
func (p *packer) released(batch []departure, m rueidis.RedisMessage, err error) {
	if errors.Is(err, lockagent.ErrNotPermitted) && len(batch) > 1 {
		for _, d := range batch {
			p.send(p.release(new(call), []departure{d}))
		}
		return
	}
	if err != nil {
		for i := range batch {
			batch[i].done(lockagent.ReleaseReply{}, err)
		}
		return
	}
	r := readReply(m)
	at := lockagent.StoreTime(r.number())
	for i := range batch {
		if p.queues {
			p.note(waiting{batch[i].req.Name, batch[i].req.Tenure}, false)
		}
		batch[i].done(parseRelease(&r, at))
	}
}

// parseRelease reads what became of one lock.
func parseRelease(r *reply, at lockagent.StoreTime) (lockagent.ReleaseReply, error) {
	reply := lockagent.ReleaseReply{At: at}
	switch code := r.number(); code {
	case 1:
		reply.Released = true
		reply.Others = int(r.number())
	case 2:
		released := r.number()
		reply.Released, reply.Passed = released > 0, released == 2
		reply.At = lockagent.StoreTime(r.number())
		reply.Others = int(r.number())
	case 3:
		reply.Released, reply.Passed = true, true
	case -1:
		return lockagent.ReleaseReply{}, refused(r.text())
	}
	if r.err != nil {
		return lockagent.ReleaseReply{}, malformed(r.err)
	}
	return reply, nil
}
