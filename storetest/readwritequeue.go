package storetest

import (
	"testing"

	"github.com/lockagent/lockagent"
)

var readWriteQueueClauses = []clause{
	{
		name: "readers who come and go do not keep a writer out",
		says: "It does not join them while an exclusive tenure has a place ahead of it in the queue, " +
			"and the agent of that one listens.",
		prove: func(t *testing.T, h *Harness) {
			c := h.crowd(t, 4)
			one, two, writer, three := c[0], c[1], c[2], c[3]
			one.read(1)
			writer.waits(1, lockagent.Exclusive)
			two.keptOut(1, one.tenure(1))
			three.waits(1, lockagent.Shared)
			one.has(1)
			one.passes(1, writer)
			one.keptOut(2, writer.tenure(1))
			writer.passes(1, three)
			two.read(2) // nobody waits any more
		},
	},
	{
		name: "readers who come and go do not keep an outsider out",
		says: "Nor does it while outsiders wait, because they may want the lock for themselves.",
		prove: func(t *testing.T, h *Harness) {
			c := h.crowd(t, 2)
			one, two := c[0], c[1]
			one.read(1)
			h.outsider(t)
			two.keptOut(1, one.tenure(1))
			one.read(1) // it has the lock already
		},
	},
	{
		name: "a writer that does not listen keeps no reader out",
		says: "and the agent of that one listens.",
		prove: func(t *testing.T, h *Harness) {
			c := h.crowd(t, 3)
			one, writer, two := c[0], c[1], c[2]
			one.read(1)
			writer.waits(1, lockagent.Exclusive)
			writer.messages.Cancel()
			eventually(t, "a reader joins", func() bool { // the store may learn of the end of Listen after a while
				reply, err := two.try(shared(two.wish(theLock, 1), minute))
				two.answered(reply, err)
				return reply.Granted
			})
		},
	},
	{
		name: "readers who wait one after the other get the lock together",
		says: "When a lock is passed to a shared tenure, it is also passed to the shared tenures that follow in the " +
			"queue, " +
			"up to the first exclusive one.",
		prove: func(t *testing.T, h *Harness) {
			c := h.crowd(t, 6)
			one, two, three, four, five, six := c[0], c[1], c[2], c[3], c[4], c[5]
			one.acquire(theLock, 1)
			two.waits(1, lockagent.Shared)
			three.waits(1, lockagent.Shared)
			four.waits(1, lockagent.Exclusive)
			five.waits(1, lockagent.Shared)
			six.waits(1, lockagent.Shared)
			one.passes(1, two, three)
			two.release(theLock, 1, true)
			three.has(1)
			three.passes(1, four)
			five.over(1)
			four.passes(1, five, six)
			five.release(theLock, 1, true)
			six.release(theLock, 1, true)
			one.sees(theLock, "")
		},
	},
	{
		name: "many readers who wait get the lock",
		says: "A store may pass the lock to the first few of them only, and wake the others.",
		prove: func(t *testing.T, h *Harness) {
			const many = 12
			c := h.crowd(t, many+2)
			one, readers, writer := c[0], c[1:many+1], c[many+1]
			one.acquire(theLock, 1)
			for _, r := range readers {
				r.waits(1, lockagent.Shared)
			}
			writer.waits(1, lockagent.Exclusive)
			woken := readers[many-1].sub.Count()
			one.release(theLock, 1, true)
			for _, r := range readers {
				if r.renew(theLock, 1, minute).Held {
					continue
				}
				r.awaitWake(woken)
				r.get(shared(r.queueing(theLock, 1), minute))
			}
			for _, r := range readers {
				r.has(1)
			}
			writer.over(1)
		},
	},
	{
		name: "a downgrade lets readers in, up to the first writer",
		says: opens,
		prove: func(t *testing.T, h *Harness) {
			c := h.crowd(t, 4)
			one, two, writer, three := c[0], c[1], c[2], c[3]
			one.acquire(theLock, 1)
			two.waits(1, lockagent.Shared)
			writer.waits(1, lockagent.Exclusive)
			three.waits(1, lockagent.Shared)
			woken := two.sub.Count()
			if r := one.downgrades(1); !r.Contested {
				t.Errorf("downgraded: %+v; want it told of the writer", r)
			}
			two.awaitWake(woken)
			three.waits(1, lockagent.Shared)
			two.get(shared(two.queueing(theLock, 1), minute))
			one.has(1)
			writer.over(1)
			one.release(theLock, 1, true)
			two.passes(1, writer)
		},
	},
	{
		name: "a writer that gives up lets readers in",
		says: opens,
		prove: func(t *testing.T, h *Harness) {
			c := h.crowd(t, 4)
			one, writer, two, next := c[0], c[1], c[2], c[3]
			one.read(1)
			writer.waits(1, lockagent.Exclusive)
			two.waits(1, lockagent.Shared)
			next.waits(1, lockagent.Exclusive)
			woken := two.sub.Count()
			writer.release(theLock, 1, false)
			two.awaitWake(woken)
			two.get(shared(two.queueing(theLock, 1), minute))
			one.has(1)
			next.over(1)
		},
	},
	{
		name: "a tenure that is renewed is told of a writer",
		says: "The reply says so of a shared tenure, and of any tenure that is Watched.",
		prove: func(t *testing.T, h *Harness) {
			c := h.crowd(t, 3)
			one, two, writer := c[0], c[1], c[2]
			one.read(1)
			two.read(1)
			writer.waits(1, lockagent.Exclusive)
			one.wanted(1, true)
			two.wanted(1, true)
			writer.release(theLock, 1, false) // gives up
			one.wanted(1, false)
			two.wanted(1, false)
		},
	},
	{
		name: "a tenure that is renewed is told of outsiders",
		says: "an agent that listens is among the first in the queue, or outsiders wait.",
		prove: func(t *testing.T, h *Harness) {
			one := h.crowd(t, 1)[0]
			one.read(1)
			one.wanted(1, false)
			h.outsider(t)
			one.wanted(1, true)
			one.wanted(1, true)
		},
	},
	{
		name: "a break and the end of a lease pass nothing",
		says: "Only a Release passes a lock. Break, the end of a lease, a reset and a downgrade do not.",
		prove: func(t *testing.T, h *Harness) {
			c := h.crowd(t, 3)
			one, two, writer := c[0], c[1], c[2]
			one.read(1)
			writer.waits(1, lockagent.Exclusive)
			two.waits(1, lockagent.Shared)
			woken := two.sub.Count()
			one.breaks(theLock, true)
			two.awaitWake(woken)
			one.sees(theLock, "")
			writer.over(1)
			two.over(1)
		},
	},
}

