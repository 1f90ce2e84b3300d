package script

import (
	_ "embed"

	"github.com/lockagent/lockagent"
)

var (
	//go:embed fair_acquire.lua
	fairAcquireSource string
	//go:embed fair_release.lua
	fairReleaseSource string
	//go:embed fair_break.lua
	fairBreakSource string
)

var (
	fairAcquireScript = newScript(fairAcquireSource)
	fairReleaseScript = newScript(fairReleaseSource)
	fairBreakScript   = newScript(fairBreakSource)
)

// FairAcquire is [Room.Acquire] for fair locks, see fair_acquire.lua. [Room.ReadAcquired] reads the reply.
func (r Room) FairAcquire(c *Call, requests []lockagent.AcquireRequest, past Past) {
	r.acquire(c, fairAcquireScript, requests, past, c.fairAsks)
	c.Args = append(c.Args, r.String())
}

// fairAsks is [Room.asks] for fair locks.
func (c *Call) fairAsks(request *lockagent.AcquireRequest) string {
	if !request.Queue {
		return ""
	}
	return c.text.number(uint64(max(request.Arrived, 0)))
}

// FairRelease is [Room.Release] for fair locks, see fair_release.lua. [Room.ReadReleased] reads the reply.
func (r Room) FairRelease(c *Call, requests []ReleaseRequest, past Past) {
	r.release(c, fairReleaseScript, "lockagent_places", requests, past)
}

// FairBreak is [Room.Break] for a fair lock, see fair_break.lua. [ReadBroken] reads the reply.
func (r Room) FairBreak(c *Call, req lockagent.BreakRequest, past Past) {
	c.begin(fairBreakScript)
	c.Keys = append(c.Keys, string(req.Name))
	c.Args = append(
		c.Args, r.String(), r.shared(&c.text, "lockagent_clock", req.Name), c.text.own("", req.Name),
		escape(req.Operator), string(lockagent.FairLock), r.incarnation(&past), c.text.channel(req.Name),
	)
}

// PlaceChannel is the channel of a place at a fair lock. A program that does not pass the lock on tells the
// first place there.
func PlaceChannel(name lockagent.Name, place lockagent.Tenure) string {
	return Channel(name) + ":" + place.String()
}
