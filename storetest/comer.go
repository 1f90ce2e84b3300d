package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

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

// releases releases a tenure of theLock that the store has forgotten, whether an Acquire had no reply or not. The
// tenure before never had a hold, so there is none to release.
func (c *comer) releases(number uint64, last lockagent.Token) {
	c.t.Helper()
	req := c.ending(theLock, number)
	req.Last = last
	c.end(req, true)
	req.Unanswered = true
	c.end(req, true)
	req.Tenure = c.tenure(number - 1)
	req.Last = 0
	c.end(req, false)
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
