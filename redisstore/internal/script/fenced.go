package script

import (
	_ "embed"

	"github.com/lockagent/lockagent"
)

// The scripts for fenced locks run those for plain locks, and add the tokens that Redisson has.
var (
	//go:embed fenced_acquire.lua
	fencedAcquireSource string
	//go:embed fenced_release.lua
	fencedReleaseSource string
	//go:embed fenced_renew.lua
	fencedRenewSource string
)

var (
	fencedAcquireScript = newScript(fencedAcquireSource)
	fencedReleaseScript = newScript(fencedReleaseSource)
	fencedRenewScript   = newScript(fencedRenewSource)
)

// AcquireFenced is [Room.Acquire] for fenced locks, see fenced_acquire.lua.
func (r Room) AcquireFenced(c *Call, requests []lockagent.AcquireRequest, past Past) {
	r.Acquire(c, requests, past)
	c.floors(requests, past)
}

func (c *Call) floors(requests []lockagent.AcquireRequest, past Past) {
	c.Script = fencedAcquireScript
	c.Args[0] = c.text.number(uint64(past.Seen))
	for i := range requests {
		c.fence(requests[i].Name)
		c.Args = append(c.Args, c.text.number(uint64(requests[i].Floor)))
	}
}

// fence adds the token key of a lock.
func (c *Call) fence(name lockagent.Name) {
	c.Keys = append(c.Keys, c.text.theirs("redisson_lock_token", name))
}

// ReleaseFenced is [Room.Release] for fenced locks, see fenced_release.lua.
func (r Room) ReleaseFenced(c *Call, requests []ReleaseRequest, past Past) {
	r.Release(c, requests, past)
	c.lasts(requests)
}

func (c *Call) lasts(requests []ReleaseRequest) {
	c.Script = fencedReleaseScript
	c.Args[1] = "0"
	for i := range requests {
		c.fence(requests[i].Name)
		c.Args = append(c.Args, c.text.number(uint64(requests[i].Last)))
	}
}

// RenewFenced is [Room.Renew] for fenced locks, see fenced_renew.lua.
func (r Room) RenewFenced(c *Call, requests []lockagent.RenewRequest) {
	r.Renew(c, requests)
	c.Script = fencedRenewScript
	for i := range requests {
		c.fence(requests[i].Name)
	}
}
