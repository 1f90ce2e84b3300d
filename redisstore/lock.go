package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/inperson"
	"github.com/lockagent/lockagent/internal/renewals"
	"github.com/lockagent/lockagent/redisstore/internal/script"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// family has the calls of one kind of lock. Calls that travel together are of one family.
type family struct {
	acquires batches[lockagent.AcquireRequest, lockagent.AcquireReply]
	releases batches[script.ReleaseRequest, lockagent.ReleaseReply]
	renewals batches[lockagent.RenewRequest, lockagent.RenewReply]
	// reasserts are renewals in a grace period.
	reasserts *batches[lockagent.RenewRequest, lockagent.RenewReply]
	breaks    batches[lockagent.BreakRequest, lockagent.BreakReply]
	changes   batches[lockagent.PermitsRequest, lockagent.PermitsReply] // only of semaphores

	acquire func(
		ctx context.Context, f *family, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
	)
	inspects func(c *script.Call, name lockagent.Name)
	channel  func(name lockagent.Name) string          // on which waiters are woken; nil if nobody is
	heard    func(name lockagent.Name, payload string) // called with each message there; may be nil
	places   *places                                   // of which some have channels of their own; may be nil
	holds    error                                     // of calls about holds, if the kind has none
	// An agent may wait with many tenures, each with a place of its own.
	many   bool
	beside bool // Redisson has keys beside the lock, see script.CheckSharedKeys
}

// families returns the family of each kind.
func families(s *Store) map[lockagent.LockKind]*family {
	all := map[lockagent.LockKind]*family{
		lockagent.PlainLock:     s.plain(),
		lockagent.FairLock:      s.fair(),
		lockagent.Semaphore:     s.permits(lockagent.Semaphore),
		lockagent.Permits:       s.permits(lockagent.Permits),
		lockagent.FencedLock:    s.fenced(),
		lockagent.SpinLock:      s.spin(),
		lockagent.Latch:         s.latch(),
		lockagent.ReadWriteLock: s.readWrite(),
	}
	for kind, f := range all {
		switch kind {
		case lockagent.Latch: // nobody holds it
		case lockagent.ReadWriteLock:
			f.reasserts = f.renewals.inGrace(s.room.ReadWriteReassert)
		case lockagent.Semaphore, lockagent.Permits:
			f.reasserts = f.renewals.inGrace(func(c *script.Call, reqs []lockagent.RenewRequest, past script.Past) {
				s.room.ReassertPermits(c, &reqs[0], past)
			})
		default:
			f.reasserts = f.renewals.inGrace(s.room.Reassert)
		}
	}
	return all
}

// family returns the family of a kind.
func (s *Store) family(kind lockagent.LockKind) (*family, error) {
	if f := s.families[kind.OrPlain()]; f != nil {
		return f, nil
	}
	return nil, &lockagent.OptionError{
		Option: "kind", Reason: fmt.Sprintf("this store has no locks of the kind %.64q", kind),
	}
}

// plain returns the family of plain locks.
func (s *Store) plain() *family {
	room := s.room
	f := &family{
		acquire: s.together, inspects: inspects(room, lockagent.PlainLock), channel: script.Channel,
	}
	f.acquires.store = s
	f.acquires.write, f.acquires.read = room.Acquire, room.ReadAcquired
	f.acquires.time = func(r *lockagent.AcquireReply) (lockagent.StoreTime, lockagent.Token) { return r.At, r.Token }
	f.acquires.look = s.sawIncarnation
	f.acquires.refused = func(req *lockagent.AcquireRequest, err error) error {
		return completed(err, req.Name, req.Kind.OrPlain())
	}

	f.releases.store = s
	f.releases.write, f.releases.read = room.Release, room.ReadReleased
	f.releases.time = func(r *lockagent.ReleaseReply) (lockagent.StoreTime, lockagent.Token) { return r.At, 0 }

	f.renewals.store = s
	f.renewals.write = func(c *script.Call, reqs []lockagent.RenewRequest, _ script.Past) { room.Renew(c, reqs) }
	f.renewals.read = script.ReadRenewed
	f.renewals.time = func(r *lockagent.RenewReply) (lockagent.StoreTime, lockagent.Token) { return r.At, 0 }
	f.renewals.look = s.sawDenials

	f.breaks.store, f.breaks.lone = s, true
	f.breaks.write, f.breaks.read = breaks(room.Break), readBroken
	f.breaks.time = func(r *lockagent.BreakReply) (lockagent.StoreTime, lockagent.Token) { return r.At, 0 }
	f.breaks.refused = func(req *lockagent.BreakRequest, err error) error {
		return completed(err, req.Name, req.Kind.OrPlain())
	}
	return f
}

