package storetest

import (
	"testing"

	"github.com/lockagent/lockagent"
)

// wantedClauses are about what a holder learns of those who wait. [queueClauses] have the message that tells of an
// attempt.
var wantedClauses = []clause{
	{
		name: "a watched tenure that is renewed is told who waits",
		says: "Contested says that others wait who cannot have the lock while this tenure has it: an agent that " +
			"listens is " +
			"among the first in the queue, or outsiders wait.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			two.subscribe(theLock)
			one.acquire(theLock, 1)
			for number := uint64(1); number <= rounds; number++ {
				one.watches(1, false)
				two.refused(theLock, number, one.tenure(1).String()) // it does not wait
				one.watches(1, false)
				two.queue(theLock, number, one.tenure(1))
				one.watches(1, true)
				two.release(theLock, number, false) // gives up
			}
		},
	},
	{
		name: "a watched tenure that is renewed is told of outsiders",
		says: "The reply says so of a shared tenure, and of any tenure that is Watched.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			one.acquire(theLock, 1)
			one.watches(1, false)
			h.outsider(t)
			one.watches(1, true)
			one.watches(1, true)
		},
		except: []lockagent.LockKind{lockagent.FairLock}, // those that wait for one have places
	},
	{
		name: "a place of an agent that does not listen wants nothing",
		says: "an agent that listens is among the first in the queue, or outsiders wait.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			line.others[0].messages.Cancel()
			// The store may learn of the end of Listen after a while.
			eventually(t, "nobody is known to wait", func() bool {
				return !line.one.watch(1).Contested
			})
		},
		except: []lockagent.LockKind{lockagent.FairLock}, // such a place may be kept by asking
	},
	{
		name: "a pass tells of those behind",
		says: tellsOfThoseBehind,
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 3)
			from := line.one
			for i, to := range line.others {
				if told, behind := line.passes(from, 1, to), i < 2; told.Contested != behind {
					t.Errorf("pass %d: %+v; want it contested: %t", i, told, behind)
				}
				from = to.party
			}
		},
	},
	{
		name: "a grant tells of those who wait",
		says: tellsOfThoseBehind,
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 2)
			one, two, three := line.one, line.others[0], line.others[1]
			one.breaks(theLock, true)
			if reply := two.get(two.queueing(theLock, 1)); !reply.Contested {
				t.Errorf("%+v; want it told of who waits", reply)
			}
			two.breaks(theLock, true)
			if reply := three.get(three.queueing(theLock, 1)); reply.Contested {
				t.Errorf("%+v; want nobody who waits", reply)
			}
		},
		except: []lockagent.LockKind{lockagent.FairLock}, // a break passes it on
	},
	{
		name: "a grant without a place tells of nobody",
		says: "Only if the request asked for a place.",
		prove: func(t *testing.T, h *Harness) {
			one := h.line(t, 1).one
			if reply := one.get(one.wish(theLock, 1)); reply.Contested { // the call is made again
				t.Errorf("%+v; want no word of those who wait", reply)
			}
		},
	},
	{
		name: "an agent that missed a pass is told of those who wait",
		says: tellsOfThoseBehind,
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 2)
			two, three := line.others[0], line.others[1]
			line.one.release(theLock, 1, true)
			if reply := two.get(two.queueing(theLock, 1)); !reply.Contested { // as if the message were lost
				t.Errorf("%+v; want it told of who waits", reply)
			}
			two.release(theLock, 1, true)
			if reply := three.get(three.queueing(theLock, 1)); reply.Contested {
				t.Errorf("%+v; want nobody who waits", reply)
			}
		},
	},
}

const tellsOfThoseBehind = "Contested says of a tenure that was granted: an agent that listens is among the first in " +
	"the queue, and cannot have the lock while this tenure has it."

// readWriteWantedClauses are about who wants what readers have.
var readWriteWantedClauses = []clause{
	{
		name: "readers behind a reader want nothing",
		says: "Beside a shared tenure other readers have the lock, too. So only exclusive tenures and outsiders " +
			"count there, who keep later readers out.",
		prove: func(t *testing.T, h *Harness) {
			c := h.crowd(t, 4)
			one, two, three, writer := c[0], c[1], c[2], c[3]
			one.acquire(theLock, 1)
			two.waits(1, lockagent.Shared)
			three.waits(1, lockagent.Shared)
			one.release(theLock, 1, true)
			for _, reader := range []*waiter{two, three} {
				if told := reader.hears(lockagent.MessagePassed, 1); told.Contested {
					t.Errorf("%+v; want no writer who waits", told)
				}
				reader.wanted(1, false)
			}
			writer.waits(1, lockagent.Exclusive)
			two.hears(lockagent.MessageWanted, 1)
			three.hears(lockagent.MessageWanted, 1)
		},
	},
	{
		name: "a pass to readers tells of a writer behind them",
		says: tellsOfThoseBehind,
		prove: func(t *testing.T, h *Harness) {
			c := h.crowd(t, 4)
			one, two, three, writer := c[0], c[1], c[2], c[3]
			one.acquire(theLock, 1)
			two.waits(1, lockagent.Shared)
			three.waits(1, lockagent.Shared)
			writer.waits(1, lockagent.Exclusive)
			one.release(theLock, 1, true)
			for _, reader := range []*waiter{two, three} {
				if told := reader.hears(lockagent.MessagePassed, 1); !told.Contested {
					t.Errorf("%+v; want it told of the writer", told)
				}
			}
		},
	},
}

