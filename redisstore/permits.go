package redisstore

import (
	"context"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
)

// permits returns the family of semaphores of a kind. A script serves one semaphore.
func (s *Store) permits(kind lockagent.LockKind) *family {
	room := s.room
	f := s.plain()
	f.channel, f.many, f.beside = script.PermitsChannel, true, true
	f.breaks.write = breaks(room.BreakPermits)
	f.inspects = func(c *script.Call, name lockagent.Name) { room.InspectPermits(c, name, kind) }

	f.acquires.lone = true
	f.acquires.write = func(c *script.Call, reqs []lockagent.AcquireRequest, past script.Past) {
		room.AcquirePermits(c, &reqs[0], past)
	}
	f.acquires.refused = func(req *lockagent.AcquireRequest, err error) error { return completed(err, req.Name, kind) }

	f.releases.lone = true
	f.releases.write = func(c *script.Call, reqs []script.ReleaseRequest, past script.Past) {
		room.ReleasePermits(c, &reqs[0], past)
	}
	f.releases.refused = func(req *script.ReleaseRequest, err error) error { return completed(err, req.Name, kind) }

	f.renewals.lone = true
	f.renewals.write = func(c *script.Call, reqs []lockagent.RenewRequest, _ script.Past) {
		room.RenewPermits(c, &reqs[0])
	}
	f.renewals.refused = func(req *lockagent.RenewRequest, err error) error { return completed(err, req.Name, kind) }

	f.changes.store, f.changes.lone = s, true
	f.changes.write = func(c *script.Call, reqs []lockagent.PermitsRequest, past script.Past) {
		room.ChangePermits(c, &reqs[0], s.remembers(), past)
	}
	f.changes.read = func(reply string, past script.Past, outcomes []script.Outcome[lockagent.PermitsReply]) (err error) {
		outcomes[0].Reply, err = script.ReadPermitsChanged(reply, past)
		return err
	}
	// The server may have kept a reply for a while. So the time in it is no reading of the clock.
	f.changes.time = func(*lockagent.PermitsReply) (lockagent.StoreTime, lockagent.Token) { return 0, 0 }
	f.changes.look = func(slot uint16, _ uint64, outcomes []script.Outcome[lockagent.PermitsReply]) {
		s.clocks.note(slot, "", outcomes[0].Reply.At, 0)
	}
	f.changes.refused = func(req *lockagent.PermitsRequest, err error) error { return completed(err, req.Name, kind) }
	return f
}

// Permits implements [lockagent.Counters].
func (s *Store) Permits(_ context.Context, req lockagent.PermitsRequest, done func(lockagent.PermitsReply, error)) {
	f, err := s.check(req.Name, req.Kind, req.Check())
	if err != nil {
		done(lockagent.PermitsReply{}, err)
		return
	}
	t := f.changes.blank(s.slot(req.Name))
	t.add(req, done)
	s.lanes.Send(t.write())
}

// remembers is for how long the server remembers a change of a semaphore or a latch, at least a minute. An agent
// makes a change again for up to three quarters of a minute. The last call may take CallTimeout, and as much on
// its way to the server.
func (s *Store) remembers() time.Duration { return max(time.Minute, 45*time.Second+2*s.bound) }
