package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

var readWriteClauses = []clause{
	{
		name: "several shared tenures have the lock at once",
		says: "A [ReadWriteLock] is held by one tenure of the mode [Exclusive], or by several of the mode [Shared].",
		prove: func(t *testing.T, h *Harness) {
			all := h.agents(t, 3)
			for _, p := range all {
				p.read(1)
				p.read(2)
			}
			for _, p := range all {
				p.has(1)
				p.has(2)
			}
		},
	},
	{
		name: "an exclusive tenure is alone",
		says: "A [ReadWriteLock] is held by one tenure of the mode [Exclusive], or by several of the mode [Shared].",
		prove: byTwo(func(t *testing.T, one, two *party) {
			one.acquire(theLock, 1)
			two.refused(theLock, 1, one.tenure(1).String())
			two.keptOut(2, one.tenure(1))
			one.keptOut(2, one.tenure(1))
			one.sees(theLock, one.tenure(1).String())
			one.release(theLock, 1, true)
			two.read(2)
			one.refused(theLock, 3, two.tenure(2).String())
		}),
	},
	{
		name: "each has a lease of its own",
		says: "Each of them has a lease of its own, and ends by itself.",
		prove: func(t *testing.T, h *Harness) {
			all := h.agents(t, 3)
			dead, living, writer := all[0], all[1], all[2]
			dead.get(shared(dead.wish(theLock, 1), brief))
			living.read(1)
			living.awaitHolder(living.tenure(1))
			dead.over(1)
			dead.release(theLock, 1, false)
			living.has(1)
			writer.refused(theLock, 1, living.tenure(1).String())
			living.release(theLock, 1, true)
			writer.acquire(theLock, 2)
		},
	},
	{
		name: "one that is over keeps no writer out",
		says: "The lock is free when the last one has ended.",
		prove: func(t *testing.T, h *Harness) {
			all := h.agents(t, 2)
			dead, living := all[0], all[1]
			living.read(1)
			dead.get(shared(dead.wish(theLock, 1), brief))
			living.get(shared(living.wish(theLock, 2), brief))
			living.release(theLock, 1, true)
			living.awaitHolder(lockagent.Tenure{})
			living.acquire(theLock, 3)
		},
	},
	{
		name: "the end of one does not shorten the life of another",
		says: "Each of them has a lease of its own, and ends by itself.",
		prove: byTwo(func(t *testing.T, one, two *party) {
			one.get(shared(one.wish(theLock, 1), time.Hour))
			two.read(1)
			two.release(theLock, 1, true)
			if left := one.sees(theLock, one.tenure(1).String()).Remaining; left <= minute || left > time.Hour {
				t.Errorf("%v left of a lease of %v", left, time.Hour)
			}
			two.get(shared(two.wish(theLock, 2), brief))
			if _, err := Release(t, two.store, two.ending(theLock, 2)); err != nil { // the tenure may be over already
				t.Errorf("Release: %v", err)
			}
			one.has(1)
			if left := one.inspect(theLock).Remaining; left <= minute {
				t.Errorf("%v left of a lease of %v", left, time.Hour)
			}
		}),
	},
	{
		name: "the last one that is released frees the lock",
		says: "A tenure is released also if others still share the lock. Nobody is woken then.",
		prove: func(t *testing.T, h *Harness) {
			all := h.agents(t, 3)
			one, two, writer := all[0], all[1], all[2]
			one.read(1)
			two.read(1)
			sub := writer.subscribe(theLock)
			woken := sub.Count()
			if released := one.release(theLock, 1, true); released.Passed || released.Others > 0 {
				t.Errorf("Release = %+v, while another has the lock", released)
			}
			one.over(1)
			writer.refused(theLock, 1, two.tenure(1).String())
			if sub.Count() != woken {
				t.Error("woken by a release that did not free the lock")
			}
			two.release(theLock, 1, true)
			sub.Await()
			writer.acquire(theLock, 2)
			writer.release(theLock, 2, true)
			sub.Await()
		},
	},
	{
		name: "a shared tenure is granted again",
		says: "It is also granted if this tenure has the lock already, by a call whose reply was lost.",
		prove: byTwo(func(t *testing.T, one, two *party) {
			one.read(1)
			two.read(1)
			one.get(shared(one.wish(theLock, 1), time.Hour))
			one.read(1)
			if seen := one.inspect(theLock); seen.HoldCount != 1 || seen.Remaining <= minute {
				t.Errorf("Inspect = %+v; want a hold count of 1, and what is left of %v", seen, time.Hour)
			}
			one.release(theLock, 1, true)
			two.release(theLock, 1, true)
			two.sees(theLock, "")
		}),
	},
	{
		name: "a tenure that was withdrawn does not join",
		says: "an Acquire of the tenure that arrives within a minute has no effect.",
		prove: byTwo(func(t *testing.T, one, two *party) {
			one.read(1)
			two.withdraws(theLock, 1)
			if reply, err := two.try(shared(two.wish(theLock, 1), minute)); !errors.Is(err, lockagent.ErrWithdrawn) {
				t.Errorf("Acquire = %+v, %v; want ErrWithdrawn", reply, err)
			}
			two.over(1)
		}),
	},
	{
		name: "the tokens of writers are above those of readers",
		says: "of a tenure is greater than every T before, and greater than all tokens of the tenures that have ended.",
		prove: byTwo(func(t *testing.T, one, two *party) {
			first := one.read(1)
			second := two.read(1)
			if second.Token <= first.Token {
				t.Errorf("a tenure has token %d after %d", second.Token, first.Token)
			}
			req := one.ending(theLock, 1)
			req.Last = lockagent.Token(first.At) + farAhead
			one.end(req, true)
			two.release(theLock, 1, true)
			if third := two.acquire(theLock, 2); third.Token <= req.Last {
				t.Errorf("a writer has token %d after %d", third.Token, req.Last)
			}
		}),
	},
	{
		name: "a break ends all tenures",
		says: "Break frees a lock, whatever tenure or program has it.",
		prove: byTwo(func(t *testing.T, one, two *party) {
			sub := two.subscribe(theLock)
			one.read(1)
			two.read(1)
			two.breaks(theLock, true)
			one.hears(lockagent.MessageBroken, 1)
			two.hears(lockagent.MessageBroken, 1)
			sub.Await()
			one.over(1)
			two.over(1)
			one.acquire(theLock, 2)
			two.breaks(theLock, true)
			one.hears(lockagent.MessageBroken, 2)
			one.over(2)
			two.breaks(theLock, false)
		}),
	},
	{
		name: "an exclusive tenure becomes shared",
		says: "An exclusive tenure becomes shared by a Renew that asks for it: the downgrade.",
		prove: byTwo(func(t *testing.T, one, two *party) {
			one.acquire(theLock, 1)
			one.has(1)
			two.keptOut(1, one.tenure(1))
			one.downgrades(1)
			one.downgrades(1)
			two.read(1)
			two.refused(theLock, 2, one.tenure(1).String())
			one.has(1)
			one.release(theLock, 1, true)
			two.has(1)
			two.release(theLock, 1, true)
			one.sees(theLock, "")
		}),
	},
	{
		name: "a downgrade wakes who waits",
		says: opens,
		prove: byTwo(func(t *testing.T, one, two *party) {
			one.acquire(theLock, 1)
			sub := two.subscribe(theLock)
			two.keptOut(1, one.tenure(1))
			one.downgrades(1)
			sub.Await()
			two.read(1)
		}),
	},
	{
		name: "a shared tenure does not become exclusive",
		says: "An Acquire of a tenure that has the lock does not change its mode.",
		prove: byTwo(func(t *testing.T, one, two *party) {
			one.acquire(theLock, 1)
			one.downgrades(1)
			one.acquire(theLock, 1) // late
			one.has(1)              // as exclusive
			two.read(1)
			one.acquire(theLock, 1)
			two.has(1)
		}),
	},
	{
		name: "a tenure that is over is not made shared",
		says: "Held is false if the tenure is over: the lock is free, or another's.",
		prove: byTwo(func(t *testing.T, one, two *party) {
			one.acquire(theLock, 1)
			one.release(theLock, 1, true)
			two.acquire(theLock, 1)
			req := one.renewal(theLock, 1, minute)
			req.Mode = lockagent.Shared
			if reply, err := Renew(t, one.store, req); err != nil || reply.Held {
				t.Errorf("Renew = %+v, %v; want Held false", reply, err)
			}
			one.keptOut(2, two.tenure(1))
		}),
	},
	{
		name: "tenures that lost the lock to another program are over",
		says: "Another program may end the lock while tenures share it. Then they are over.",
		prove: func(t *testing.T, h *Harness) {
			all := h.agents(t, 4)
			writer := all[3]
			for _, p := range all[:3] {
				p.read(1)
			}
			h.plantHolder(t, 1, brief)
			writer.awaitFree(theLock)
			all[0].over(1)
			reply, err := writer.try(writer.wish(theLock, 1))
			if err != nil {
				t.Errorf("Acquire: %v", err)
			}
			all[1].over(1)
			all[2].release(theLock, 1, false)
			writer.release(theLock, 1, reply.Granted)
			writer.acquire(theLock, 2)
		},
	},
	{
		name: "other locks are not shared",
		says: "All other locks have exclusive tenures only.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			for mode, kind := range map[lockagent.Mode]lockagent.LockKind{
				lockagent.Shared: lockagent.PlainLock,
				"half":           lockagent.ReadWriteLock,
			} {
				req := one.wish(theLock, 1)
				req.Mode, req.Kind = mode, kind
				if reply, err := one.try(req); !errors.Is(err, lockagent.ErrBadOption) {
					t.Errorf("Acquire in mode %q = %+v, %v; want ErrBadOption", mode, reply, err)
				}
			}
			one.sees(theLock, "")
		},
	},
}