// spinWantedClauses are about locks without a queue.
var spinWantedClauses = []clause{
	{
		name: "the holder is told of who contends",
		says: "The store sends it at every Acquire that asks for a place, or contends for a [SpinLock], and finds " +
			"the lock " +
			"busy",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			for number := uint64(1); number <= rounds; number++ {
				one.acquire(theLock, number)
				req := two.wish(theLock, number)
				req.Contends = true
				if reply, err := two.try(req); err != nil || reply.Granted {
					t.Fatalf("Acquire = %+v, %v; want it refused", reply, err)
				}
				one.hears(lockagent.MessageWanted, number)
				one.watches(number, false) // nothing shows who waits
				one.release(theLock, number, true)
			}
		},
	},
}

// permitsWantedClauses are about semaphores.
var permitsWantedClauses = []clause{
	{
		name: "those who have permits are told that more are wanted",
		says: "Of a semaphore, it sends the message for the first place alone, to the agents of some tenures that " +
			"have permits.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 3)
			u[0].change(lockagent.TrySetPermits, 2)
			u[0].takes(1, 1)
			u[1].takes(1, 1)
			u[2].lacks(1, 1)
			u[2].watches()
			u[2].waits(h, 1, 1)
			u[0].hears(lockagent.MessageWanted, 1)
			u[1].hears(lockagent.MessageWanted, 1)
		},
	},
	{
		name: "a watched tenure that is renewed is told who waits for permits",
		says: "Of a semaphore those count who wait for more permits than are free.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 2)
			u[0].change(lockagent.TrySetPermits, 2)
			u[0].takes(1, 2)
			u[0].party.watches(1, false)
			u[1].watches()
			u[1].waits(h, 1, 1)
			u[0].party.watches(1, true)
			u[1].gives(1, false)
			u[0].party.watches(1, false)
		},
	},
	{
		name: "a pass of permits tells of those behind",
		says: "Of a semaphore those count who wait for more permits than are free.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 4)
			u[0].change(lockagent.TrySetPermits, 2)
			u[0].takes(1, 2)
			for _, waiter := range u[1:] {
				waiter.watches()
				waiter.waits(h, 1, 1)
			}
			u[0].gives(1, true)
			u[1].hears(lockagent.MessagePassed, 1)
			if told := u[2].hears(lockagent.MessagePassed, 1); !told.Contested {
				t.Errorf("%+v; want it told of who waits", told)
			}
			u[1].hears(lockagent.MessageWanted, 1) // it was passed its permit when one was left
			u[1].gives(1, true)
			if told := u[3].hears(lockagent.MessagePassed, 1); told.Contested {
				t.Errorf("%+v; want nobody who waits", told)
			}
		},
	},
	{
		name: "a grant of permits tells of those who wait",
		says: tellsOfThoseBehind,
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 3)
			u[0].change(lockagent.TrySetPermits, 1)
			u[0].takes(1, 1)
			for _, waiter := range u[1:] {
				waiter.watches()
				waiter.waits(h, 1, 1)
			}
			u[0].breaks(theLock, true)
			if reply := u[1].get(u[1].wants(1, 1, true)); !reply.Contested {
				t.Errorf("%+v; want it told of who waits", reply)
			}
			u[1].breaks(theLock, true)
			if reply := u[2].get(u[2].wants(1, 1, true)); reply.Contested {
				t.Errorf("%+v; want nobody who waits", reply)
			}
		},
	},
}

// watch renews a tenure whose holder wants to know whether others wait.
func (p *party) watch(number uint64) lockagent.RenewReply {
	p.t.Helper()
	req := p.renewal(theLock, number, minute)
	req.Watched, req.Urgent = true, true
	reply, err := Renew(p.t, p.store, req)
	if err != nil || !reply.Held {
		p.t.Fatalf("Renew(%s) = %+v, %v; want it held", p.tenure(number), reply, err)
	}
	return reply
}

// watches is watch, and expects the store to say whether others wait.
func (p *party) watches(number uint64, want bool) {
	p.t.Helper()
	if reply := p.watch(number); reply.Contested != want {
		p.t.Errorf("Renew(%s) = %+v; want it contested: %t", p.tenure(number), reply, want)
	}
}
