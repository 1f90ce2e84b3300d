package script

import (
	_ "embed"

	"github.com/lockagent/lockagent"
)

var (
	//go:embed rw_acquire.lua
	rwAcquireSource string
	//go:embed rw_renew.lua
	rwRenewSource string
	//go:embed rw_release.lua
	rwReleaseSource string
	//go:embed rw_break.lua
	rwBreakSource string
	//go:embed rw_inspect.lua
	rwInspectSource string
)

var (
	rwAcquireScript = newScript(rwAcquireSource)
	rwRenewScript   = newScript(rwRenewSource)
	rwReleaseScript = newScript(rwReleaseSource)
	rwBreakScript   = newScript(rwBreakSource)
	rwInspectScript = newScript(rwInspectSource)
)

// ReadWriteChannel is the channel of a read/write lock. It is Redisson's.
func ReadWriteChannel(name lockagent.Name) string { return new(text).theirs("redisson_rwlock", name) }

// ReadWriteAcquire is [Room.Acquire] for read/write locks, see rw_acquire.lua. [Room.ReadAcquired] reads the
// reply.
func (r Room) ReadWriteAcquire(c *Call, requests []lockagent.AcquireRequest, past Past) {
	r.Acquire(c, requests, past)
	c.Script, c.Args = rwAcquireScript, c.Args[:2]
	for i := range requests {
		r.readWrite(c, &requests[i])
	}
}

// readWrite writes the arguments of one lock.
func (r Room) readWrite(c *Call, request *lockagent.AcquireRequest) {
	field := request.Tenure.String()
	if request.Mode != lockagent.Shared {
		field += ":write"
	}
	asks := r.queue(request)
	if asks == "" {
		asks = "-" + r.String()
	}
	c.Args = append(c.Args, field, c.text.milliseconds(request.Lease), asks)
}

// ReadWriteRelease is [Room.Release] for read/write locks, see rw_release.lua. [Room.ReadReleased] reads the
// reply.
func (r Room) ReadWriteRelease(c *Call, requests []ReleaseRequest, past Past) {
	r.Release(c, requests, past)
	c.Script, c.Args = rwReleaseScript, c.Args[:2]
	for i := range requests {
		c.leaveReadWrite(&requests[i])
	}
}

func (c *Call) leaveReadWrite(request *ReleaseRequest) {
	c.Args = append(
		c.Args, c.text.tenure(request.Tenure), c.text.theirs("redisson_rwlock", request.Name), request.flags(),
	)
}

// ReadWriteRenew is [Room.Renew] for read/write locks, see rw_renew.lua. [ReadRenewed] reads the reply.
func (r Room) ReadWriteRenew(c *Call, requests []lockagent.RenewRequest) {
	c.begin(rwRenewScript)
	c.Args = append(c.Args, r.String())
	for i := range requests {
		c.Keys = append(c.Keys, string(requests[i].Name))
		c.renewReadWrite(&requests[i])
	}
	c.Keys = append(c.Keys, r.shared(&c.text, "lockagent_clock", requests[0].Name))
}

func (c *Call) renewReadWrite(request *lockagent.RenewRequest) {
	c.renew(request)
	asks := ""
	switch {
	case request.Mode == lockagent.Shared:
		asks = "read"
	case request.Watched:
		asks = "watched"
	}
	c.Args = append(c.Args, asks)
}

// ReadWriteBreak is [Room.Break] for a read/write lock, see rw_break.lua. [ReadBroken] reads the reply.
func (r Room) ReadWriteBreak(c *Call, req lockagent.BreakRequest, past Past) {
	r.Break(c, req, past)
	c.Script = rwBreakScript
}

// ReadWriteInspect is [Room.Inspect] for a read/write lock, see rw_inspect.lua. [ReadInspected] reads the
// reply.
func (r Room) ReadWriteInspect(c *Call, name lockagent.Name) {
	r.Inspect(c, name, lockagent.ReadWriteLock)
	c.Script = rwInspectScript
}
