package storetest

import (
	"testing"
	"time"
)

var breakClauses = []clause{
	{
		name: "a lock that is broken is free",
		says: "Break frees a lock, whoever has it, wakes the waiters, and tells the agent whose tenure it was.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			two.breaks(theLock, true)
			one.sees(theLock, "")
			two.acquire(theLock, 1)
			two.breaks(theLock, true)
			two.sees(theLock, "")
		},
	},
	{
		name: "it tells whether the lock was held",
		says: "It reports whether the lock was held.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			two.breaks(theLock, false)
			one.acquire(theLock, 1)
			two.breaks(theLock, true)
			two.breaks(theLock, false)
		},
	},
	{
		name: "a tenure that was broken is over",
		says: "Held is false if the tenure is over: the lock is free, or another's.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			two.breaks(theLock, true)
			two.acquire(theLock, 1)
			if reply := one.renew(theLock, 1, time.Hour); reply.Held {
				t.Errorf("Renew of a broken tenure = %+v; want Held false", reply)
			}
			one.release(theLock, 1, false)
			two.sees(theLock, two.tenure(1).String())
		},
	},
}
