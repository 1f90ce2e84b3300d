package redisstore

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// acquireCall is one call of Acquire.
type acquireCall struct {
	req  lockagent.AcquireRequest
	slot uint16
	done func(lockagent.AcquireReply, error)
}

func (c *acquireCall) party() party { return partyOf(c.slot, c.req.Tenure) }

// Refuse implements [transport.Item].
func (c *acquireCall) Refuse(err error) { c.done(lockagent.AcquireReply{}, err) }

// acquire makes c the call that acquires locks, see acquire.lua. It expects mu to be held.
func (p *packer) acquire(c *together, batch []*acquireCall) *transport.Call {
	c.acquires = append(c.acquires[:0], batch...)
	batch = c.acquires
	p.text.begin()
	common := *usual(batch) // but for the floor
	common.Floor = 0
	least := common.Tenure.Number
	for i := range batch {
		req := &batch[i].req
		c.Keys = append(c.Keys, string(req.Name))
		least = min(least, req.Tenure.Number)
		if p.isPast(req.Floor) {
			common.Floor = max(common.Floor, req.Floor)
		}
	}
	for i := range batch {
		c.Keys = append(c.Keys, p.text.tokenKey(batch[i].req.Name))
	}
	agent, zeros, first := p.text.numbering(common.Tenure, least)
	c.Args = append(c.Args, agent, zeros, first,
		p.text.milliseconds(common.Lease), p.text.number(uint64(common.Tokens)), p.text.number(uint64(common.Floor)), "0")
	for i := range batch {
		c.Args = append(c.Args, p.text.number(batch[i].req.Tenure.Number))
	}
	p.addUncommon(c, &common, batch)
	in := home{cluster: p.cluster, slot: batch[0].slot}
	even, odd := p.text.releasedKeys(common.Tenure.Agent, in)
	c.Keys = append(c.Keys, p.text.clockKey(in), even, odd)
	if !p.cluster {
		c.Keys = append(c.Keys, incarnationKey)
	}
	if p.queues {
		p.addQueueing(c, batch)
	}
	c.Script = acquireScript
	c.Slot = batch[0].slot
	epoch := p.incarnations.known()
	c.Done = func(m rueidis.RedisMessage, err error) { p.acquired(c, epoch, m, err) }
	return &c.Call
}

// usual is a request that has the lease and the tokens of most, if most have the same: the
// winner of the vote of Boyer and Moore.
func usual(batch []*acquireCall) *lockagent.AcquireRequest {
	var leader *lockagent.AcquireRequest
	votes := 0
	for i := range batch {
		req := &batch[i].req
		switch {
		case votes == 0:
			leader, votes = req, 1
		case req.Lease == leader.Lease && req.Tokens == leader.Tokens:
			votes++
		default:
			votes--
		}
	}
	return leader
}

// isPast reports whether a token is no later than a server's clock has shown. Tokens are
// made of the time, so such a floor may be raised to another one that is past.
func (p *packer) isPast(t lockagent.Token) bool { return t <= lockagent.Token(p.latest) }

// addUncommon adds what some of the locks have for themselves.
func (p *packer) addUncommon(c *together, common *lockagent.AcquireRequest, batch []*acquireCall) {
	const count = 6 // is where their number goes
	n := 0
	for i := range batch {
		req := &batch[i].req
		if req.Lease != common.Lease || req.Tokens != common.Tokens || req.Floor > common.Floor {
			c.Args = append(c.Args, strconv.Itoa(i+1), milliseconds(req.Lease), p.text.number(uint64(req.Tokens)), p.text.number(uint64(req.Floor)))
			n++
		}
	}
	c.Args[count] = strconv.Itoa(n)
}

// addQueueing adds which of the tenures ask for a place in a queue, or may have one.
func (p *packer) addQueueing(c *together, batch []*acquireCall) {
	none := len(c.Args)
	for i := range batch {
		req := &batch[i].req
		placed := len(p.placed) > 0 && p.placed[waiting{req.Name, req.Tenure}]
		if !req.Queue && !placed {
			continue
		}
		if len(c.Args) == none {
			c.Args = append(c.Args, p.store)
		}
		if req.Queue {
			c.Args = append(c.Args, strconv.Itoa(i+1))
		} else {
			c.Args = append(c.Args, strconv.Itoa(-i-1))
		}
	}
}

