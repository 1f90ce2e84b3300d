package agentclient

import (
	"context"
	"runtime"

	"github.com/lockagent/lockagent"
)

// handle stands behind a grant that only its owner can end: the lease is kept, and the owner is no session. If the
// owner drops such a grant, its hold would never end. So the agent does not refer to the handle for long, and the
// garbage collector finds out whether the owner still does, as in package actor: from the first renewal on, which short
// holds do not have.
//
// A context of the grant refers to the handle. So the handle is in use as long as that context is. The channel of Done
// does not.
type handle struct{ *hold }

var _ lockagent.Hold = (*handle)(nil)

// Release implements [lockagent.Hold].
func (h *handle) Release(ctx context.Context) error {
	defer runtime.KeepAlive(h)
	return h.hold.Release(ctx)
}

// ReleaseAsync implements [lockagent.Hold].
func (h *handle) ReleaseAsync(ctx context.Context) <-chan error {
	defer runtime.KeepAlive(h)
	return h.hold.ReleaseAsync(ctx)
}

// handed returns the hold behind the grant of the claim.
func (c *claim) handed() lockagent.Hold {
	if c.req.Session || c.req.Lease != 0 {
		return (*hold)(c)
	}
	c.handle = &handle{(*hold)(c)}
	return c.handle
}

// watchHandle has the hold end when nobody refers to its handle any more. The mutex must be held.
func (c *claim) watchHandle() {
	if c.handle != nil {
		runtime.AddCleanup(c.handle, (*claim).dropped, c)
		c.handle = nil
	}
}

// dropped ends the hold, because nobody has its grant any more.
func (c *claim) dropped() {
	a := c.agent
	a.mu.Lock()
	if c.stage != held {
		a.mu.Unlock()
		return
	}
	told := c.end(c.lost(lockagent.LostUnclaimed))
	a.mu.Unlock()
	told() // somebody may wait who has nothing but the channel of Done
	a.mu.Lock()
	a.giveBack(c)
	a.mu.Unlock()
	a.dropping.Do(func() {
		a.cfg.Logger.Warn("lockagent: a grant that nobody had any more was given back; further ones are not logged",
			"lock", string(c.name), "owner", string(c.req.Owner), "token", uint64(c.token),
			"advice", "release every grant, or work under its Context")
	})
}
