package storetest

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// releasedInGrace is the sentence for what a holder releases before it has come back, of every kind.
const releasedInGrace = "In the period a Release of a tenure that the store has forgotten is Released, if its Last " +
	"is given: the store has granted the lock to nobody since."

// graceClauses are about locks of every kind that one tenure can have for itself.
var graceClauses = []clause{
	{
		name: "nothing new is granted",
		says: "Meanwhile each Acquire ends with a [*GraceError], and no Release passes a lock on.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			held := one.acquire(theLock, 2)
			h.forgets(t)
			two.begins()
			two.refusedFor(theLock, 2)
			two.refusedFor("of nobody", 2)
			one.comesBack(theLock, 2, held.Token, true)
			if left := two.refusedFor(theLock, 2); left > minute {
				t.Errorf("%v are left, and no lease is longer than %v", left, minute)
			}
			one.came()
			two.came()
			two.ends()
			two.refused(theLock, 2, one.tenure(2).String())
			one.acquire("of nobody", 2)
		},
	},
	{
		name: "nobody breaks a lock",
		says: "In a grace period the error is a [*GraceError]: the",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			held := one.acquire(theLock, 2)
			h.forgets(t)
			two.begins()
			two.breaksNothing(theLock)
			one.comesBack(theLock, 2, held.Token, true)
			two.breaksNothing(theLock)
			one.came()
			two.came()
			two.ends()
			two.breaks(theLock, true)
		},
	},
	{
		name: "a holder comes back with its hold",
		says: "A Renew of a tenure that the store has forgotten puts the tenure back as it was, if its Last is given.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			last := one.acquire(theLock, 2).Token
			h.forgets(t)
			one.comesBack(theLock, 2, last, true) // whoever has noticed what
			two.begins()
			one.comesBack(theLock, 2, last, true)
			one.came()
			two.came()
			two.ends()
			if left := two.refused(theLock, 2, one.tenure(2).String()).Remaining; left < minute/2 {
				t.Errorf("%v are left of a lease of %v", left, minute)
			}
			one.renews(theLock, 2, true)
			one.release(theLock, 2, true)
			if next := two.acquire(theLock, 3).Token; next <= last {
				t.Errorf("token %d after %d", next, last)
			}
		},
	},
	{
		name: "a hold that ended meanwhile is over",
		says: "A Renew of a tenure that the store has forgotten puts the tenure back as it was, if its Last is given.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			last := one.acquire(theLock, 2).Token
			h.forgets(t)
			two.begins()
			one.comesBack(theLock, 2, last, true)
			ending := one.ending(theLock, 2)
			ending.Last = last
			one.end(ending, true)
			one.came()
			two.came()
			two.ends()
			if next := two.acquire(theLock, 2).Token; next <= last {
				t.Errorf("token %d after %d", next, last)
			}
		},
	},
	{
		name: "a hold that is released before it has come back was not lost",
		says: releasedInGrace,
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			last := one.acquire(theLock, 2).Token
			h.forgets(t)
			two.begins()
			one.releases(2, last)
			one.came()
			two.came()
			two.ends()
			if next := two.acquire(theLock, 2).Token; next <= last {
				t.Errorf("token %d after %d", next, last)
			}
		},
	},
	{
		name: "a tenure without holds does not come back",
		says: "A tenure without holds is not put back.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			one.acquire(theLock, 2)
			h.forgets(t)
			one.comesBack(theLock, 2, 0, false)
			one.came()
			two.begins()
			two.came()
			two.ends()
			two.acquire(theLock, 2)
		},
	},
	{
		name: "the greater token decides",
		says: "If two agents claim one lock, the greater Last decides, and the Renew of the other is not Held.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			const other = theLock + "/other"
			before, after := make(map[lockagent.Name]lockagent.Token), make(map[lockagent.Name]lockagent.Token)
			for _, name := range []lockagent.Name{theLock, other} {
				before[name] = one.acquire(name, 2).Token
				one.release(name, 2, true)
				after[name] = two.acquire(name, 2).Token
			}
			h.forgets(t)
			one.comesBack(theLock, 2, before[theLock], true)
			two.comesBack(theLock, 2, after[theLock], true)
			one.comesBack(theLock, 2, before[theLock], false)
			two.comesBack(other, 2, after[other], true)
			one.comesBack(other, 2, before[other], false)
			two.comesBack(other, 2, after[other], true)
			one.begins()
			one.came()
			two.came()
			one.ends()
			one.refused(theLock, 3, two.tenure(2).String())
			one.refused(other, 3, two.tenure(2).String())
		},
	},
	{
		name: "it ends when all have come back",
		slow: true,
		says: "The period ends when each agent on the roll has come back, or when the longest lease is over that an agent " +
			"which has not come back may have in use.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			h.forgets(t)
			two.begins()
			two.awaitsLong()
			one.grace.Reasserted(one.before) // that was another incarnation
			two.came()
			for range rounds { // what was said may arrive late
				one.renews(theLock, 2, false)
				two.refusedFor(theLock, 2)
			}
			one.came()
			two.ends()
			two.acquire(theLock, 2)
		},
	},
	{
		name: "it waits for an agent that does not come, until the longest lease of that agent is over",
		slow: true,
		says: "Until then such an agent may trust its tenures, although it is cut off.",
		prove: func(t *testing.T, h *Harness) {
			const longest = time.Second
			one, two := h.comingBack(t, longest)
			req := one.wish(theLock, 2)
			req.Lease = brief // the longest lease of the agent counts, and not its latest
			one.get(req)
			one.close()
			h.forgets(t)
			began := two.begins()
			two.came()
			ended := two.ends()
			if lasted := ended.Ended.Sub(began.Began); lasted < longest {
				t.Errorf("the period lasted %v, and an agent that was away may have had a lease of %v", lasted, longest)
			}
			if len(ended.Roll) != 1 || ended.Roll[0] != one.id || ended.More != 0 {
				t.Errorf("ended as %+v; want that %s did not come back", ended, one.id)
			}
			two.acquire(theLock, 2)
		},
	},
	{
		name: "it does not wait for an agent that has left",
		slow: true,
		says: "No period waits for it from then on.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			h.forgets(t)
			two.begins()
			two.awaitsLong()
			two.came()
			one.grace.Left()
			two.ends()
			two.acquire(theLock, 2)
		},
	},
	{
		name: "an agent that goes on with the tenures of another process comes back",
		slow: true,
		says: "an agent that begins, or goes on with the tenures of another process, was told of no reset",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			last := one.acquire(theLock, 2).Token
			one.close()
			h.forgets(t)
			two.begins()
			two.awaitsLong()
			two.came()
			heir := one.twin(h).comes()
			heir.comesBack(theLock, 2, last, true)
			heir.grace.Reasserted(lockagent.PresentIncarnation)
			two.ends()
			two.refused(theLock, 2, one.tenure(2).String())
		},
	},
	{
		name: "an agent that was there before has to say to what it has come back",
		slow: true,
		says: "The call does not count if the store has been reset since.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			h.forgets(t)
			one.begins()
			two.begins()
			two.awaitsLong()
			two.came()
			one.grace.Reasserted(lockagent.PresentIncarnation)
			for range rounds {
				one.renews(theLock, 2, false)
				two.refusedFor(theLock, 2)
			}
			one.came()
			two.ends()
		},
	},
	{
		name: "its beginning and its end are told",
		slow: true,
		says: "OnGrace calls f when a grace period begins, as far as the store notices, and when it has ended.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			silent := make(chan lockagent.GracePeriod, 1)
			one.grace.OnGrace(func(p lockagent.GracePeriod) { silent <- p })()
			for range rounds {
				h.forgets(t)
				for _, c := range []*comer{one, two} {
					before := c.before
					if began := c.begins(); began.Incarnation == "" || began.Incarnation == before ||
						began.Reason == "" || began.Began <= 0 || began.Ended != 0 {
						t.Errorf("began as %+v, after the incarnation %q", began, before)
					}
				}
				one.came()
				two.came()
				for _, c := range []*comer{one, two} {
					began := c.period
					if ended := c.ends(); ended.Incarnation != began.Incarnation || ended.Ended < began.Began ||
						len(ended.Roll) > 0 || ended.More > 0 {
						t.Errorf("began as %+v, and ended as %+v", began, ended)
					}
				}
			}
			select {
			case p := <-silent:
				t.Errorf("told %+v after cancel had returned", p)
			default:
			}
		},
	},
}

