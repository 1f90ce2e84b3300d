package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

var tenureClauses = []clause{
	{
		name: "a late call of a tenure that was withdrawn has no effect",
		says: "If the request is Unanswered, Release also withdraws the tenure: an Acquire of the tenure that arrives " +
			"within a minute has no effect.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.withdraws(theLock, 1)
			one.withdrawn(theLock, 1)
			one.sees(theLock, "")
			two.acquire(theLock, 1)
			one.withdrawn(theLock, 1)
			two.sees(theLock, two.tenure(1).String())
		},
	},
	{
		name: "a late call of a tenure that has been over is refused",
		says: "The error is [ErrWithdrawn] if the tenure was withdrawn before: only a late call meets that.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			one.acquire(theLock, 1)
			one.breaks(theLock, true)
			one.withdraws(theLock, 1)
			one.withdrawn(theLock, 1)
			one.sees(theLock, "")
		},
	},
	{
		name: "a late call of a tenure that was released is refused",
		says: "If the request is Unanswered, Release also withdraws the tenure",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			req := one.ending(theLock, 1)
			req.Unanswered = true
			one.end(req, true)
			one.withdrawn(theLock, 1)
			one.sees(theLock, "")
			two.acquire(theLock, 1)
		},
	},
	{
		name: "only that tenure is withdrawn",
		says: "A tenure is an agent and a number that is used once.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.withdraws(theLock, 5)
			for _, number := range []uint64{4, 6, 50} {
				one.acquire(theLock, number)
				one.release(theLock, number, true)
			}
			two.acquire(theLock, 5)
			one.acquire("orders/43", 5)
			one.withdrawn(theLock, 5)
		},
	},
	{
		name: "several tenures are withdrawn",
		says: "an Acquire of the tenure that arrives within a minute has no effect.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			for _, number := range []uint64{1, 3, 2} {
				one.withdraws(theLock, number)
			}
			for _, number := range []uint64{1, 2, 3} {
				one.withdrawn(theLock, number)
			}
			one.acquire(theLock, 4)
		},
	},
	{
		name: "a tenure of which every call was answered is not withdrawn",
		says: "Unanswered says that an Acquire of the tenure had no reply, so it may still arrive.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			two.refused(theLock, 1, one.tenure(1).String())
			two.release(theLock, 1, false)
			one.release(theLock, 1, true)
			two.acquire(theLock, 1) // the store has not withdrawn the tenure
		},
	},
	{
		name: "the tenures of an agent exclude each other",
		says: "A tenure is an agent and a number that is used once.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			one.acquire(theLock, 2)
			one.refused(theLock, 3, one.tenure(2).String())
			one.refused(theLock, 1, one.tenure(2).String())
			one.release(theLock, 2, true)
			one.acquire(theLock, 3)
		},
	},
	{
		name: "the numbers of one lock mean nothing for another",
		says: "Tenure identifies one agent's time with a lock in the store.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			one.acquire(theLock, 1)
			one.acquire("orders/43", 1)
			one.release(theLock, 1, true)
			one.sees("orders/43", one.tenure(1).String())
		},
	},
	{
		name: "great numbers are told apart",
		says: "MaxTenure is the greatest number of a [Tenure]: Lua counts up to it without a gap.",
		prove: func(t *testing.T, h *Harness) {
			const greatest = lockagent.MaxTenure
			one := h.agent(t)
			one.withdraws(theLock, greatest-1)
			one.acquire(theLock, greatest)
			one.sees(theLock, one.tenure(greatest).String())
			one.refused(theLock, greatest-2, one.tenure(greatest).String())
			one.release(theLock, greatest-2, false)
			one.release(theLock, greatest, true)
			one.withdrawn(theLock, greatest-1)
		},
	},
	{
		name: "late calls leave later tenures alone",
		says: "So a repeated or late call never touches another tenure than its own.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			for late, later := range map[uint64]*party{1: one, 3: two} {
				one.acquire(theLock, late)
				one.release(theLock, late, true)
				later.acquire(theLock, late+1)
				holder := later.tenure(late + 1).String()
				one.refused(theLock, late, holder)
				if reply := one.renew(theLock, late, time.Hour); reply.Held {
					t.Errorf("Renew(%s) = %+v; want Held false", one.tenure(late), reply)
				}
				one.release(theLock, late, false)
				one.withdraws(theLock, late)
				if left := later.sees(theLock, holder).Remaining; left > minute {
					t.Errorf("%v left of a lease of %v after a late renewal", left, minute)
				}
				later.release(theLock, late+1, true)
			}
		},
	},
}

// withdrawn acquires and expects ErrWithdrawn.
func (p *party) withdrawn(name lockagent.Name, number uint64) {
	p.t.Helper()
	if reply, err := p.try(p.wish(name, number)); !errors.Is(err, lockagent.ErrWithdrawn) || reply.Granted {
		p.t.Fatalf("Acquire(%s) = %+v, %v; want ErrWithdrawn", p.tenure(number), reply, err)
	}
}
