package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// permitClauses are about semaphores of either kind.
var permitClauses = []clause{
	{
		name: "permits are granted while enough are free",
		says: "A tenure of a semaphore has one or several permits in place of the lock. So several tenures have permits at " +
			"once.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 2)
			if set := u[0].change(lockagent.TrySetPermits, 5); !set.Done || set.Free != 5 {
				t.Fatalf("TrySetPermits = %+v", set)
			}
			first := u[0].takes(1, 3)
			second := u[1].takes(1, 0)
			if first.Total != 5 || second.Total != 5 {
				t.Errorf("granted with %d and %d permits in all, want 5", first.Total, second.Total)
			}
			if second.Token <= first.Token {
				t.Errorf("token %d after %d", second.Token, first.Token)
			}
			u[0].counts(1, 4)
			if left := u[1].lacks(2, 2).Remaining; left <= 0 || left > minute {
				t.Errorf("%v left of a lease of %v", left, minute)
			}
			u[1].takes(3, 1)
			u[0].counts(0, 5)
			u[0].keeps(1, true)
			u[0].gives(1, true)
			u[0].counts(3, 2)
			u[0].keeps(1, false)
			u[0].gives(1, false)
			u[0].counts(3, 2)
		},
	},
	{
		name: "a repeated Acquire has its permits once",
		says: "It is also granted if this tenure has the lock already, by a call whose reply was lost.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 1)[0]
			u.change(lockagent.TrySetPermits, 3)
			first := u.takes(1, 3)
			if again := u.takes(1, 3); again.Token < first.Token || again.Total != 0 {
				t.Errorf("token %d, then %d, with %d permits in all; want no number", first.Token, again.Token, again.Total)
			}
			u.counts(0, 3)
			u.gives(1, true)
			u.counts(3, 0)
		},
	},
	{
		name: "a withdrawn tenure gets no permits",
		says: "an Acquire of the tenure that arrives within a minute has no effect",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 1)[0]
			u.change(lockagent.TrySetPermits, 1)
			req := u.ending(theLock, 1)
			req.Kind, req.Unanswered = h.kind, true
			u.end(req, false)
			if reply, err := u.try(u.wants(1, 1, false)); !errors.Is(err, lockagent.ErrWithdrawn) {
				t.Errorf("Acquire = %+v, %v; want ErrWithdrawn", reply, err)
			}
			u.counts(1, 0)
		},
	},
	{
		name: "permits come back at the end of a lease",
		says: "The permits of a tenure whose lease is over come back: each call to the semaphore sees to that, but for an " +
			"Inspect, which only looks.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 2)
			u[0].change(lockagent.TrySetPermits, 4)
			req := u[0].wants(1, 3, false)
			req.Lease = brief
			u[0].get(req)
			eventually(t, "an Inspect sees that the lease is over", func() bool {
				seen, err := start(t, "Inspect", inspecting(u[1])).await()
				return err == nil && !seen.Held && seen.HoldCount == 0
			})
			eventually(t, "the permits are back", func() bool {
				seen, err := Permits(t, u[1].store, u[1].request(lockagent.ReadPermits, 0))
				return err == nil && seen.Free == 4 && seen.Taken == 0
			})
			u[0].keeps(1, false)
			u[0].gives(1, false)
			u[1].takes(1, 4)
		},
	},
	{
		name: "a renewal gives back the permits of others whose leases are over, and tells those who wait",
		says: "The permits of a tenure whose lease is over come back: each call to the semaphore sees to that, but for an " +
			"Inspect, which only looks.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 3)
			u[0].change(lockagent.TrySetPermits, 2)
			u[1].takes(1, 1)
			dies := u[0].wants(1, 1, false)
			dies.Lease = brief
			u[0].get(dies)
			woken := u[2].watches()
			eventually(t, "a wake-up, and then the permit", func() bool {
				u[1].keeps(1, true)
				select {
				case <-woken.C: // also one for nothing, as when a connection was made
					reply, err := u[2].try(u[2].wants(1, 1, false))
					return err == nil && reply.Granted
				default:
					return false
				}
			})
		},
	},
	{
		name: "a release passes permits in order, as far as they suffice",
		says: "A Release passes the free permits to the tenures in the queue, one after the other, as long as they suffice " +
			"for the next.",
		prove: func(t *testing.T, h *Harness) {
			h.needs(t, withQueue)
			u := h.users(t, 3)
			u[0].change(lockagent.TrySetPermits, 4)
			u[0].takes(1, 2)
			u[0].takes(2, 2)
			u[1].watches()
			u[2].watches()
			u[1].waits(h, 1, 1)
			u[2].waits(h, 1, 3)
			u[1].waits(h, 2, 1)
			reply := u[0].gives(1, true)
			if !reply.Passed {
				t.Errorf("Release = %+v; want it passed", reply)
			}
			passed := u[1].hears(lockagent.MessagePassed, 1)
			if passed.LockKind != h.kind || passed.Token == 0 || passed.Total != 4 || passed.At < reply.At {
				t.Errorf("heard %+v", passed)
			}
			u[0].counts(1, 3)   // one is left for the large request
			u[0].lacks(3, 1)    // and kept from those that come later
			u[0].gives(2, true) // now it suffices
			u[2].hears(lockagent.MessagePassed, 1)
			u[1].keeps(1, true)
			u[2].keeps(1, true)
			u[0].counts(0, 4)
			u[1].gives(1, true)
			u[1].hears(lockagent.MessagePassed, 2)
		},
	},
	{
		name: "permits reach all who wait, however many they are",
		says: "If permits are left for the next tenure, or have come back in another way than by a Release, " +
			"the first tenures in the queue get a [MessageStandby] with nothing remaining: " +
			"their Acquires are granted, one after the other.",
		prove: func(t *testing.T, h *Harness) {
			h.needs(t, withQueue)
			const waiters = 30
			u := h.users(t, 2)
			u[0].change(lockagent.TrySetPermits, waiters)
			u[0].takes(1, waiters)
			u[1].watches()
			for n := range uint64(waiters) {
				u[1].waits(h, n+1, 1)
			}
			u[0].gives(1, true)
			for has := make(map[uint64]bool); len(has) < waiters; {
				for n := range uint64(waiters) {
					_, passed := u[1].messages.Take(lockagent.MessagePassed, theLock, u[1].tenure(n+1))
					next, ok := u[1].messages.Take(lockagent.MessageStandby, theLock, u[1].tenure(n+1))
					if ok && next.AskAfter == 0 && !has[n+1] {
						reply, err := u[1].try(u[1].wants(n+1, 1, true))
						if err != nil {
							t.Fatal(err)
						}
						passed = passed || reply.Granted
					}
					if passed {
						has[n+1] = true
					}
				}
				if len(has) < waiters {
					select {
					case <-u[1].messages.C:
					case <-time.After(Patience):
						t.Fatalf("%d of %d tenures have permits, and no message says that others may ask", len(has), waiters)
					}
				}
			}
			u[0].counts(0, waiters)
		},
	},
	{
		name: "a large request that is given up lets smaller ones in",
		says: "So a request for many permits is not kept out by requests for few.",
		prove: func(t *testing.T, h *Harness) {
			h.needs(t, withQueue)
			u := h.users(t, 3)
			u[0].change(lockagent.TrySetPermits, 2)
			u[0].takes(1, 1)
			u[1].watches()
			u[2].watches()
			u[1].waits(h, 1, 2)
			u[2].waits(h, 1, 1)
			u[1].gives(1, false)
			u[2].hears(lockagent.MessagePassed, 1)
		},
	},
	{
		name: "permits that are added reach the waiters",
		says: "A change that makes more permits free, or of the kind [Permits] adds some, wakes all waiters.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 2)
			u[0].change(lockagent.TrySetPermits, 2)
			u[0].takes(1, 2)
			woken := u[1].watches()
			u[1].waits(h, 1, 2)
			if !withQueue.in(h.Store) {
				u[0].change(lockagent.AddPermits, 2)
				woken.Await()
				return
			}
			u[0].change(lockagent.AddPermits, 1)
			u[0].counts(1, 2)
			added := u[0].change(lockagent.AddPermits, 1)
			if told := u[1].hears(lockagent.MessageStandby, 1); told.AskAfter != 0 || told.LockKind != h.kind {
				t.Errorf("heard %+v; want it to ask at once", told)
			}
			woken.Await()
			if granted := u[1].get(u[1].wants(1, 2, true)); granted.At < added.At {
				t.Errorf("granted at %d, and added at %d", granted.At, added.At)
			}
			u[0].counts(0, 4)
		},
	},
	{
		name: "a semaphore that nobody has set is waited for",
		says: "A semaphore that nobody has set has no permits, and no queue. Its waiters wait until somebody sets it.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 2)
			woken := u[1].watches()
			reply, err := u[1].try(u[1].wants(1, 1, true))
			if err != nil || reply.Granted || reply.Queued || !reply.NotSet || reply.Holder != "" || reply.Remaining >= 0 {
				t.Fatalf("Acquire = %+v, %v; want it refused without a place", reply, err)
			}
			if seen := u[1].changes(u[1].request(lockagent.ReadPermits, 0)); seen.Exists || seen.Free != 0 {
				t.Errorf("ReadPermits = %+v", seen)
			}
			u[0].change(lockagent.TrySetPermits, 1)
			woken.Await()
			u[1].takes(1, 1)
		},
	},
	{
		name: "a semaphore that is deleted tells its waiters",
		says: "All tenures are over, and all waiters are woken.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 3)
			u[0].change(lockagent.TrySetPermits, 1)
			u[0].takes(1, 1)
			woken, also := u[1].watches(), u[2].watches()
			u[1].waits(h, 1, 1)
			u[2].waits(h, 1, 1)
			if deleted := u[0].change(lockagent.DeletePermits, 0); !deleted.Done || deleted.Exists {
				t.Errorf("DeletePermits = %+v", deleted)
			}
			woken.Await()
			also.Await()
			for _, waiter := range u[1:] {
				reply, err := waiter.try(waiter.wants(1, 1, true))
				if err != nil || reply.Granted || !reply.NotSet || reply.Queued {
					t.Errorf("Acquire = %+v, %v; want NotSet", reply, err)
				}
			}
			u[0].keeps(1, false)
			u[0].gives(1, false)
			if again := u[0].change(lockagent.DeletePermits, 0); again.Done {
				t.Errorf("DeletePermits = %+v", again)
			}
			u[0].change(lockagent.TrySetPermits, 2)
			u[0].counts(2, 0)
		},
	},
	{
		name: "the number is set once and may be changed",
		says: "TrySetPermits sets the number of free permits to N, unless the semaphore exists.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 1)[0]
			u.change(lockagent.AddPermits, 2)
			if set := u.change(lockagent.TrySetPermits, 9); set.Done || set.Free != 2 {
				t.Errorf("TrySetPermits = %+v", set)
			}
			u.takes(1, 1)
			if less := u.change(lockagent.AddPermits, -3); less.Free != -2 || less.Taken != 1 {
				t.Errorf("AddPermits = %+v", less)
			}
			u.lacks(2, 1)
			u.gives(1, true)
			u.counts(-1, 0)
			u.change(lockagent.AddPermits, 2)
			u.counts(1, 0)
		},
	},
	{
		name: "a number of permits has its bounds",
		says: "It is an [*OptionError] if there would be more than MaxPermits, or fewer than -MaxPermits.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 1)[0]
			u.change(lockagent.AddPermits, 2)
			u.takes(1, 2)
			over := u.request(lockagent.AddPermits, lockagent.MaxPermits-1)
			u.fails(over, lockagent.ErrBadOption)
			u.change(lockagent.AddPermits, lockagent.MaxPermits-2)
			u.fails(u.request(lockagent.AddPermits, 1), lockagent.ErrBadOption)
			u.counts(lockagent.MaxPermits-2, 2)
			u.gives(1, true)
			u.counts(lockagent.MaxPermits, 0)
			u.change(lockagent.AddPermits, -lockagent.MaxPermits)
			u.change(lockagent.AddPermits, -lockagent.MaxPermits)
			u.fails(u.request(lockagent.AddPermits, -1), lockagent.ErrBadOption)
			u.counts(-lockagent.MaxPermits, 0)
			u.changes(over) // it had no effect before
		},
	},
	{
		name: "a repeated change counts once",
		says: "A call that is repeated within a minute under the same Change has no further effect, and the same reply, " +
			"whose At may be later.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 2)
			u[0].change(lockagent.TrySetPermits, 3)
			for _, op := range []lockagent.PermitsOp{lockagent.AddPermits, lockagent.DeletePermits, lockagent.TrySetPermits} {
				req := u[0].request(op, 2)
				first := u[0].changes(req)
				again := u[1].changes(req)
				if again.At < first.At {
					t.Errorf("%s is at %d, and then at %d", op, first.At, again.At)
				}
				if again.At = first.At; again != first { // another store may know a later time
					t.Errorf("%s = %+v, and then %+v", op, first, again)
				}
			}
			u[0].counts(2, 0)
		},
	},
	{
		name: "a break ends all tenures",
		says: "A Break ends all tenures, and gives their permits back.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 2)
			u[0].change(lockagent.TrySetPermits, 5)
			u[0].takes(1, 2)
			u[1].takes(1, 1)
			seen, err := start(t, "Inspect", inspecting(u[0])).await()
			if err != nil || !seen.Held || seen.HoldCount != 3 {
				t.Errorf("Inspect = %+v, %v", seen, err)
			}
			for _, want := range []bool{true, false} {
				reply, err := startBreak(t, u[0].store, lockagent.BreakRequest{
					Name: theLock, Kind: h.kind, Operator: "ann",
				}).await()
				if err != nil || reply.Broken != want {
					t.Fatalf("Break = %+v, %v; want %t", reply, err, want)
				}
			}
			if told := u[1].hears(lockagent.MessageBroken, 1); told.Operator != "ann" {
				t.Errorf("heard %+v", told)
			}
			u[0].keeps(1, false)
			u[0].counts(5, 0)
			if seen, err := start(t, "Inspect", inspecting(u[0])).await(); err != nil || seen.Held {
				t.Errorf("Inspect = %+v, %v", seen, err)
			}
		},
	},
	{
		name: "the other kind is refused",
		says: "If what the store has under the name shows that the name is in use as another kind, Acquire, Break and " +
			"Inspect end with a [*KindError].",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 1)[0]
			u.change(lockagent.TrySetPermits, 2)
			u.takes(1, 1)
			other := u.as(map[lockagent.LockKind]lockagent.LockKind{
				lockagent.Semaphore: lockagent.Permits, lockagent.Permits: lockagent.Semaphore,
			}[h.kind])
			want := lockagent.KindError{Name: theLock, Kind: other.kind, Used: h.kind}
			isKind := func(what string, err error) {
				if got := (*lockagent.KindError)(nil); !errors.As(err, &got) || *got != want {
					t.Errorf("%s: %v; want %v", what, err, &want)
				}
			}
			_, err := other.try(other.wants(2, 1, false))
			isKind("Acquire", err)
			_, err = Permits(t, other.store, other.request(lockagent.AddPermits, 1))
			isKind("Permits", err)
			u.counts(1, 1)
			want.Kind = lockagent.PlainLock
			_, err = u.try(u.as(lockagent.PlainLock).wish(theLock, 9))
			isKind("Acquire of a plain lock", err)
		},
	},
	{
		name: "a tenure of a semaphore that is another kind by now is over",
		says: "A tenure of a semaphore that was deleted is over, also if the name is in use as another kind by now.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 1)[0]
			other := u.as(lockagent.Semaphore)
			if h.kind == lockagent.Semaphore {
				other = u.as(lockagent.Permits)
			}
			u.change(lockagent.TrySetPermits, 2)
			u.takes(1, 1)
			u.takes(2, 1)
			u.change(lockagent.DeletePermits, 0)
			other.change(lockagent.TrySetPermits, 3)
			u.keeps(1, false)
			u.gives(1, false)
			other.takes(3, 1)
			u.keeps(2, false)
			u.gives(2, false)
			other.counts(2, 1)
			other.gives(3, true)
			other.change(lockagent.DeletePermits, 0)

			u.change(lockagent.TrySetPermits, 2)
			u.takes(4, 1)
			u.change(lockagent.DeletePermits, 0)
			set := lockagent.LatchRequest{Name: theLock, Op: lockagent.LatchSet, Count: 3, Change: "set"}
			if reply, err := countLatch(t, u.store, set); err != nil || !reply.Changed {
				t.Fatalf("LatchSet = %+v, %v", reply, err)
			}
			u.keeps(4, false)
			u.gives(4, false)
			read := lockagent.LatchRequest{Name: theLock, Op: lockagent.LatchRead}
			if reply, err := countLatch(t, u.store, read); err != nil || reply.Count != 3 {
				t.Errorf("LatchRead = %+v, %v; want a count of 3", reply, err)
			}
		},
	},
	{
		name: "a lock is no semaphore",
		says: "the name is in use as another kind",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 1)[0]
			u.as(lockagent.PlainLock).acquire(theLock, 1)
			want := lockagent.KindError{Name: theLock, Kind: h.kind, Used: lockagent.PlainLock}
			_, err := u.try(u.wants(2, 1, false))
			if got := (*lockagent.KindError)(nil); !errors.As(err, &got) || *got != want {
				t.Errorf("Acquire: %v; want %v", err, &want)
			}
			u.fails(u.request(lockagent.TrySetPermits, 1), lockagent.ErrWrongKind)
			if h.PlantValue != nil {
				h.PlantValue(t, theLock)
				u.fails(u.request(lockagent.AddPermits, 1), lockagent.ErrWrongType)
			}
		},
	},
	{
		name: "wrong numbers are refused",
		says: "Check returns a [*NameError] or an [*OptionError] if the request is out of its bounds.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 1)[0]
			for _, req := range []lockagent.PermitsRequest{
				u.request(lockagent.TrySetPermits, -1), u.request(lockagent.AddPermits, lockagent.MaxPermits+1),
				u.request("multiply", 2),
				{Name: theLock, Kind: lockagent.PlainLock, Op: lockagent.ReadPermits},
				{Name: theLock, Kind: h.kind, Op: lockagent.AddPermits, N: 1},
			} {
				u.fails(req, lockagent.ErrBadOption)
			}
			for _, n := range []int{-1, lockagent.MaxPermits + 1} {
				if _, err := u.try(u.wants(1, n, false)); !errors.Is(err, lockagent.ErrBadOption) {
					t.Errorf("Acquire of %d permits: %v", n, err)
				}
			}
			plain := u.as(lockagent.PlainLock).wish(theLock, 1)
			plain.Permits = 2
			if _, err := u.try(plain); !errors.Is(err, lockagent.ErrBadOption) {
				t.Errorf("Acquire of a lock with 2 permits: %v", err)
			}
		},
	},
}

