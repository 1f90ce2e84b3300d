package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

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
		says: "A Release of a tenure that the store has forgotten is Released, if its Last is given: the store has " +
			"granted the lock to nobody since.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.comingBack(t, minute)
			last := one.acquire(theLock, 2).Token
			h.forgets(t)
			two.begins()
			ending := one.ending(theLock, 2)
			ending.Last = last
			one.end(ending, true)
			ending.Unanswered = true
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

// comer is an agent that comes back.
type comer struct {
	*party
	own     *party // the agent with requests for plain locks
	grace   lockagent.Grace
	periods <-chan lockagent.GracePeriod
	before  string // the incarnation that it knew
	period  lockagent.GracePeriod
}

// comingBack returns two agents that are on the roll with a lease. The second one knows that the first one is.
func (h *Harness) comingBack(t *testing.T, lease time.Duration) (one, two *comer) {
	t.Helper()
	if !h.GracePeriods || h.Reset == nil {
		t.Skip("the harness cannot begin a grace period")
	}
	all := make([]*comer, 2)
	for i := range all {
		c := h.agent(t).comes()
		req := c.own.wish(c.lock(), 1)
		req.Lease = lease
		c.before = c.own.get(req).Incarnation
		c.own.release(req.Name, 1, true)
		all[i] = c
	}
	return all[0], all[1]
}

// comes is the agent with what it hears of grace periods.
func (p *party) comes() *comer {
	p.t.Helper()
	own := *p
	own.kind = lockagent.PlainLock
	c := &comer{party: p, own: &own}
	var ok bool
	if c.grace, ok = lockagent.Layer[lockagent.Grace](p.store); !ok {
		p.t.Fatal("another store of the harness has no Grace")
	}
	periods := make(chan lockagent.GracePeriod, 10*rounds)
	p.t.Cleanup(c.grace.OnGrace(func(p lockagent.GracePeriod) { periods <- p }))
	c.periods = periods
	return c
}

// forgets has the store forget everything. A grace period begins when somebody calls.
func (h *Harness) forgets(t *testing.T) { h.Reset(t) }

// lock is a lock that only the agent uses.
func (c *comer) lock() lockagent.Name { return "of " + lockagent.Name(c.id) }

// begins waits until the agent is told of a grace period. An agent that does not know yet that the store has forgotten
// everything learns it now.
func (c *comer) begins() lockagent.GracePeriod {
	c.t.Helper()
	eventually(c.t, "an Acquire is told of the grace period", func() bool {
		reply, err := c.own.try(c.own.wish(c.lock(), 100))
		if err == nil {
			c.t.Fatalf("Acquire = %+v; want it refused, because the store has forgotten everything", reply)
		}
		return errors.Is(err, lockagent.ErrGrace)
	})
	c.period = c.hearsOf("the beginning")
	return c.period
}

// ends waits until the grace period has ended, and the agent was told.
func (c *comer) ends() lockagent.GracePeriod {
	c.t.Helper()
	eventually(c.t, "the grace period has ended", func() bool {
		_, err := c.own.try(c.own.wish(c.lock(), 100))
		return err == nil
	})
	c.own.release(c.lock(), 100, true)
	ended := c.hearsOf("the end")
	c.before = ended.Incarnation
	return ended
}

// hearsOf waits for news of a grace period.
func (c *comer) hearsOf(what string) lockagent.GracePeriod {
	c.t.Helper()
	overdue := time.NewTimer(Patience)
	defer overdue.Stop()
	select {
	case p := <-c.periods:
		return p
	case <-overdue.C:
		c.t.Fatalf("OnGrace did not tell of %s of a grace period within %v", what, Patience)
		return lockagent.GracePeriod{}
	}
}

// came says that the agent has come back to the present incarnation.
func (c *comer) came() {
	c.t.Helper()
	if c.period.Incarnation == "" || c.period.Incarnation == c.before {
		c.begins()
	}
	c.grace.Reasserted(c.period.Incarnation)
}

// refusedFor expects that a try is refused, and returns how long the period may last.
func (c *comer) refusedFor(name lockagent.Name, number uint64) time.Duration {
	c.t.Helper()
	req := c.wish(name, number)
	reply, err := c.try(req)
	grace, ok := errors.AsType[*lockagent.GraceError](err)
	if !ok || grace.Name != name || grace.Left <= 0 || lockagent.Definite(err) {
		c.t.Fatalf("Acquire(%s) = %+v, %#v; want a GraceError with what is left", req.Tenure, reply, err)
	}
	return grace.Left
}

// breaksNothing breaks a lock in a grace period, and expects to be refused. It skips the rest of the case if the store
// has no Operator.
func (c *comer) breaksNothing(name lockagent.Name) {
	c.t.Helper()
	if !c.offers(withOperator) {
		c.t.Skip("the store has no Operator")
	}
	broken, err := breakLock(c.t, c.store, c.breaking(name))
	if grace, ok := errors.AsType[*lockagent.GraceError](err); !ok || grace.Name != name || grace.Left <= 0 {
		c.t.Fatalf("Break(%q) = %t, %#v; want a GraceError with what is left", name, broken, err)
	}
}

// awaitsLong waits until the period waits for an agent with a lease of a minute.
func (c *comer) awaitsLong() {
	c.t.Helper()
	eventually(c.t, "the grace period waits for the agents", func() bool {
		return c.refusedFor("of nobody", 1) > minute/2
	})
}

// comesBack renews a tenure with its last token.
func (c *comer) comesBack(name lockagent.Name, number uint64, last lockagent.Token, held bool) {
	c.t.Helper()
	req := c.renewal(name, number, minute)
	req.Last = last
	c.claims(req, held)
}

// reads is comesBack for a tenure that shares theLock.
func (c *comer) reads(number uint64, last lockagent.Token, held bool) {
	c.t.Helper()
	req := c.renewal(theLock, number, minute)
	req.Last, req.Mode = last, lockagent.Shared
	c.claims(req, held)
}

// permits is comesBack for a tenure that had n permits when there were so many.
func (c *comer) permits(number uint64, n, total int, last lockagent.Token, held bool) {
	c.t.Helper()
	req := c.renewal(theLock, number, minute)
	req.Last, req.Permits, req.Total = last, n, total
	c.claims(req, held)
}

// renews renews a tenure without its last token.
func (c *comer) renews(name lockagent.Name, number uint64, held bool) {
	c.t.Helper()
	c.claims(c.renewal(name, number, minute), held)
}

func (c *comer) claims(req lockagent.RenewRequest, held bool) {
	c.t.Helper()
	req.Urgent = true
	reply, err := Renew(c.t, c.store, req)
	if err != nil || reply.Held != held {
		c.t.Fatalf("Renew(%+v) = %+v, %v; want Held %t", req, reply, err, held)
	}
}