// acquired answers the calls that were made together.
func (p *packer) acquired(c *together, epoch uint64, m rueidis.RedisMessage, err error) {
	defer p.giveBack(c)
	batch := c.acquires
	if errors.Is(err, lockagent.ErrNotPermitted) && len(batch) > 1 {
		// One lock that the user may not touch must not fail the others.
		for i := range batch {
			p.mu.Lock()
			alone := p.acquire(p.blank(), batch[i:i+1])
			p.mu.Unlock()
			p.send(alone)
		}
		return
	}
	if err == nil {
		c.acquired, err = parseAcquired(c.acquired[:0], m, len(batch))
	}
	if err == nil {
		first := c.acquired[0].reply
		if first.Incarnation != "" {
			p.incarnations.observe(first.Incarnation, first.At, epoch)
		}
	}
	p.noteAll(c, err)
	each(len(batch), func(i int) {
		if err != nil {
			batch[i].done(lockagent.AcquireReply{}, err)
			return
		}
		o := &c.acquired[i]
		if o.err != nil {
			o.reply = lockagent.AcquireReply{}
		}
		batch[i].done(o.reply, o.err)
	})
}

// noteAll remembers what a reply tells of the clock and of places, and what an error
// leaves open.
func (p *packer) noteAll(c *together, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.latest = max(p.latest, c.acquired[0].reply.At)
	}
	if !p.queues {
		return
	}
	for i, a := range c.acquires {
		w := waiting{a.req.Name, a.req.Tenure}
		switch {
		case err == nil:
			p.note(w, c.acquired[i].reply.Queued)
		case a.req.Queue: // it may have been queued all the same
			p.note(w, true)
		}
	}
}

// waiting is a tenure that waits for a lock.
type waiting struct {
	name   lockagent.Name
	tenure lockagent.Tenure
}

// note remembers whether a tenure has a place in a queue. It expects mu to be held.
func (p *packer) note(w waiting, queued bool) {
	switch {
	case queued:
		p.placed[w] = true
	case len(p.placed) > 0:
		delete(p.placed, w)
	}
}

// parseAcquired reads what became of n locks. A reply says nothing of a lock that was
// granted like the others, so nothing of it is believed if there is something in it that
// is not understood.
func parseAcquired(into []outcome[lockagent.AcquireReply], m rueidis.RedisMessage, n int) ([]outcome[lockagent.AcquireReply], error) {
	r := readReply(m)
	now, rest, _ := strings.Cut(r.text(), " ")
	token, incarnation, ok := strings.Cut(rest, " ")
	at, err := strconv.ParseInt(now, 10, 64)
	first, err2 := strconv.ParseInt(token, 10, 64)
	r.err = cmp.Or(r.err, err, err2)
	if r.err == nil && !ok {
		r.err = errors.New("it names no incarnation")
	}
	common := lockagent.AcquireReply{Granted: true, Token: lockagent.Token(first), At: lockagent.StoreTime(at), Incarnation: incarnation}
	for i := range n {
		o := outcome[lockagent.AcquireReply]{reply: common}
		if r.isAbout(i) {
			o.err = parseAcquire(&r, &o.reply)
		}
		into = append(into, o)
	}
	return into, r.end()
}

// parseAcquire reads what became of one lock. It returns an error that is about it alone.
func parseAcquire(r *reply, reply *lockagent.AcquireReply) error {
	code := r.number()
	reply.Granted, reply.Token = code == 1, 0
	switch code {
	case 1:
		reply.Token = lockagent.Token(r.number())
	case 0, 2:
		reply.Queued = code == 2
		reply.Remaining = remaining(r.number())
		reply.Holder = r.text()
	case -1:
		return lockagent.ErrWithdrawn
	case -2:
		return &lockagent.OptionError{Option: "tokens", Reason: fmt.Sprintf("the lock has not that many left up to the greatest, %d; ask for fewer, with a floor that was a token", lockagent.MaxToken)}
	case -3:
		return refused(r.text())
	default:
		r.unknown(code)
	}
	return nil
}