func inspecting(u user) func(done func(lockagent.Inspection, error)) {
	return func(done func(lockagent.Inspection, error)) {
		operator, ok := lockagent.Layer[lockagent.Operator](u.store)
		if !ok {
			u.t.Skip("the store has no Operator")
		}
		operator.Inspect(u.t.Context(), theLock, u.kind, done)
	}
}

var semaphoreClauses = []clause{
	{
		name: "a drain takes what is free",
		says: "DrainPermits removes all permits that are free.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 1)[0]
			if none := u.change(lockagent.DrainPermits, 0); none.Done || none.Exists {
				t.Errorf("DrainPermits = %+v", none)
			}
			u.change(lockagent.TrySetPermits, 5)
			u.takes(1, 2)
			req := u.request(lockagent.DrainPermits, 0)
			for range 2 {
				if drained := u.changes(req); !drained.Done || drained.N != 3 || drained.Free != 0 || drained.Taken != 2 {
					t.Errorf("DrainPermits = %+v", drained)
				}
			}
			u.change(lockagent.AddPermits, -1)
			if debt := u.change(lockagent.DrainPermits, 0); debt.Done || debt.Free != -1 {
				t.Errorf("DrainPermits = %+v; want the debt kept", debt)
			}
			u.fails(u.request(lockagent.SetPermits, 1), lockagent.ErrBadOption)
		},
	},
}
