package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

var tenureClauses = []clause{
	{
		name: "a tenure that was released before is withdrawn",
		says: "Released before it was acquired, the tenure is withdrawn: an Acquire that arrives later has no effect.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.release(theLock, 1, false)
			one.withdrawn(theLock, 1)
			one.sees(theLock, "")
			two.acquire(theLock, 1)
		},
	},
	{
		name: "a tenure that is over is not granted again",
		says: "The reply is an ErrWithdrawn if the tenure was released before, which only a call that arrives late can meet.",
		prove: func(t *testing.T, h *Harness) {
			one, _ := h.pair(t)
			one.acquire(theLock, 1)
			one.release(theLock, 1, true)
			one.withdrawn(theLock, 1)
			one.sees(theLock, "")
		},
	},
	{
		name: "an older tenure is not granted after a later one",
		says: "the numbers that an agent uses for one lock only grow.",
		prove: func(t *testing.T, h *Harness) {
			one, _ := h.pair(t)
			one.acquire(theLock, 5)
			one.release(theLock, 5, true)
			one.withdrawn(theLock, 4)
			one.withdrawn(theLock, 1)
			one.sees(theLock, "")
			one.acquire(theLock, 6)
		},
	},
	{
		name: "a withdrawn tenure stays withdrawn when an older one ends",
		says: "Released before it was acquired, the tenure is withdrawn: an Acquire that arrives later has no effect.",
		prove: func(t *testing.T, h *Harness) {
			one, _ := h.pair(t)
			one.acquire(theLock, 1)
			one.release(theLock, 2, false)
			one.release(theLock, 1, true)
			one.withdrawn(theLock, 2)
			one.withdrawn(theLock, 1)
			one.sees(theLock, "")
		},
	},
	{
		name: "the tenures of an agent exclude each other",
		says: "Each tenure has an identity that is used once",
		prove: func(t *testing.T, h *Harness) {
			one, _ := h.pair(t)
			one.acquire(theLock, 2)
			one.refused(theLock, 3, one.tenure(2).String())
			one.refused(theLock, 1, one.tenure(2).String())
			one.release(theLock, 2, true)
			one.acquire(theLock, 3)
		},
	},
	{
		name: "the numbers of one agent mean nothing for another",
		says: "Tenure identifies one agent's time with a lock in the store.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 9)
			one.release(theLock, 9, true)
			two.acquire(theLock, 1)
			one.release(theLock, 1, false)
			two.sees(theLock, two.tenure(1).String())
		},
	},
	{
		name: "the numbers of one lock mean nothing for another",
		says: "Tenure identifies one agent's time with a lock in the store.",
		prove: func(t *testing.T, h *Harness) {
			one, _ := h.pair(t)
			one.acquire(theLock, 9)
			one.release(theLock, 9, true)
			one.acquire("orders/43", 1)
		},
	},
	{
		name: "great numbers are told apart",
		says: "at least 1, at most 2^63-1; grows with each tenure of an agent on a lock",
		prove: func(t *testing.T, h *Harness) {
			const greatest = 1<<63 - 1
			one, _ := h.pair(t)
			one.acquire(theLock, greatest-1)
			one.release(theLock, greatest-1, true)
			one.withdrawn(theLock, greatest-2)
			one.acquire(theLock, greatest)
			one.sees(theLock, one.tenure(greatest).String())
			one.release(theLock, greatest, true)
			one.withdrawn(theLock, greatest)
		},
	},
	{
		name: "late calls leave a later tenure of the agent alone",
		says: "A repeated or late call can therefore never touch another tenure than its own.",
		prove: func(t *testing.T, h *Harness) {
			one, _ := h.pair(t)
			one.acquire(theLock, 1)
			one.release(theLock, 1, true)
			one.acquire(theLock, 2)
			one.lateCalls(theLock, 1)
			if left := one.sees(theLock, one.tenure(2).String()).Remaining; left > minute {
				t.Errorf("%v left of a lease of %v after a late renewal", left, minute)
			}
		},
	},
	{
		name: "late calls leave another agent alone",
		says: "A repeated or late call can therefore never touch another tenure than its own.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			one.release(theLock, 1, true)
			two.acquire(theLock, 1)
			one.lateCalls(theLock, 1)
			if left := two.sees(theLock, two.tenure(1).String()).Remaining; left > minute {
				t.Errorf("%v left of a lease of %v after a late renewal", left, minute)
			}
		},
	},
}

// withdrawn acquires and expects to hear that the tenure was released before.
func (p *party) withdrawn(name lockagent.Name, number uint64) {
	p.t.Helper()
	if reply, err := p.try(p.wish(name, number)); !errors.Is(err, lockagent.ErrWithdrawn) || reply.Granted {
		p.t.Fatalf("Acquire(%s) = %+v, %v; want ErrWithdrawn", p.tenure(number), reply, err)
	}
}

// lateCalls makes all calls again that there were for a tenure which was released.
func (p *party) lateCalls(name lockagent.Name, number uint64) {
	p.t.Helper()
	p.withdrawn(name, number)
	if reply := p.renew(name, number, time.Hour); reply.Held {
		p.t.Errorf("Renew(%s) = %+v; want Held false", p.tenure(number), reply)
	}
	p.release(name, number, true) // the reply of the first release
}
