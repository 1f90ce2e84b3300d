package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

var renewClauses = []clause{
	{
		name: "the lease starts anew",
		says: "Renew starts the lease of a tenure anew.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			acquired := one.acquire(theLock, 1)
			renewed := one.renew(theLock, 1, 2*minute)
			if !renewed.Held || renewed.At < acquired.At {
				t.Errorf("Renew = %+v after %+v; want it held, and later", renewed, acquired)
			}
			if left := two.refused(theLock, 1, one.tenure(1).String()).Remaining; left <= minute || left > 2*minute {
				t.Errorf("%v left of a lease of %v", left, 2*minute)
			}
		},
	},
	{
		name: "the lease is not shortened",
		says: "It never shortens the lease.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			longer := one.wish(theLock, 1)
			longer.Lease = time.Hour
			one.get(longer)
			if reply := one.renew(theLock, 1, lockagent.MinLease); !reply.Held {
				t.Errorf("Renew = %+v; want Held", reply)
			}
			if left := one.sees(theLock, one.tenure(1).String()).Remaining; left <= minute {
				t.Errorf("%v left of a lease of %v", left, time.Hour)
			}
		},
	},
	{
		name: "a tenure that is over is not renewed",
		says: "Held is false if the tenure is over: the lock is free, or another's.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			denied := func(number uint64) {
				t.Helper()
				if reply := one.renew(theLock, number, time.Hour); reply.Held || reply.At <= 0 {
					t.Errorf("Renew(%s) = %+v; want Held false, and when", one.tenure(number), reply)
				}
			}
			denied(1)
			one.sees(theLock, "")
			one.acquire(theLock, 1)
			one.release(theLock, 1, true)
			denied(1)
			one.sees(theLock, "")
			two.acquire(theLock, 1)
			denied(1)
			denied(2)
			if left := two.sees(theLock, two.tenure(1).String()).Remaining; left > minute {
				t.Errorf("%v left of a lease of %v that another agent tried to renew", left, minute)
			}
		},
	},
	{
		name: "a release may overtake a renewal",
		says: "A Release may overtake a Renew of its tenure: the reply to that Renew does not matter.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			const locks = 20
			var renewed [locks]*call[lockagent.RenewReply]
			name := func(i int) lockagent.Name { return lockagent.Name(fmt.Sprintf("orders/%d", i)) }
			for i := range renewed {
				one.acquire(name(i), 1)
				renewed[i] = startRenew(t, one.store, one.renewal(name(i), 1, minute))
				one.release(name(i), 1, true)
				two.acquire(name(i), 1) // at once, whatever becomes of the renewal
			}
			for i, c := range renewed {
				one.answered(c.await())
				two.sees(name(i), two.tenure(1).String())
			}
		},
	},
	{
		name: "many renewals at once each have their own reply",
		says: "A store may put a renewal off, to gather several: for a small part of the lease, and for at most a tenth " +
			"of a second.",
		prove: func(t *testing.T, h *Harness) {
			const locks = 300
			one, two := h.pair(t)
			name := func(i int) lockagent.Name { return lockagent.Name(fmt.Sprintf("orders/%d", i)) }
			var acquired []*call[lockagent.AcquireReply]
			for i := range locks {
				switch i % 3 {
				case 0:
					acquired = append(acquired, startAcquire(t, one.store, one.wish(name(i), 1)))
				case 1:
					acquired = append(acquired, startAcquire(t, two.store, two.wish(name(i), 1)))
				}
			}
			for _, c := range acquired {
				if reply, err := c.await(); err != nil || !reply.Granted {
					t.Fatalf("Acquire = %+v, %v", reply, err)
				}
			}
			var renewed []*call[lockagent.RenewReply]
			for i := range locks {
				renewed = append(renewed, startRenew(t, one.store, one.renewal(name(i), 1, minute)))
			}
			for i, c := range renewed {
				if reply, err := c.await(); err != nil || reply.Held != (i%3 == 0) {
					t.Errorf("Renew(%q) = %+v, %v; want Held %t", name(i), reply, err, i%3 == 0)
				}
			}
		},
	},
}
