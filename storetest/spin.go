package storetest

import (
	"testing"

	"github.com/lockagent/lockagent"
)

var spinClauses = []clause{
	{
		name: "nobody is woken, and nobody is queued",
		says: "nobody is woken, and nobody has a place in a queue.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			sub := two.subscribe(theLock)
			waiter := *two
			two.kind = lockagent.PlainLock
			after := two.subscribe("another")
			before := sub.Count()
			for number := uint64(1); number <= rounds; number++ {
				one.acquire(theLock, number)
				reply, err := waiter.try(waiter.queueing(theLock, number))
				if err != nil || reply.Granted || reply.Queued || reply.Outsiders != 0 {
					t.Errorf("Acquire = %+v, %v; want it refused and not queued", reply, err)
				}
				if released := one.release(theLock, number, true); released.Others > 0 || released.Passed {
					t.Errorf("Release = %+v; want nobody woken, and the lock not passed", released)
				}
				two.acquire("another", number)
				two.release("another", number, true)
				after.Await() // an earlier wake-up would have come by now
			}
			if woken := sub.Count() - before; woken > 0 {
				t.Errorf("woken %d times", woken)
			}
		},
	},
}
