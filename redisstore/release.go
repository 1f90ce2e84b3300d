package redisstore

import (
	"cmp"
	"errors"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// releaseCall is one call of Release.
type releaseCall struct {
	req  lockagent.ReleaseRequest
	slot uint16
	done func(lockagent.ReleaseReply, error)
}

func (c *releaseCall) party() party { return partyOf(c.slot, c.req.Tenure) }

// Refuse implements [transport.Item].
func (c *releaseCall) Refuse(err error) { c.done(lockagent.ReleaseReply{}, err) }

// release makes c the call that releases locks, see release.lua. It expects mu to be held.
func (p *packer) release(c *together, batch []*releaseCall) *transport.Call {
	c.releases = append(c.releases[:0], batch...)
	batch = c.releases
	p.text.begin()
	tenure := batch[0].req.Tenure
	least := tenure.Number
	for i := range batch {
		c.Keys = append(c.Keys, string(batch[i].req.Name))
		least = min(least, batch[i].req.Tenure.Number)
	}
	agent, zeros, first := p.text.numbering(tenure, least)
	c.Args = append(c.Args, agent, zeros, first, p.publish, p.store, strconv.Itoa(p.unwoken()), "0")
	for i := range batch {
		c.Args = append(c.Args, p.text.number(batch[i].req.Tenure.Number))
	}
	for i := range batch {
		c.Args = append(c.Args, p.text.channel(batch[i].req.Name))
	}
	if p.countsOthers {
		p.addOwn(c, c.Args[len(c.Args)-len(batch):])
	}
	even, odd := p.text.releasedKeys(tenure.Agent, home{cluster: p.cluster, slot: batch[0].slot})
	c.Keys = append(c.Keys, even, odd)
	if p.queues {
		c.Keys = append(c.Keys, queuesKey)
	}
	c.Script = releaseScript
	c.Slot = batch[0].slot
	c.Done = func(m rueidis.RedisMessage, err error) { p.answerReleases(c, m, err) }
	return &c.Call
}

// unwoken is how many others are woken where nobody waits, as far as it is known.
func (p *packer) unwoken() int {
	if p.countsOthers {
		return 0
	}
	return -1
}

// addOwn adds which of the channels the store subscribes to itself.
func (p *packer) addOwn(c *together, channels []string) {
	const count = 6 // is where their number goes
	n := 0
	for i, channel := range channels {
		if p.subscriptions.Counted(channel) {
			c.Args = append(c.Args, strconv.Itoa(i+1))
			n++
		}
	}
	c.Args[count] = strconv.Itoa(n)
}

// answerReleases answers the calls that were made together.
func (p *packer) answerReleases(c *together, m rueidis.RedisMessage, err error) {
	defer p.giveBack(c)
	batch := c.releases
	if errors.Is(err, lockagent.ErrNotPermitted) && len(batch) > 1 {
		// One lock that the user may not touch must not fail the others.
		for i := range batch {
			p.mu.Lock()
			alone := p.release(p.blank(), batch[i:i+1])
			p.mu.Unlock()
			p.send(alone)
		}
		return
	}
	if err == nil {
		c.released, err = p.parseReleased(c.released[:0], m, len(batch))
	}
	if err != nil {
		each(len(batch), func(i int) { batch[i].done(lockagent.ReleaseReply{}, err) })
		return
	}
	p.mu.Lock()
	for _, d := range batch {
		if p.queues {
			p.note(waiting{d.req.Name, d.req.Tenure}, false)
		}
	}
	p.mu.Unlock()
	each(len(batch), func(i int) { batch[i].done(c.released[i].reply, c.released[i].err) })
}

// parseReleased reads what became of n locks, see parseAcquired.
func (p *packer) parseReleased(into []outcome[lockagent.ReleaseReply], m rueidis.RedisMessage, n int) ([]outcome[lockagent.ReleaseReply], error) {
	r := readReply(m)
	at, err := strconv.ParseInt(r.text(), 10, 64)
	r.err = cmp.Or(r.err, err)
	common := lockagent.ReleaseReply{Released: true, At: lockagent.StoreTime(at), Others: p.unwoken()}
	for i := range n {
		o := outcome[lockagent.ReleaseReply]{reply: common}
		if r.isAbout(i) {
			o.reply, o.err = parseRelease(&r, common.At)
		}
		into = append(into, o)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest = max(p.latest, common.At)
	return into, r.end()
}

// parseRelease reads what became of one lock. It returns an error that is about it alone.
func parseRelease(r *reply, at lockagent.StoreTime) (lockagent.ReleaseReply, error) {
	reply := lockagent.ReleaseReply{At: at}
	switch code := r.number(); code {
	case 0:
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
	default:
		r.unknown(code)
	}
	return reply, nil
}
