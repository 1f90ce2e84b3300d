package storetest

import (
	"testing"

	"github.com/lockagent/lockagent"
)

// readWriteRestClauses are about shared tenures that may rest.
var readWriteRestClauses = []clause{
	{
		name: "shared tenures may rest, and others join them without a word",
		says: "A tenure that joins them tells nobody.",
		prove: func(t *testing.T, h *Harness) {
			c := h.crowd(t, 4)
			one, two, three, writer := c[0], c[1], c[2], c[3]
			one.mayRest(1)
			two.mayRest(1)
			three.read(1)
			two.release(theLock, 1, true)
			three.release(theLock, 1, true)
			one.release(theLock, 1, true)
			one.mayRest(2)
			writer.meetsRest(1, one.tenure(2))
			one.hears(lockagent.MessageWanted, 2)
			if _, told := one.messages.Take(lockagent.MessageWanted, theLock, one.tenure(1)); told {
				t.Error("a reader that joined others told one of them that it wants the lock")
			}
		},
	},
	{
		name: "a writer tells all readers that may rest",
		says: "Whenever a tenure that may rest keeps an Acquire of another agent from the lock, the store sends a [MessageWanted] to its agent, also if that Acquire asks for no place.",
		prove: func(t *testing.T, h *Harness) {
			c := h.crowd(t, 4)
			one, two, three, writer := c[0], c[1], c[2], c[3]
			one.read(1)
			two.mayRest(1)
			three.mayRest(1)
			for range 2 {
				writer.meetsRest(1, one.tenure(1))
				two.hears(lockagent.MessageWanted, 1)
				three.hears(lockagent.MessageWanted, 1)
			}
			two.release(theLock, 1, true)
			three.has(1) // a renewal
			if reply := writer.refused(theLock, 1, one.tenure(1).String()); reply.Rests {
				t.Errorf("%+v: want no holder that may rest", reply)
			}
		},
	},
	{
		name: "a reader who has to wait tells them, too",
		says: "Whenever a tenure that may rest keeps an Acquire of another agent from the lock, the store sends a [MessageWanted] to its agent, also if that Acquire asks for no place.",
		prove: func(t *testing.T, h *Harness) {
			c := h.crowd(t, 3)
			one, two, writer := c[0], c[1], c[2]
			one.mayRest(1)
			writer.waits(1, lockagent.Exclusive)
			one.hears(lockagent.MessageWanted, 1)
			two.keptOut(1, one.tenure(1))
			one.hears(lockagent.MessageWanted, 1)
			one.passes(1, writer)
			writer.release(theLock, 1, true)
			writer.get(writer.resting(theLock, 2))
			two.keptOut(2, writer.tenure(2))
			writer.hears(lockagent.MessageWanted, 2)
		},
	},
	{
		name: "a shared tenure does not rest while others have places",
		says: "A tenure that begins may rest if no other one has a place in the queue, and no outsider waits.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one := line.one
			one.breaks(theLock, true) // which passes the lock to nobody
			if reply := one.get(shared(one.resting(theLock, 2), minute)); reply.Rests {
				t.Errorf("%+v: may rest, though another tenure waits", reply)
			}
		},
	},
	{
		name: "a shared tenure that is granted again is as it was",
		says: "A tenure that has the lock already stays as it is.",
		prove: func(t *testing.T, h *Harness) {
			c := h.crowd(t, 2)
			one, writer := c[0], c[1]
			one.read(1)
			if reply := one.get(shared(one.resting(theLock, 1), minute)); reply.Rests {
				t.Errorf("%+v: may rest, though others may have met it when it might not", reply)
			}
			if reply := writer.refused(theLock, 1, one.tenure(1).String()); reply.Rests {
				t.Errorf("%+v: want no holder that may rest", reply)
			}
			one.release(theLock, 1, true)
			one.mayRest(2)
			one.read(2) // a late call
			writer.meetsRest(2, one.tenure(2))
			one.hears(lockagent.MessageWanted, 2)
		},
	},
}

// mayRest begins a shared tenure that may rest.
func (p *party) mayRest(number uint64) {
	p.t.Helper()
	if reply := p.get(shared(p.resting(theLock, number), minute)); !reply.Rests {
		p.t.Fatalf("Acquire(%s) = %+v; want a tenure that may rest", p.tenure(number), reply)
	}
}

// meetsRest acquires, and expects that a holder may rest. The reply names the first of the holders.
func (p *party) meetsRest(number uint64, first lockagent.Tenure) {
	p.t.Helper()
	if reply := p.refused(theLock, number, first.String()); !reply.Rests {
		p.t.Errorf("Acquire(%s) = %+v; want a holder that may rest", p.tenure(number), reply)
	}
}
