package storetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

var acquireClauses = []clause{
	{
		name: "a free lock is granted",
		says: "It is granted if the lock is free",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			one.sees(theLock, "")
			reply := one.acquire(theLock, 1)
			if reply.Token < 1 || reply.Token > lockagent.MaxToken {
				t.Errorf("token %d is not between 1 and %d", reply.Token, lockagent.MaxToken)
			}
			if reply.At <= 0 {
				t.Errorf("the store decided at %d", reply.At)
			}
			one.sees(theLock, one.tenure(1).String())
		},
	},
	{
		name: "a held lock is refused, with its holder",
		says: "Holder has the lock instead: the text of a [Tenure], or the text that another program wrote.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 7)
			reply := two.refused(theLock, 1, one.tenure(7).String())
			if reply.Token != 0 {
				t.Errorf("token %d without a grant", reply.Token)
			}
			one.sees(theLock, one.tenure(7).String())
		},
	},
	{
		name: "a held lock is refused, with what is left of its lease",
		says: "until the holder's lease is over. It is negative if that has no end.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			left := two.refused(theLock, 1, one.tenure(1).String()).Remaining
			if left <= 0 || left > minute {
				t.Errorf("%v left of a lease of %v", left, minute)
			}
		},
	},
	{
		name: "a tenure is granted again",
		says: "It is also granted if this tenure has the lock already, by a call whose reply was lost.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			one.acquire(theLock, 1)
			if seen := one.sees(theLock, one.tenure(1).String()); seen.HoldCount != 1 {
				t.Errorf("hold count %d after a repeated call, want 1", seen.HoldCount)
			}
			one.release(theLock, 1, true)
			two.acquire(theLock, 1)
		},
	},
	{
		name: "granted again the lease starts anew, and is not shortened",
		says: "The lease then starts anew, and never ends earlier than before.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			one.acquire(theLock, 1)
			longer := one.wish(theLock, 1)
			longer.Lease = time.Hour
			one.get(longer)
			if left := one.inspect(theLock).Remaining; left <= minute || left > time.Hour {
				t.Errorf("%v left after a lease of %v", left, time.Hour)
			}
			one.acquire(theLock, 1)
			if left := one.inspect(theLock).Remaining; left <= minute {
				t.Errorf("%v left of a lease of %v", left, time.Hour)
			}
		},
	},
	{
		name: "names are compared byte by byte",
		says: "Names are compared byte by byte.",
		prove: func(t *testing.T, h *Harness) {
			names := []lockagent.Name{
				"a", "A", " a", "a ", "aa", "a:1", "a\x00", "a\n", "a*", "a?", "[a]", "a/b", `a\b`, "a{b}", "{a}b", "{a}c", "b{a}",
				"\u00e9", "e\u0301", "\u00c9", "0", "00", "nil", lockagent.Name(strings.Repeat("a", lockagent.MaxNameLen)),
			}
			one, two := h.pair(t)
			for _, name := range names {
				one.acquire(name, 1)
			}
			for i, name := range names {
				two.refused(name, 1, one.tenure(1).String())
				one.release(name, 1, true)
				two.acquire(name, 1)
				for _, next := range names[i+1:] {
					one.sees(next, one.tenure(1).String())
				}
			}
		},
	},
	{
		name: "a context that ended stops no call",
		says: "A context that ends does not end the call.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			acquired, err := start(t, "Acquire", func(done func(lockagent.AcquireReply, error)) {
				one.store.Acquire(ctx, one.wish(theLock, 1), done)
			}).await()
			if err != nil || !acquired.Granted {
				t.Errorf("Acquire = %+v, %v", acquired, err)
			}
			renewed, err := start(t, "Renew", func(done func(lockagent.RenewReply, error)) {
				one.store.Renew(ctx, one.renewal(theLock, 1, minute), done)
			}).await()
			if err != nil || !renewed.Held {
				t.Errorf("Renew = %+v, %v", renewed, err)
			}
			operator, operates := lockagent.Layer[lockagent.Operator](one.store)
			if operates {
				seen, err := start(t, "Inspect", func(done func(lockagent.Inspection, error)) {
					operator.Inspect(ctx, theLock, one.kind, done)
				}).await()
				if err != nil || !seen.Held {
					t.Errorf("Inspect = %+v, %v", seen, err)
				}
			}
			released, err := start(t, "Release", func(done func(lockagent.ReleaseReply, error)) {
				one.store.Release(ctx, one.ending(theLock, 1), done)
			}).await()
			if err != nil || !released.Released {
				t.Errorf("Release = %+v, %v", released, err)
			}
			if !operates {
				return
			}
			broken, err := start(t, "Break", func(done func(lockagent.BreakReply, error)) {
				operator.Break(ctx, one.breaking(theLock), done)
			}).await()
			if err != nil || broken.Broken {
				t.Errorf("Break = %+v, %v", broken, err)
			}
		},
	},
	{
		name: "calls made by done are answered",
		says: "A store holds no mutex while it calls done, wake, hear or the f of OnReset: these functions may call the " +
			"store again.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			last := start(t, "Release", func(done func(lockagent.ReleaseReply, error)) {
				ctx := context.Background()
				one.store.Acquire(ctx, one.wish(theLock, 1), func(lockagent.AcquireReply, error) {
					one.store.Renew(ctx, one.renewal(theLock, 1, minute), func(lockagent.RenewReply, error) {
						one.store.Release(ctx, one.ending(theLock, 1), done)
					})
				})
			})
			if released, err := last.await(); err != nil || !released.Released {
				t.Errorf("Release = %+v, %v; want the lock released", released, err)
			}
		},
	},
	{
		name:   "a store without a queue says that nobody is queued",
		except: []lockagent.LockKind{lockagent.FairLock, lockagent.SpinLock},
		says:   "A store without a queue never reports that it queued a tenure or passed a lock.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			if one.offers(withQueue) {
				t.Skip("the store has a queue")
			}
			sub := two.subscribe(theLock)
			one.acquire(theLock, 1)
			if reply, err := two.try(two.queueing(theLock, 1)); err != nil || reply.Granted || reply.Queued {
				t.Errorf("Acquire = %+v, %v; want it refused and not queued", reply, err)
			}
			if released := one.release(theLock, 1, true); released.Passed {
				t.Errorf("Release = %+v; want it not passed", released)
			}
			sub.Await()
			two.acquire(theLock, 1)
		},
	},
	{
		name: "a store without a queue has no tenures that rest",
		says: "A store without a queue has no tenures that rest.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			if one.offers(withQueue) {
				t.Skip("the store has a queue")
			}
			if reply := one.get(one.resting(theLock, 1)); reply.Rests {
				t.Errorf("%+v: want no tenure that may rest", reply)
			}
			if reply := two.refused(theLock, 1, one.tenure(1).String()); reply.HolderRests {
				t.Errorf("%+v: want no holder that may rest", reply)
			}
		},
	},
}
