package redisstore

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
)

// releaseCall is one call of Release.
type releaseCall struct {
	req  lockagent.ReleaseRequest
	slot uint16
	made time.Time
	done func(lockagent.ReleaseReply, error)
}

func (c releaseCall) party() party { return partyOf(c.slot, c.req.Tenure) }

// release makes c the call that releases locks, see release.lua.
func (p *packer) release(c *call, batch []releaseCall) *call {
	p.text.begin()
	tenure := batch[0].req.Tenure
	least := tenure.Number
	for i := range batch {
		c.keys = append(c.keys, string(batch[i].req.Name))
		least = min(least, batch[i].req.Tenure.Number)
	}
	agent, zeros, first := p.text.numbering(tenure, least)
	c.args = append(c.args, agent, zeros, first, p.publish, p.store, strconv.Itoa(p.unwoken()), "0")
	for i := range batch {
		c.args = append(c.args, p.text.number(batch[i].req.Tenure.Number))
	}
	for i := range batch {
		c.args = append(c.args, p.text.channel(batch[i].req.Name))
	}
	if p.countsOthers {
		p.addOwn(c, c.args[len(c.args)-len(batch):])
	}
	even, odd := p.text.releasedKeys(tenure.Agent, home{cluster: p.cluster, slot: batch[0].slot})
	c.keys = append(c.keys, even, odd)
	if p.queues {
		c.keys = append(c.keys, queuesKey)
	}
	c.script = releaseScript
	c.done = func(m rueidis.RedisMessage, err error) { p.released(batch, m, err) }
	return c
}

// unwoken is how many others are woken where nobody waits, as far as it is known.
func (p *packer) unwoken() int {
	if p.countsOthers {
		return 0
	}
	return -1
}

// addOwn adds which of the channels the store subscribes to itself.
func (p *packer) addOwn(c *call, channels []string) {
	const count = 6 // is where their number goes
	n := 0
	for i, channel := range channels {
		if p.subscriptions.counted(channel) {
			c.args = append(c.args, strconv.Itoa(i+1))
			n++
		}
	}
	c.args[count] = strconv.Itoa(n)
}

// released answers the calls that were made together.
func (p *packer) released(batch []releaseCall, m rueidis.RedisMessage, err error) {
	if errors.Is(err, lockagent.ErrNotPermitted) && len(batch) > 1 {
		// One lock that the user may not touch must not fail the others.
		for _, d := range batch {
			p.send(p.release(new(call), []releaseCall{d}))
		}
		return
	}
	if err == nil {
		err = p.parseReleased(m, len(batch))
	}
	if err != nil {
		each(len(batch), func(i int) { batch[i].done(lockagent.ReleaseReply{}, err) })
		return
	}
	each(len(batch), func(i int) {
		o := &p.releases[i]
		if p.queues {
			p.note(waiting{batch[i].req.Name, batch[i].req.Tenure}, false)
		}
		batch[i].done(o.reply, o.err)
	})
}

// parseReleased reads what became of n locks, see parseAcquired.
func (p *packer) parseReleased(m rueidis.RedisMessage, n int) error {
	r := readReply(m)
	at, err := strconv.ParseInt(r.text(), 10, 64)
	r.err = cmp.Or(r.err, err)
	common := lockagent.ReleaseReply{Released: true, At: lockagent.StoreTime(at), Others: p.unwoken()}
	p.releases = p.releases[:0]
	for i := range n {
		o := outcome[lockagent.ReleaseReply]{reply: common}
		if r.isAbout(i) {
			o.reply, o.err = parseRelease(&r, common.At)
		}
		p.releases = append(p.releases, o)
	}
	if err := r.end(); err != nil {
		return err
	}
	p.latest = max(p.latest, common.At)
	return nil
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
