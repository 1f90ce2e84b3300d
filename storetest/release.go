package storetest

import "testing"

var releaseClauses = []clause{
	{
		name: "a lock that is released is free",
		says: "Release ends a tenure, and wakes the waiters.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			one.release(theLock, 1, true)
			one.sees(theLock, "")
			two.acquire(theLock, 1)
			two.release(theLock, 1, true)
			one.acquire(theLock, 2)
		},
	},
	{
		name: "the release of a tenure that is over, or never was, finds nothing",
		says: "Released is false if the tenure did not have the lock: it was over, had never begun, or was released by an " +
			"earlier call whose reply was lost.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			one.release(theLock, 1, true)
			one.release(theLock, 1, false)
			two.acquire(theLock, 1)
			one.release(theLock, 1, false)
			one.release(theLock, 2, false)
			one.withdraws(theLock, 3)
			two.sees(theLock, two.tenure(1).String())
			two.release(theLock, 1, true)
		},
	},
	{
		name: "a release tells when",
		says: "At is when the tenure was released, or found not to have the lock.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			begun := one.acquire(theLock, 1).At
			over := one.release(theLock, 1, true).At
			next := two.acquire(theLock, 1).At
			found := one.release(theLock, 2, false).At
			if begun > over || over > next || next > found {
				t.Errorf("times go back: acquired %d, released %d, acquired %d, found over %d", begun, over, next, found)
			}
		},
	},
}
