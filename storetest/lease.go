package storetest

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

var leaseClauses = []clause{
	{
		name: "a lock is free when its lease has run out, and not before",
		says: "A lease is the time bound of a lock in the store.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			wish := one.wish(theLock, 1)
			wish.Lease = brief
			first := one.get(wish)
			if !two.awaitFree(theLock) {
				return
			}
			second := two.acquire(theLock, 1)
			if second.Token <= first.Token {
				t.Errorf("token %d after an expired %d", second.Token, first.Token)
			}
			notBefore(t, brief, first, second)
			if reply := one.renew(theLock, 1, time.Hour); reply.Held {
				t.Errorf("Renew of an expired tenure = %+v; want Held false", reply)
			}
			one.release(theLock, 1, false)
			two.sees(theLock, two.tenure(1).String())
		},
	},
	{
		name: "the shortest and the longest lease are taken",
		says: "between MinLease and MaxLease; the store rounds it up to its unit",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			wish := one.wish(theLock, 1)
			wish.Lease = lockagent.MinLease
			one.get(wish)
			one.awaitFree(theLock)

			wish = one.wish(theLock, 2)
			wish.Lease = lockagent.MaxLease
			one.get(wish)
			if left := one.sees(theLock, one.tenure(2).String()).Remaining; left <= lockagent.MaxLease-time.Hour ||
				left > lockagent.MaxLease {
				t.Errorf("%v left of a lease of %v", left, lockagent.MaxLease)
			}
		},
	},
	{
		name: "a lease is rounded up",
		says: "between MinLease and MaxLease; the store rounds it up to its unit",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			wish := one.wish(theLock, 1)
			wish.Lease = brief + 900*time.Microsecond
			first := one.get(wish)
			if !two.awaitFree(theLock) {
				return
			}
			notBefore(t, wish.Lease, first, two.acquire(theLock, 1))
		},
	},
}

// notBefore expects that the lease had passed between two grants, on the clock of the store.
func notBefore(t *testing.T, lease time.Duration, first, second lockagent.AcquireReply) {
	t.Helper()
	if after := second.At.Sub(first.At); after < lease-moment {
		t.Errorf("granted to another %v after a lease of %v had begun, on the store's clock", after, lease)
	}
}