// opens says what happens when readers may join.
const opens = "All waiters are woken when a lock that is held becomes open for readers: by a downgrade, or because " +
	"an exclusive tenure that waited ahead of them was released."

// byTwo is a proof with two agents.
func byTwo(prove func(t *testing.T, one, two *party)) func(*testing.T, *Harness) {
	return func(t *testing.T, h *Harness) {
		all := h.agents(t, 2)
		prove(t, all[0], all[1])
	}
}

// shared is a request for a shared tenure.
func shared(req lockagent.AcquireRequest, lease time.Duration) lockagent.AcquireRequest {
	req.Mode, req.Lease = lockagent.Shared, lease
	return req
}

// read is acquire for a shared tenure.
func (p *party) read(number uint64) lockagent.AcquireReply {
	p.t.Helper()
	return p.get(shared(p.wish(theLock, number), minute))
}

// keptOut acquires a shared tenure, and expects that holder has the lock.
func (p *party) keptOut(number uint64, holder lockagent.Tenure) {
	p.t.Helper()
	reply, err := p.try(shared(p.wish(theLock, number), minute))
	if err != nil || reply.Granted || reply.Holder != holder.String() {
		p.t.Fatalf("Acquire(%s) = %+v, %v; want it refused, because of holder %q", p.tenure(number), reply, err, holder)
	}
}

