package storetest

import "testing"

var releaseClauses = []clause{
	{
		name: "a lock that is released is free",
		says: "Release ends a tenure and wakes the agents that wait.",
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
		name: "a repeated release has the same reply",
		says: "Repeated, it has the same reply.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			first := one.release(theLock, 1, true)
			two.acquire(theLock, 1)
			if again := one.release(theLock, 1, true); again.At != first.At {
				t.Errorf("released at %d, and repeated at %d", first.At, again.At)
			}
			two.sees(theLock, two.tenure(1).String())
		},
	},
	{
		name: "a repeated withdrawal has the same reply",
		says: "A repeated call tells the time of the first.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			first := one.release(theLock, 1, false)
			two.acquire(theLock, 1)
			if again := one.release(theLock, 1, false); again.At != first.At {
				t.Errorf("withdrawn at %d, and repeated at %d", first.At, again.At)
			}
		},
	},
	{
		name: "the release of a tenure that never was harms nobody",
		says: "Released is false if the tenure was over before, or had never begun.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			two.release(theLock, 1, false)
			one.acquire(theLock, 1)
			two.release(theLock, 2, false)
			one.sees(theLock, one.tenure(1).String())
			one.release(theLock, 1, true)
		},
	},
	{
		name: "a release tells when",
		says: "At is when the tenure was released, or found to be over.",
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
