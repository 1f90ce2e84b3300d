package storetest

import "testing"

var timeClauses = []clause{
	{
		name: "it is the time of the store's clock",
		says: "Time tells what the store's clock shows.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			wish := one.wish(theLock, 1)
			wish.Lease = brief
			granted := one.get(wish).At
			if now := two.time(); now < granted.Add(-moment) {
				t.Errorf("time %d after a grant at %d", now, granted)
			}
			if !two.awaitFree(theLock) {
				return
			}
			if now := two.time(); now < granted.Add(brief-moment) {
				t.Errorf("time %d after a lease of %v that began at %d", now, brief, granted)
			}
		},
	},
	{
		name: "nothing that comes later is earlier",
		says: "It is a lower bound: nothing that the store decides after the call is earlier.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			for number := uint64(1); number <= rounds; number++ {
				now := one.time()
				if at := two.acquire(theLock, number).At; at < now.Add(-moment) {
					t.Errorf("granted at %d, after the time %d", at, now)
				}
				two.release(theLock, number, true)
			}
		},
	},
}
