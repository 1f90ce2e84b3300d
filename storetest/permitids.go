package storetest

import (
	"testing"

	"github.com/lockagent/lockagent"
)

var permitIDClauses = []clause{
	{
		name: "the size is set",
		says: "SetPermits sets the number of all permits to N: those that are free and those that are taken.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 1)[0]
			u.change(lockagent.SetPermits, 3)
			u.takes(1, 2)
			for n, free := range map[int]int{5: 3, 2: 0, 1: -1} {
				if set := u.change(lockagent.SetPermits, n); !set.Done || set.Free != free || set.Taken != 2 {
					t.Errorf("SetPermits(%d) = %+v; want %d free", n, set, free)
				}
			}
			u.fails(u.request(lockagent.DrainPermits, 0), lockagent.ErrBadOption)
		},
	},
	{
		name: "a permit is released by its id",
		says: "ReleasePermit gives back the permit ID, whoever took it.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 2)
			u[0].change(lockagent.SetPermits, 3)
			u[0].takes(1, 2)
			req := u[1].of(lockagent.ReleasePermit, u[0].tenure(1).PermitID(2))
			for range 2 {
				if reply := u[1].changes(req); !reply.Done || reply.Free != 2 || reply.Taken != 1 {
					t.Fatalf("ReleasePermit = %+v", reply)
				}
			}
			if again := u[1].changes(u[1].of(lockagent.ReleasePermit, req.ID)); again.Done {
				t.Errorf("ReleasePermit of a permit that is not taken = %+v", again)
			}
			u[0].keeps(1, false) // it has not all that it was granted, so it is over
			u[0].counts(3, 0)
			u[0].gives(1, false)
			u[0].counts(3, 0)
		},
	},
	{
		name: "the rest of a tenure comes back with its release",
		says: "Done: it was taken.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 1)[0]
			u.change(lockagent.SetPermits, 3)
			u.takes(1, 3)
			u.changes(u.of(lockagent.ReleasePermit, u.tenure(1).PermitID(1)))
			u.gives(1, false)
			u.counts(3, 0)
		},
	},
	{
		name: "a permit is extended by its id",
		says: "ExtendPermit starts the lease of the permit ID anew, whoever took it.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 2)
			u[0].change(lockagent.SetPermits, 3)
			req := u[0].wants(1, 1, false)
			req.Lease = brief
			extend := u[1].of(lockagent.ExtendPermit, u[0].tenure(1).PermitID(1))
			eventually(t, "a permit is extended before its lease is over", func() bool {
				u[0].get(req)
				extend.Change = string(lockagent.NewAgentID())
				return u[1].changes(extend).Done
			})
			renewal := u[0].renewal(theLock, 1, brief) // it does not shorten what was extended
			renewal.Urgent = true
			if reply, err := Renew(t, u[0].store, renewal); err != nil {
				t.Fatalf("Renew = %+v, %v", reply, err)
			}
			u[1].outlasts(2, 2)
			u[0].counts(2, 1)
			u[0].takes(1, 1) // the tenure was over. It has the same permit again, and not one more
			u[0].counts(2, 1)
			if reply := u[0].changes(u[0].of(lockagent.ExtendPermit, u[1].tenure(2).PermitID(1))); reply.Done {
				t.Errorf("ExtendPermit of a permit that is not taken = %+v", reply)
			}
		},
	},
	{
		name: "an extension shortens no lease",
		says: "The lease never ends earlier by that, because nobody would tell the holder.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 2)
			u[0].change(lockagent.SetPermits, 5)
			u[0].takes(1, 1)
			u[1].extends(u[0].tenure(1).PermitID(1), brief)
			taken := 1
			if h.PlantPermit != nil {
				const theirs lockagent.PermitID = "000102030405060708090a0b0c0d0eff"
				h.PlantPermit(t, theLock, theirs, minute)
				u[1].extends(theirs, brief)
				taken++
			}
			u[1].outlasts(2, 3)
			u[0].counts(5-taken, taken)
			u[0].keeps(1, true)
		},
	},
	{
		name: "a permit without a lease gets one",
		says: "A permit that another program took without a lease gets one.",
		prove: func(t *testing.T, h *Harness) {
			if h.PlantPermit == nil {
				t.Skip("no other program can use the data")
			}
			u := h.users(t, 1)[0]
			u.change(lockagent.SetPermits, 1)
			const forever lockagent.PermitID = "000102030405060708090a0b0c0d0eff"
			h.PlantPermit(t, theLock, forever, 0)
			u.extends(forever, brief)
			eventually(t, "the lease is over", func() bool {
				return u.changes(u.request(lockagent.ReadPermits, 0)).Free == 1
			})
		},
	},
	{
		name: "permits of other programs",
		says: "whoever took it",
		prove: func(t *testing.T, h *Harness) {
			if h.PlantPermit == nil {
				t.Skip("no other program can use the data")
			}
			u := h.users(t, 1)[0]
			u.change(lockagent.SetPermits, 3)
			const forever, short lockagent.PermitID = "000102030405060708090a0b0c0d0eff", "0001020304050607080a0a0a0a0a0a0a"
			h.PlantPermit(t, theLock, forever, 0)
			h.PlantPermit(t, theLock, short, brief)
			eventually(t, "the lease is over", func() bool {
				seen := u.changes(u.request(lockagent.ReadPermits, 0))
				return seen.Free == 2 && seen.Taken == 1
			})
			u.takes(1, 2)
			if reply := u.lacks(2, 1); reply.Remaining <= 0 {
				t.Errorf("Acquire = %+v; want what is left of the lease that ends first", reply)
			}
			if reply := u.changes(u.of(lockagent.ReleasePermit, forever)); !reply.Done || reply.Free != 1 {
				t.Errorf("ReleasePermit = %+v", reply)
			}
			u.fails(u.of(lockagent.ReleasePermit, "XY"), lockagent.ErrBadOption)
		},
	},
	{
		name: "a request for more permits than there are has no place",
		says: "A tenure that wants more than that has no place, and loses the one that it has. Its agent asks again when " +
			"it is woken.",
		prove: func(t *testing.T, h *Harness) {
			h.needs(t, withQueue)
			u := h.users(t, 3)
			u[0].change(lockagent.TrySetPermits, 5)
			u[1].watches()
			u[2].watches()
			u[1].isTooMany(1, 6)
			u[0].takes(1, 5) // also without a place
			u[2].waits(h, 1, 2)
			u[0].gives(1, true)
			u[2].hears(lockagent.MessagePassed, 1)
			u[1].isTooMany(1, 6)
			u[0].change(lockagent.AddPermits, 1)
			u[1].waits(h, 1, 6)
			u[0].lacks(2, 1) // 4 are free, for the request that came earlier
			u[2].gives(1, true)
			u[1].hears(lockagent.MessagePassed, 1)
			u[0].counts(0, 6)
		},
	},
	{
		name: "permits that are added wake all, also if none is free",
		says: "A change that makes more permits free, or of the kind [Permits] adds some, wakes all waiters.",
		prove: func(t *testing.T, h *Harness) {
			u := h.users(t, 2)
			u[0].change(lockagent.TrySetPermits, 5)
			u[0].takes(1, 5)
			u[0].change(lockagent.SetPermits, 2)
			woken := u[1].watches()
			u[0].change(lockagent.AddPermits, 1)
			woken.Await()
			u[0].counts(-2, 5)
		},
	},
	{
		name: "a request that becomes too large lets others in",
		says: "A tenure that wants more than that has no place, and loses the one that it has.",
		prove: func(t *testing.T, h *Harness) {
			h.needs(t, withQueue)
			u := h.users(t, 3)
			u[0].change(lockagent.TrySetPermits, 5)
			u[0].takes(1, 2)
			u[1].watches()
			u[2].watches()
			u[1].waits(h, 1, 4)
			u[2].waits(h, 1, 1)
			u[0].counts(3, 2)
			u[0].change(lockagent.AddPermits, -2)
			u[1].hears(lockagent.MessageStandby, 1)
			u[1].isTooMany(1, 4)
			u[2].hears(lockagent.MessageStandby, 1)
			u[2].get(u[2].wants(1, 1, true))
			u[0].counts(0, 3)
			u[0].change(lockagent.SetPermits, 4)
			u[1].waits(h, 1, 4)
			u[0].gives(1, true)
			u[2].gives(1, true)
			u[1].hears(lockagent.MessagePassed, 1)
			u[0].counts(0, 4)
		},
	},
	{
		name: "requests that are too large keep nobody out, however many they are",
		says: "A tenure that wants more than that has no place, and loses the one that it has.",
		prove: func(t *testing.T, h *Harness) {
			h.needs(t, withQueue)
			const large = 30
			u := h.users(t, 3)
			u[0].change(lockagent.TrySetPermits, large)
			u[0].takes(1, large)
			u[1].watches()
			u[2].watches()
			for n := range uint64(large) {
				u[1].waits(h, n+1, large-int(n)) // none is too large yet
			}
			u[2].waits(h, 1, 1)
			u[0].change(lockagent.SetPermits, 1)
			u[0].gives(1, true)
			u[1].hears(lockagent.MessagePassed, large) // it wants one
			u[1].gives(large, true)
			u[2].hears(lockagent.MessagePassed, 1)
		},
	},
}

// isTooMany expects to be refused n permits, and to get no place, because there are not so many.
func (u user) isTooMany(number uint64, n int) {
	u.t.Helper()
	reply, err := u.try(u.wants(number, n, true))
	if err != nil || reply.Granted || reply.NotSet || reply.Queued || reply.Holder == "" {
		u.t.Fatalf("Acquire(%s) = %+v, %v; want it held, and no place", u.tenure(number), reply, err)
	}
}
