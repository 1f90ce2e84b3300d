package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/lockagent/lockagent"
)

// rounds is how often a case waits for a wake-up or a message. A spurious one may hide that
// one is missing, but not several times.
const rounds = 3

var subscribeClauses = []clause{
	{
		name: "wake is called once the subscription stands",
		says: "when the subscription stands, for the first time or after an interruption;",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.subscribe(theLock)
			two.acquire(theLock, 1)
			one.subscribe(theLock) // another while the first one stands
			two.subscribe(theLock)
		},
	},
	{
		name: "a break wakes",
		says: "It wakes the waiters, and sends [MessageBroken] to the agent of the tenure.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			subs := []*Subscription{one.subscribe(theLock), two.subscribe(theLock)}
			for number := uint64(1); number <= rounds; number++ {
				one.acquire(theLock, number)
				two.breaks(theLock, true)
				for i, sub := range subs {
					if !sub.Await() {
						t.Fatalf("subscription %d missed break %d", i, number)
					}
				}
			}
		},
	},
	{
		name: "a waiter is woken when it can acquire",
		says: "Subscribe calls wake whenever another Acquire of the lock may succeed",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			for number := uint64(1); number <= rounds; number++ {
				one.acquire(theLock, number)
				sub := two.subscribe(theLock)
				two.refused(theLock, number, one.tenure(number).String())
				one.release(theLock, number, true)
				sub.Await()
				two.acquire(theLock, number)
				two.release(theLock, number, true)
				sub.Cancel()
			}
		},
	},
	{
		name: "many subscriptions to many locks",
		says: "Subscribe calls wake whenever another Acquire of the lock may succeed",
		prove: func(t *testing.T, h *Harness) {
			const locks = 100
			one, two := h.pair(t)
			var subs [locks][]*Subscription
			name := func(i int) lockagent.Name { return lockagent.Name(fmt.Sprintf("orders/%d", i)) }
			for i := range locks {
				subs[i] = []*Subscription{one.subscribe(name(i)), two.subscribe(name(i)), two.subscribe(name(i))}
			}
			for number := uint64(1); number <= rounds; number++ {
				for i := range locks {
					one.acquire(name(i), number)
					one.release(name(i), number, true)
				}
				for i := range locks {
					for j, sub := range subs[i] {
						if !sub.Await() {
							t.Fatalf("subscription %d of lock %d missed release %d", j, i, number)
						}
					}
				}
			}
		},
	},
	{
		name: "a cancelled subscription is left in peace",
		says: "The store may call wake once more after cancel has returned.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			cancelled, standing := two.subscribe(theLock), two.subscribe(theLock)
			cancelled.Cancel()
			before := cancelled.Count()
			for number := uint64(1); number <= rounds; number++ {
				one.acquire(theLock, number)
				one.release(theLock, number, true)
				standing.Await() // and another one of the same store goes on
			}
			if after := cancelled.Count(); after > before+1 {
				t.Errorf("woken %d times after cancel had returned", after-before)
			}
		},
	},
	{
		name: "calls made by wake are answered",
		says: "A store holds no mutex while it calls done, wake, hear or the f of OnReset: these functions may call the " +
			"store again.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			first := start(t, "Acquire", func(done func(lockagent.AcquireReply, error)) {
				tried := false // wake may run on several goroutines at once
				turn := make(chan struct{}, 1)
				turn <- struct{}{}
				cancel := two.store.Subscribe(theLock, two.kind, func() {
					<-turn
					mine := !tried
					tried = true
					turn <- struct{}{}
					if mine {
						two.store.Acquire(context.Background(), two.wish(theLock, 1), done)
					}
				})
				t.Cleanup(cancel)
			})
			if reply, err := first.await(); err != nil || !reply.Granted {
				t.Errorf("Acquire = %+v, %v; want it granted", reply, err)
			}
			one.refused(theLock, 1, two.tenure(1).String())
		},
	},
	{
		name: "a release counts the others that it wakes, at least, or says that it cannot tell",
		says: "Others is the least number of other agents that the Release woke, or -1 if the store cannot tell.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			three := h.agent(t)
			number := uint64(0)
			others := func() int {
				t.Helper()
				number++
				one.acquire(theLock, number)
				return one.release(theLock, number, true).Others
			}
			if n := others(); n > 0 || n < -1 {
				t.Errorf("Others %d, where nobody has subscribed", n)
			}
			own := []*Subscription{one.subscribe(theLock), one.subscribe(theLock)}
			two.subscribe("another")
			if n := others(); n > 0 || n < -1 {
				t.Errorf("Others %d, where only the agent itself has subscribed", n)
			}
			subs := []*Subscription{two.subscribe(theLock), two.subscribe(theLock), three.subscribe(theLock)}
			if n := others(); n != -1 && n != 1 && n != 2 {
				t.Errorf("Others %d, where 2 others have subscribed", n)
			}
			own[0].Cancel()
			own[1].Cancel()
			for _, sub := range subs {
				sub.Cancel()
			}
			eventually(t, "nobody is counted any more", func() bool { return others() <= 0 })
		},
	},
	{
		name: "a store that is closed waits for nothing",
		says: "Close ends all calls under way with ErrClosed, and ends all that the store has running in this process.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			closed, standing := two.subscribe(theLock), one.subscribe(theLock)
			two.close()
			before := closed.Count()
			for number := uint64(1); number <= rounds; number++ {
				one.acquire(theLock, number)
				one.release(theLock, number, true)
				standing.Await()
			}
			if after := closed.Count(); after > before+1 {
				t.Errorf("woken %d times after Close had returned", after-before)
			}
			number := uint64(rounds)
			eventually(t, "the closed store is not counted any more", func() bool {
				number++
				one.acquire(theLock, number)
				return one.release(theLock, number, true).Others <= 0
			})
		},
	},
}