// has expects that a tenure has the lock, or shares it.
func (p *party) has(number uint64) {
	p.t.Helper()
	if !p.renew(theLock, number, minute).Held {
		p.t.Fatalf("%s does not have the lock", p.tenure(number))
	}
}

// over expects that a tenure does not have the lock.
func (p *party) over(number uint64) {
	p.t.Helper()
	if p.renew(theLock, number, minute).Held {
		p.t.Fatalf("%s has the lock", p.tenure(number))
	}
}

// downgrades makes an exclusive tenure shared.
func (p *party) downgrades(number uint64) lockagent.RenewReply {
	p.t.Helper()
	req := p.renewal(theLock, number, minute)
	req.Mode, req.Urgent = lockagent.Shared, true
	reply, err := Renew(p.t, p.store, req)
	if err != nil || !reply.Held {
		p.t.Fatalf("Renew(%s) = %+v, %v; want it held", p.tenure(number), reply, err)
	}
	return reply
}

// awaitHolder waits until a tenure is the first of the holders that the store knows, or until there is none.
func (p *party) awaitHolder(tenure lockagent.Tenure) {
	p.t.Helper()
	eventually(p.t, tenure.String()+" is the holder, or nobody if that is no tenure", func() bool {
		seen := p.inspect(theLock)
		return seen.Holder == tenure.String() || !seen.Held && tenure == (lockagent.Tenure{})
	})
}