// breaks makes a function that writes one break the one of [batches].
func breaks(
	write func(c *script.Call, req lockagent.BreakRequest, past script.Past),
) func(c *script.Call, reqs []lockagent.BreakRequest, past script.Past) {
	return func(c *script.Call, reqs []lockagent.BreakRequest, past script.Past) { write(c, reqs[0], past) }
}

func readBroken(reply string, past script.Past, outcomes []script.Outcome[lockagent.BreakReply]) (err error) {
	outcomes[0].Reply, err = script.ReadBroken(reply, past)
	return err
}

// inGrace returns the renewals of a grace period, which are written by another function.
func (b *batches[Q, A]) inGrace(write func(c *script.Call, reqs []Q, past script.Past)) *batches[Q, A] {
	return &batches[Q, A]{
		store: b.store, write: write, read: b.read, time: b.time, lone: b.lone, refused: b.refused, look: b.look,
	}
}

// inspects returns the function that writes the call which inspects a lock of a kind.
func inspects(room script.Room, kind lockagent.LockKind) func(c *script.Call, name lockagent.Name) {
	return func(c *script.Call, name lockagent.Name) { room.Inspect(c, name, kind) }
}

// Acquire implements [lockagent.Store]. If the request is out of bounds, the error is a
// [*lockagent.NameError] or a [*lockagent.OptionError].
func (s *Store) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	f, err := s.check(req.Name, req.Kind, req.Check())
	if err != nil {
		done(lockagent.AcquireReply{}, err)
		return
	}
	if f.acquires.replicas != nil {
		done = s.replicatedAcquire(&req, done)
	}
	of := s.shard(s.slot(req.Name))
	if !s.covers(of, req.Lease) {
		s.cover(of, req.Lease, false, func(err error) {
			if err != nil {
				done(lockagent.AcquireReply{}, err)
				return
			}
			f.acquire(inperson.Not(ctx), f, req, done)
		})
		return
	}
	f.acquire(ctx, f, req, done)
}

// together is Acquire for locks whose calls travel together.
func (s *Store) together(
	ctx context.Context, f *family, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	slot := s.slot(req.Name)
	s.lanes.Add(ctx, slot, &acquireCall{req: req, of: f, slot: slot, done: done})
}

// sawIncarnation takes note of the incarnation that replies name.
func (s *Store) sawIncarnation(slot uint16, epoch uint64, outcomes []script.Outcome[lockagent.AcquireReply]) {
	for i := range outcomes {
		if r := &outcomes[i].Reply; r.Incarnation != "" {
			s.incarnations.observe(s.shard(slot), r.Incarnation, "", r.At, epoch)
			return
		}
	}
}

// Release implements [lockagent.Store]. A user who may not publish to the channel of the
// lock releases it all the same, and wakes nobody.
func (s *Store) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	f, err := s.checkHold(req.Name, req.Kind, req.Check())
	if err != nil {
		done(lockagent.ReleaseReply{}, err)
		return
	}
	if f.places != nil {
		f.places.leave(place{req.Name, req.Tenure})
	}
	slot := s.slot(req.Name)
	s.lanes.Add(ctx, slot, &releaseCall{
		req: script.ReleaseRequest{ReleaseRequest: req}, of: f, slot: slot, done: done,
	})
}