// crowd returns agents that have subscribed to the lock.
func (h *Harness) crowd(t *testing.T, n int) []*waiter {
	t.Helper()
	var c []*waiter
	for _, p := range h.agents(t, n) {
		c = append(c, &waiter{party: p, sub: p.subscribe(theLock)})
	}
	return c
}

// waits gives a tenure a place in the queue.
func (w *waiter) waits(number uint64, mode lockagent.Mode) {
	w.t.Helper()
	req := w.queueing(theLock, number)
	req.Mode = mode
	if reply, err := w.try(req); err != nil || reply.Granted || !reply.Queued {
		w.t.Fatalf("Acquire(%s) = %+v, %v; want it queued", req.Tenure, reply, err)
	}
}

// wanted renews a tenure, and expects the store to say whether others wait.
func (w *waiter) wanted(number uint64, want bool) {
	w.t.Helper()
	if r := w.renew(theLock, number, minute); !r.Held || r.Contested != want {
		w.t.Errorf("Renew(%s) = %+v; want it held, and wanted: %t", w.tenure(number), r, want)
	}
}

// passes releases a tenure, and expects the lock to be passed to the first tenures of other agents.
func (w *waiter) passes(number uint64, to ...*waiter) {
	w.t.Helper()
	if released := w.release(theLock, number, true); !released.Passed {
		w.t.Fatalf("Release(%s) = %+v; want the lock passed", w.tenure(number), released)
	}
	for _, next := range to {
		next.hears(lockagent.MessagePassed, 1)
		next.has(1)
	}
}

// awaitWake waits for a wake-up beyond the first so many.
func (w *waiter) awaitWake(beyond int) {
	w.t.Helper()
	for w.sub.Count() <= beyond {
		if !w.sub.Await() {
			w.t.FailNow()
		}
	}
}
