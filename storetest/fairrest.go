package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// fairRestClauses are about tenures of fair locks that may rest.
var fairRestClauses = []clause{
	{
		name: "a tenure does not rest while others have places",
		says: "A tenure that begins may rest if no other one has a place in the queue, and no outsider waits.",
		prove: func(t *testing.T, h *Harness) {
			restBefore(t, h, func(f *fairQueue, short fairSeat) (early bool) {
				f.wait(1)
				return f.agents[1].inspect(theLock).Holder == short.tenure().String()
			})
		},
	},
	{
		name: "a tenure does not rest while another program has a place",
		says: "A tenure that begins may rest if no other one has a place in the queue, and no outsider waits.",
		prove: func(t *testing.T, h *Harness) {
			if h.PlantWaiter == nil {
				t.Skip("the harness cannot have another program wait")
			}
			restBefore(t, h, func(*fairQueue, fairSeat) (early bool) {
				h.PlantWaiter(t, theLock, time.Hour, func() {})
				return true // it has its place whenever it comes
			})
		},
	},
	{
		name: "a tenure does not rest soon after another program was told",
		says: "A tenure of a fair lock does not rest for a minute after an outsider in the queue was told that it is its turn.",
		prove: func(t *testing.T, h *Harness) {
			if h.PlantWaiter == nil {
				t.Skip("the harness cannot have another program wait")
			}
			h.needsQueue(t)
			one, _ := h.pair(t)
			number := uint64(1)
			if reply := one.get(one.resting(theLock, number)); !reply.Rests {
				t.Errorf("%+v: may not rest, and nobody waits", reply)
			}
			var reply lockagent.AcquireReply
			var told atomic.Bool
			eventually(t, "another program is told", func() bool {
				h.PlantWaiter(t, theLock, brief, func() { told.Store(true) })
				one.release(theLock, number, true)
				number++
				var err error
				granted := poll(func() (again time.Duration, done bool) {
					reply, err = one.try(one.resting(theLock, number))
					return reply.Remaining, err != nil || reply.Granted
				})
				if err != nil || !granted {
					t.Fatalf("%+v, %v: want the lock when the other program is gone", reply, err)
				}
				return told.Load()
			})
			if reply.Rests {
				t.Errorf("%+v: may rest", reply)
			}
		},
	},
	{
		name: "another tenure of the agent tells it nothing",
		says: "If the request was not granted, Rests says that the holder may rest, or one of several, and that its agent has been sent that message.",
		prove: func(t *testing.T, h *Harness) {
			h.needsQueue(t)
			one, two := h.pair(t)
			one.get(one.resting(theLock, 1))
			if reply := one.refused(theLock, 2, one.tenure(1).String()); reply.Rests {
				t.Errorf("%+v: says that the agent was told of its own tenure", reply)
			}
			one.release(theLock, 1, true)
			one.get(one.resting(theLock, 3))
			two.refused(theLock, 1, one.tenure(3).String())
			one.hears(lockagent.MessageWanted, 3)
			if _, told := one.messages.Take(lockagent.MessageWanted, theLock, one.tenure(1)); told {
				t.Error("the agent was told of its own tenure")
			}
		},
	},
}

// restBefore has the first tenure in the queue begin when a short lease is over. It asks to be one that may rest. So it
// may if it is alone, and not if others join it there. join tells whether they came before the lease was over.
func restBefore(t *testing.T, h *Harness, join func(f *fairQueue, short fairSeat) (early bool)) {
	t.Helper()
	h.needsQueue(t)
	f := h.fairQueue(t)
	for _, alone := range []bool{true, false} {
		var asks lockagent.AcquireRequest
		lease := brief
		eventually(t, "all have their places before the lease is over", func() bool {
			for _, s := range append(f.waiting, f.holder) {
				s.answered(Release(t, s.store, s.ending(theLock, s.number)))
			}
			f.waiting = nil
			short := f.seat(0)
			req := short.wish(theLock, short.number)
			req.Lease = lease
			lease *= 2
			short.get(req)
			f.holder = f.seat(0)
			asks = f.holder.resting(theLock, f.holder.number)
			asks.Queue = true
			reply, err := f.holder.try(asks)
			if err != nil {
				t.Fatalf("Acquire: %v", err)
			}
			return reply.Queued && (alone || join(f, short))
		})
		if !f.holder.awaitFree(theLock) {
			return
		}
		if reply := f.holder.get(asks); reply.Rests != alone {
			t.Errorf("%+v: may rest %t, want %t", reply, reply.Rests, alone)
		}
	}
}