// Renew implements [lockagent.Store]. It waits for company for at most a thirtieth of the
// lease, and at most 100 ms.
func (s *Store) Renew(_ context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	f, err := s.checkHold(req.Name, req.Kind, req.Check())
	if err != nil {
		done(lockagent.RenewReply{}, err)
		return
	}
	if f.renewals.replicas != nil {
		done = s.replicatedRenew(req.Name, done)
	}
	renewal := renewals.Call{Req: req, Slot: s.slot(req.Name), Done: done}
	of := s.shard(renewal.Slot)
	add := func(err error) {
		if err != nil {
			done(lockagent.RenewReply{}, err)
			return
		}
		s.gathered.Add(renewal)
	}
	renewal.Done = func(reply lockagent.RenewReply, err error) {
		if !errors.Is(err, script.ErrForgotten) {
			done(reply, err)
			return
		} else if !s.incarnate() {
			done(reply, nil)
			return
		}
		renewal.Req.Urgent = true
		renewal.Done = func(reply lockagent.RenewReply, err error) {
			if errors.Is(err, script.ErrForgotten) && reply.At > 0 && !s.incarnations.graced(of) {
				err = nil // the tenure is not there, and no grace period goes on in which it could be put back
			}
			done(reply, err)
		}
		s.cover(of, req.Lease, true, add) // the next call is one of a grace period, if there is one
	}
	if s.covers(of, req.Lease) {
		s.gathered.Add(renewal)
	} else {
		s.cover(of, req.Lease, false, add)
	}
}

// renew makes renewals in one script for each kind.
func (s *Store) renew(batch []renewals.Call) {
	graced := s.incarnations.graced(s.shard(batch[0].Slot))
	slices.SortStableFunc(batch, func(a, b renewals.Call) int { return cmp.Compare(a.Req.Kind, b.Req.Kind) })
	for len(batch) > 0 {
		kind, n := batch[0].Req.Kind, 0
		by := &s.families[kind.OrPlain()].renewals
		if graced {
			by = s.families[kind.OrPlain()].reasserts
		}
		t := by.blank(batch[0].Slot)
		for ; n < len(batch) && batch[n].Req.Kind == kind && (n == 0 || !t.by.lone); n++ {
			t.add(batch[n].Req, batch[n].Done)
		}
		s.lanes.Send(t.write())
		batch = batch[n:]
	}
}

// sawDenials asks for a look at the server if it denied a renewal: it may have lost its data.
func (s *Store) sawDenials(_ uint16, _ uint64, outcomes []script.Outcome[lockagent.RenewReply]) {
	for i := range outcomes {
		if o := &outcomes[i]; o.Err == nil && !o.Reply.Held || errors.Is(o.Err, script.ErrForgotten) {
			s.incarnations.suspect()
			return
		}
	}
}

// Break implements [lockagent.Operator].
func (s *Store) Break(_ context.Context, req lockagent.BreakRequest, done func(lockagent.BreakReply, error)) {
	f, err := s.checkHold(req.Name, req.Kind, req.Check())
	if err != nil {
		done(lockagent.BreakReply{}, err)
		return
	}
	t := f.breaks.blank(s.slot(req.Name))
	t.add(req, done)
	s.lanes.Send(t.write())
}

// Inspect implements [lockagent.Operator].
func (s *Store) Inspect(
	_ context.Context, name lockagent.Name, kind lockagent.LockKind, done func(lockagent.Inspection, error),
) {
	f, err := s.checkHold(name, kind, nil)
	if err != nil {
		done(lockagent.Inspection{}, err)
		return
	}
	var c script.Call
	f.inspects(&c, name)
	s.send(&c, s.slot(name), func(text string, err error) {
		var seen lockagent.Inspection
		if err == nil {
			seen, err = script.ReadInspected(text)
		}
		done(seen, completed(err, name, kind.OrPlain()))
	})
}

// send makes one call of a script.
func (s *Store) send(c *script.Call, slot uint16, done func(text string, err error)) {
	call := &transport.Call{Slot: slot, Done: func(r transport.Reply, err error) { done(understood(r, err)) }}
	carry(call, c)
	s.lanes.Send(call)
}

// check returns the family of a kind. It refuses a request that is out of bounds, and a name that the kind
// does not allow. err is the outcome of the request's own Check: to pass the request itself would allocate.
func (s *Store) check(name lockagent.Name, kind lockagent.LockKind, err error) (*family, error) {
	if err != nil {
		return nil, err
	}
	if err := script.CheckName(name); err != nil {
		return nil, err
	}
	f, err := s.family(kind)
	if err == nil && f.beside {
		err = script.CheckSharedKeys(name)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// checkHold is check for a call about the holds of a lock.
func (s *Store) checkHold(name lockagent.Name, kind lockagent.LockKind, err error) (*family, error) {
	f, err := s.check(name, kind, err)
	if err != nil {
		return nil, err
	}
	return f, f.holds
}