// graceReadWriteClauses are about tenures that share a lock.
var graceReadWriteClauses = []clause{
	{
		name: "tenures that share a lock come back together",
		says: "A Renew of a tenure that the store has forgotten puts the tenure back as it was, if its Last is given.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			first := one.read(2).Token
			second := two.read(2).Token
			h.forgets(t)
			two.reads(2, second, true)
			one.reads(2, first, true)
			two.reads(2, second, true)
			one.begins()
			one.came()
			two.came()
			one.ends()
			one.has(2)
			two.has(2)
			one.release(theLock, 2, true)
			one.refused(theLock, 3, two.tenure(2).String())
			two.release(theLock, 2, true)
			one.acquire(theLock, 4)
		},
	},
	{
		name: "a shared hold that is released before it has come back was not lost",
		says: releasedInGrace,
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			first := one.read(2).Token
			second := two.read(2).Token
			h.forgets(t)
			two.reads(2, second, true)
			one.releases(2, first)
			one.begins()
			one.came()
			two.came()
			one.ends()
			one.refused(theLock, 3, two.tenure(2).String())
		},
	},
	{
		name: "a reader and a writer are not put back together",
		says: "If two agents claim one lock, the greater Last decides, and the Renew of the other is not Held.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			read := one.read(2).Token
			one.release(theLock, 2, true)
			written := two.acquire(theLock, 2).Token
			two.release(theLock, 2, true)
			readAfter := one.read(3).Token
			h.forgets(t)
			one.reads(2, read, true)
			two.comesBack(theLock, 2, written, true)
			one.reads(2, read, false)
			one.reads(3, readAfter, true)
			two.comesBack(theLock, 2, written, false)
			two.begins()
			one.came()
			two.came()
			two.ends()
			two.refused(theLock, 3, one.tenure(3).String())
		},
	},
}

