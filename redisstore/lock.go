package redisstore

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/renewals"
	"github.com/lockagent/lockagent/redisstore/internal/script"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// locks has the kinds of calls that travel together.
type locks struct {
	acquires kind[lockagent.AcquireRequest, lockagent.AcquireReply]
	releases kind[script.ReleaseRequest, lockagent.ReleaseReply]
	renewals kind[lockagent.RenewRequest, lockagent.RenewReply]
}

func (l *locks) start(s *Store) {
	room := s.room
	l.acquires.store = s
	l.acquires.write, l.acquires.alone, l.acquires.read = room.Acquire, room.AcquireAlone, room.ReadAcquired
	l.acquires.time = func(r *lockagent.AcquireReply) (lockagent.StoreTime, lockagent.Token) { return r.At, r.Token }
	l.acquires.look = s.sawIncarnation

	l.releases.store = s
	l.releases.write, l.releases.read = room.Release, room.ReadReleased
	l.releases.alone = func(c *script.Call, req *script.ReleaseRequest, _ script.Past) { room.ReleaseAlone(c, req) }
	if room == script.Sharded {
		l.releases.aside = s.wakingAtOwner
	}
	l.releases.time = func(r *lockagent.ReleaseReply) (lockagent.StoreTime, lockagent.Token) { return r.At, 0 }

	l.renewals.store = s
	l.renewals.write = func(c *script.Call, reqs []lockagent.RenewRequest, _ script.Past) { room.Renew(c, reqs) }
	l.renewals.alone = func(c *script.Call, req *lockagent.RenewRequest, _ script.Past) { room.RenewAlone(c, req) }
	l.renewals.read = script.ReadRenewed
	l.renewals.time = func(r *lockagent.RenewReply) (lockagent.StoreTime, lockagent.Token) { return r.At, 0 }
	l.renewals.look = s.sawDenials
}

// Acquire implements [lockagent.Store]. If the request is out of bounds, the error is a
// [*lockagent.NameError] or a [*lockagent.OptionError].
func (s *Store) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	if err := check(req.Name, req.Check()); err != nil {
		done(lockagent.AcquireReply{}, err)
		return
	}
	slot := s.slot(req.Name)
	s.lanes.Add(ctx, slot, &acquireCall{req: req, slot: slot, done: done})
}

// sawIncarnation takes note of the incarnation that replies name.
func (s *Store) sawIncarnation(epoch uint64, outcomes []script.Outcome[lockagent.AcquireReply]) {
	for i := range outcomes {
		if r := &outcomes[i].Reply; r.Incarnation != "" {
			s.incarnations.observe(r.Incarnation, r.At, epoch)
			return
		}
	}
}

// Release implements [lockagent.Store]. A user who may not publish to the channel of the
// lock releases it all the same, and wakes nobody.
func (s *Store) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	if err := check(req.Name, req.Check()); err != nil {
		done(lockagent.ReleaseReply{}, err)
		return
	}
	slot := s.slot(req.Name)
	s.lanes.Add(ctx, slot, &releaseCall{req: script.ReleaseRequest{ReleaseRequest: req}, slot: slot, done: done, behind: s.contended.take(req.Name)})
}

// wakingAtOwner wakes the waiters of a lock that was released while its slot migrates. The
// release may have run at the node that is about to get the slot. The waiters are subscribed at
// the node that still has it.
func (s *Store) wakingAtOwner(req script.ReleaseRequest, done func(lockagent.ReleaseReply, error)) func(lockagent.ReleaseReply, error) {
	return func(reply lockagent.ReleaseReply, err error) {
		if err == nil && reply.Released {
			var c script.Call
			s.room.Wake(&c, req.Name)
			s.send(&c, s.slot(req.Name), func(string, error) {}) // wake-ups may be lost
		}
		done(reply, err)
	}
}

// Renew implements [lockagent.Store]. It waits for company for at most a thirtieth of the
// lease, and at most 100 ms.
func (s *Store) Renew(_ context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	if err := check(req.Name, req.Check()); err != nil {
		done(lockagent.RenewReply{}, err)
		return
	}
	s.gathered.Add(renewals.Call{Req: req, Slot: s.slot(req.Name), Done: done})
}

// renew makes renewals in one script.
func (s *Store) renew(batch []renewals.Call) {
	t := s.locks.renewals.blank(batch[0].Slot)
	for i := range batch {
		t.add(batch[i].Req, batch[i].Done)
	}
	s.lanes.Send(t.write())
}

// sawDenials asks for a look at the server if it denied a renewal: it may have lost its data.
func (s *Store) sawDenials(_ uint64, outcomes []script.Outcome[lockagent.RenewReply]) {
	for i := range outcomes {
		if o := &outcomes[i]; o.Err == nil && !o.Reply.Held {
			s.incarnations.suspect()
			return
		}
	}
}

// Break implements [lockagent.Store].
func (s *Store) Break(_ context.Context, req lockagent.BreakRequest, done func(lockagent.BreakReply, error)) {
	if err := check(req.Name, req.Check()); err != nil {
		done(lockagent.BreakReply{}, err)
		return
	}
	slot := s.slot(req.Name)
	past, _ := s.past(slot)
	var c script.Call
	s.room.Break(&c, req)
	s.send(&c, slot, func(text string, err error) {
		var reply lockagent.BreakReply
		if err == nil {
			reply, err = script.ReadBroken(text, past)
			s.clocks.note(slot, past.Incarnation, reply.At, 0)
		}
		done(reply, err)
	})
}

// Inspect implements [lockagent.Store].
func (s *Store) Inspect(_ context.Context, name lockagent.Name, done func(lockagent.Inspection, error)) {
	if err := script.CheckName(name); err != nil {
		done(lockagent.Inspection{}, err)
		return
	}
	var c script.Call
	s.room.Inspect(&c, name)
	s.send(&c, s.slot(name), func(text string, err error) {
		var seen lockagent.Inspection
		if err == nil {
			seen, err = script.ReadInspected(text)
		}
		done(seen, err)
	})
}

// send makes one call of a script.
func (s *Store) send(c *script.Call, slot uint16, done func(text string, err error)) {
	call := &transport.Call{Slot: slot, Done: func(m rueidis.RedisMessage, err error) { done(understood(m, err)) }}
	carry(call, c)
	s.lanes.Send(call)
}

// check returns an error if a request is out of bounds, or its name is that of a key that is no
// lock. err is the outcome of the request's own Check: passing the request itself would allocate.
func check(name lockagent.Name, err error) error {
	if err != nil {
		return err
	}
	return script.CheckName(name)
}
