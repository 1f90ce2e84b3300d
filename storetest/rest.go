package storetest

import (
	"testing"

	"github.com/lockagent/lockagent"
)

// restClauses are about tenures that may rest.
var restClauses = []clause{
	{
		name: "a tenure may rest if it asks for that",
		says: "Rests says of a tenure that was granted: it asked to be one that may rest, and is.",
		prove: func(t *testing.T, h *Harness) {
			one, _ := h.pair(t)
			if reply := one.get(one.resting(theLock, 1)); !reply.Rests {
				t.Errorf("%+v: want a tenure that may rest", reply)
			}
			one.release(theLock, 1, true)
			if reply := one.acquire(theLock, 2); reply.Rests {
				t.Errorf("%+v: may rest without having asked for it", reply)
			}
		},
	},
	{
		name: "whoever meets a tenure that may rest tells its agent",
		says: "Whenever a tenure that may rest keeps an Acquire of another agent from the lock, the store sends a " +
			"[MessageWanted] to its agent, also if that Acquire asks for no place.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			two.subscribe(theLock)
			for number := uint64(1); number <= rounds; number++ {
				one.get(one.resting(theLock, number))
				if reply := two.refused(theLock, number, one.tenure(number).String()); !reply.HolderRests {
					t.Errorf("%+v: want a holder that may rest", reply)
				}
				one.hears(lockagent.MessageWanted, number)
				if reply := two.queue(theLock, number, one.tenure(number)); !reply.HolderRests {
					t.Errorf("%+v: want a holder that may rest, also with a place", reply)
				}
				one.hears(lockagent.MessageWanted, number)
				if reply := one.release(theLock, number, true); !reply.Passed {
					t.Errorf("%+v: want the lock passed to the waiter", reply)
				}
				two.release(theLock, number, true)
			}
		},
	},
	{
		name: "whoever meets another tenure does not say so",
		says: "HolderRests says, if the request was not granted, that the holder may rest, and that its agent has been " +
			"sent that message.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			if reply := two.refused(theLock, 1, one.tenure(1).String()); reply.HolderRests {
				t.Errorf("%+v: want no holder that may rest", reply)
			}
			two.subscribe(theLock)
			if reply := two.queue(theLock, 1, one.tenure(1)); reply.HolderRests {
				t.Errorf("%+v: want no holder that may rest", reply)
			}
			one.release(theLock, 1, true)
			two.hears(lockagent.MessagePassed, 1)
			if reply := one.refused(theLock, 2, two.tenure(1).String()); reply.HolderRests {
				t.Errorf("%+v: want no holder that may rest after a pass", reply)
			}
		},
	},
	{
		name: "a tenure does not rest while others wait",
		says: "A tenure that begins may rest if no other one has a place in the queue, and no outsider waits.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one := line.one
			one.breaks(theLock, true) // which passes the lock to nobody
			if reply := one.get(one.resting(theLock, 2)); reply.Rests {
				t.Errorf("%+v: may rest, though another tenure waits", reply)
			}
			line.others[0].release(theLock, 1, false)
			one.release(theLock, 2, true)
			h.outsider(t)
			if reply := one.get(one.resting(theLock, 3)); reply.Rests {
				t.Errorf("%+v: may rest, though an outsider waits", reply)
			}
		},
	},
	{
		name: "a tenure that is granted again is as it was",
		says: "A tenure that has the lock already stays as it is.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			two.refused(theLock, 1, one.tenure(1).String()) // which tells nobody
			if reply := one.get(one.resting(theLock, 1)); reply.Rests {
				t.Errorf("%+v: may rest, though others met it when it might not", reply)
			}
			one.release(theLock, 1, true)
			one.get(one.resting(theLock, 2))
			one.acquire(theLock, 2) // a late call
			if reply := two.refused(theLock, 2, one.tenure(2).String()); !reply.HolderRests {
				t.Errorf("%+v: want a holder that may rest", reply)
			}
			one.hears(lockagent.MessageWanted, 2)
		},
	},
	{
		name: "a tenure that was renewed does not rest",
		says: "A Renew makes it one that does not rest.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.get(one.resting(theLock, 1))
			one.renew(theLock, 1, minute)
			if reply := two.refused(theLock, 1, one.tenure(1).String()); reply.HolderRests {
				t.Errorf("%+v: want no holder that may rest", reply)
			}
		},
	},
	{
		name: "an inspection counts one hold",
		says: "always 1 for a Tenure",
		prove: func(t *testing.T, h *Harness) {
			one, _ := h.pair(t)
			one.get(one.resting(theLock, 1))
			if seen := one.inspect(theLock); seen.HoldCount != 1 || seen.Holder != one.tenure(1).String() {
				t.Errorf("Inspect = %+v; want one hold of %s", seen, one.tenure(1))
			}
		},
	},
}

// noRestClauses are about the kinds of which no tenure rests.
var noRestClauses = []clause{
	{
		name: "no tenure may rest",
		says: "Only a tenure of a plain or fenced lock may rest.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			if reply := one.get(one.resting(theLock, 1)); reply.Rests {
				t.Errorf("%+v: want no tenure that may rest", reply)
			}
			reply, err := two.try(two.resting(theLock, 1))
			if err != nil || reply.Granted || reply.HolderRests || reply.Queued {
				t.Errorf("Acquire = %+v, %v; want it held, by a holder that may not rest, and no place", reply, err)
			}
		},
	},
}

// resting is a request for a tenure that may rest.
func (p *party) resting(name lockagent.Name, number uint64) lockagent.AcquireRequest {
	req := p.wish(name, number)
	req.Rests = true
	return req
}