// gracePermitClauses are about semaphores of either kind.
var gracePermitClauses = []clause{
	{
		name: "nothing new is granted",
		says: "Meanwhile each Acquire ends with a [*GraceError], and no Release passes a lock on.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			user{one.party}.change(lockagent.TrySetPermits, 2)
			user{one.party}.takes(2, 1)
			h.forgets(t)
			two.begins()
			two.refusedFor(theLock, 2)
		},
	},
	{
		name: "no number is changed",
		says: "Each change of permits ends with a [*GraceError], too.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			first, second := user{one.party}, user{two.party}
			first.change(lockagent.TrySetPermits, 5)
			last := first.takes(2, 2).Token
			h.forgets(t)
			two.begins()
			refused := func() {
				t.Helper()
				for _, op := range []lockagent.PermitsOp{
					lockagent.TrySetPermits, lockagent.SetPermits, lockagent.AddPermits, lockagent.DrainPermits,
					lockagent.ReleasePermit, lockagent.ExtendPermit, lockagent.DeletePermits,
				} {
					if req := second.of(op, first.tenure(2).PermitID(1)); req.Check() == nil { // some are of one kind
						second.fails(req, lockagent.ErrGrace)
					}
				}
			}
			refused()
			one.permits(2, 2, 5, last, true)
			refused()
			one.came()
			two.came()
			two.ends()
			second.counts(3, 2)
			if deleted := second.change(lockagent.DeletePermits, 0); !deleted.Done {
				t.Errorf("DeletePermits = %+v; want it done after the period", deleted)
			}
		},
	},
	{
		name: "permits come back, and their number",
		says: "the number of its permits, and the number of all permits when the store granted those",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			first, second := user{one.party}, user{two.party}
			first.change(lockagent.TrySetPermits, 5)
			lastOne, lastTwo := first.takes(2, 2).Token, second.takes(2, 1).Token
			h.forgets(t)
			two.permits(2, 1, 5, lastTwo, true)
			one.permits(2, 2, 5, lastOne, true)
			two.permits(2, 1, 5, lastTwo, true)
			two.permits(3, 1, 5, 0, false) // that had no holds
			one.begins()
			one.came()
			two.came()
			one.ends()
			first.counts(2, 3)
			first.lacks(3, 3)
			first.gives(2, true)
			first.counts(4, 1)
			second.gives(2, true)
			first.counts(5, 0)
		},
	},
	{
		name: "permits that are released before they have come back were not lost",
		says: releasedInGrace,
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			first, second := user{one.party}, user{two.party}
			first.change(lockagent.TrySetPermits, 5)
			lastOne, lastTwo := first.takes(2, 2).Token, second.takes(2, 1).Token
			h.forgets(t)
			two.permits(2, 1, 5, lastTwo, true)
			one.releases(2, lastOne)
			one.begins()
			one.came()
			two.came()
			one.ends()
			first.counts(4, 1)
		},
	},
	{
		name: "the latest number of permits counts",
		says: "If the store has forgotten how many there are, the Total of the greatest Last counts.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			first, second := user{one.party}, user{two.party}
			first.change(lockagent.TrySetPermits, 2)
			before := first.takes(2, 2).Token
			first.change(lockagent.AddPermits, 4)
			after := second.takes(2, 3).Token
			h.forgets(t)
			one.permits(2, 2, 2, before, true)
			two.permits(2, 3, 6, after, true)
			one.permits(2, 2, 2, before, true)
			one.begins()
			one.came()
			two.came()
			one.ends()
			first.counts(1, 5)
		},
	},
}
