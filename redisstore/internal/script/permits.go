package script

import (
	_ "embed"
	"time"

	"github.com/lockagent/lockagent"
)

var (
	//go:embed permits_acquire.lua
	permitsAcquireSource string
	//go:embed permits_renew.lua
	permitsRenewSource string
	//go:embed permits_release.lua
	permitsReleaseSource string
	//go:embed permits_change.lua
	permitsChangeSource string
	//go:embed permits_break.lua
	permitsBreakSource string
	//go:embed permits_inspect.lua
	permitsInspectSource string
)

var (
	permitsAcquireScript = newScript(permitsAcquireSource)
	permitsRenewScript   = newScript(permitsRenewSource)
	permitsReleaseScript = newScript(permitsReleaseSource)
	permitsChangeScript  = newScript(permitsChangeSource)
	permitsBreakScript   = newScript(permitsBreakSource)
	permitsInspectScript = newScript(permitsInspectSource)
)

// PermitsChannel is the channel of a semaphore, on which the number of free permits is published. It
// is Redisson's.
func PermitsChannel(name lockagent.Name) string { return new(text).theirs("redisson_sc", name) }

// permits begins a call about a semaphore, see permits.lua.
func (r Room) permits(c *Call, s *Script, name lockagent.Name, kind lockagent.LockKind) {
	r.tenures(c, s, name, kind)
	other := c.text.own("lockagent_tenures", name)
	if kind == lockagent.Permits {
		other = c.text.own("lockagent_permits", name)
	} else {
		c.Keys = append(c.Keys, c.Args[4])
	}
	c.Keys = append(c.Keys, other, r.shared(&c.text, "lockagent_ahead", name))
	for _, prefix := range []string{"lockagent_queue", "lockagent_wanted", "lockagent_notes", "lockagent_turn"} {
		c.Keys = append(c.Keys, c.text.own(prefix, name))
	}
}

// tenures begins a call with those keys alone that exist as long as a tenure has permits.
func (r Room) tenures(c *Call, s *Script, name lockagent.Name, kind lockagent.LockKind) {
	c.begin(s)
	ids := c.text.of("{", string(name), "}:timeout")
	if hasTag(name) {
		ids = c.text.of(string(name), ":timeout")
	}
	clock := r.shared(&c.text, "lockagent_clock", name)
	c.Keys = append(c.Keys, string(name), c.text.own("lockagent_taken", name), clock)
	if kind == lockagent.Permits {
		c.Keys = append(c.Keys, c.text.own("lockagent_tenures", name), ids)
	} else {
		c.Keys = append(c.Keys, c.text.own("lockagent_permits", name))
	}
	c.Args = append(c.Args, string(kind), r.String(), c.text.own("", name), c.text.theirs("", name), ids, clock)
}

// AcquirePermits writes the call that acquires permits, see permits_acquire.lua.
func (r Room) AcquirePermits(c *Call, req *lockagent.AcquireRequest, past Past) {
	r.permits(c, permitsAcquireScript, req.Name, req.Kind)
	c.Args = append(c.Args, c.text.known(past.Seen, req.Floor, req.Exact), r.incarnation(&past))
	c.acquire(req)
	c.Args = append(c.Args, c.text.number(uint64(max(1, req.Permits))), r.queue(req))
}

// RenewPermits writes the call that renews a tenure, see permits_renew.lua.
func (r Room) RenewPermits(c *Call, req *lockagent.RenewRequest) {
	r.tenures(c, permitsRenewScript, req.Name, req.Kind)
	c.renew(req)
	watched := ""
	if req.Watched {
		watched = "watched"
	}
	c.Args = append(c.Args, watched)
}

// ReleasePermits writes the call that releases a tenure, see permits_release.lua.
func (r Room) ReleasePermits(c *Call, req *ReleaseRequest, past Past) {
	r.permits(c, permitsReleaseScript, req.Name, req.Kind)
	last := req.Last
	if last <= past.Given {
		last = 0
	}
	c.Args = append(c.Args, c.text.number(uint64(last)), c.text.tenure(req.Tenure), req.flags())
}

// BreakPermits writes the call that ends all tenures of a semaphore, see permits_break.lua. Read the
// reply with [ReadBroken].
func (r Room) BreakPermits(c *Call, req lockagent.BreakRequest, past Past) {
	r.permits(c, permitsBreakScript, req.Name, req.Kind)
	c.Args = append(c.Args, escape(req.Operator), r.incarnation(&past))
}

// InspectPermits writes the call that inspects a semaphore, see permits_inspect.lua. Read the reply
// with [ReadInspected].
func (r Room) InspectPermits(c *Call, name lockagent.Name, kind lockagent.LockKind) {
	r.permits(c, permitsInspectScript, name, kind)
}

// ChangePermits writes the call that reads or changes the numbers of a semaphore, see
// permits_change.lua. The reply to the change is kept so long.
func (r Room) ChangePermits(c *Call, req *lockagent.PermitsRequest, kept time.Duration, past Past) {
	r.permits(c, permitsChangeScript, req.Name, req.Kind)
	number := c.text.number(uint64(max(req.N, -req.N)))
	if req.N < 0 {
		number = c.text.of("-", number)
	}
	change := ""
	if req.Op != lockagent.ReadPermits {
		change = c.text.of(c.text.own("lockagent_change", req.Name), ":", req.Change)
		c.Keys = append(c.Keys, change)
	}
	c.Args = append(
		c.Args, string(req.Op), number, string(req.ID), c.text.milliseconds(req.Lease), change,
		c.text.milliseconds(kept), r.incarnation(&past),
	)
}

// ReadPermitsChanged reads the reply to a [Room.ChangePermits].
func ReadPermitsChanged(reply string, past Past) (lockagent.PermitsReply, error) {
	lines := readLines(reply)
	p := lockagent.PermitsReply{
		At: past.since(lines.time()), Done: lines.number(0) == 1, N: int(lines.number(0)), Exists: lines.number(0) == 1,
		Free: int(lines.number(-lockagent.MaxTenure)), Taken: int(lines.number(0)),
	}
	if err := lines.end(); err != nil {
		return lockagent.PermitsReply{}, err
	}
	return p, nil
}
