package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// fairClauses are about what a fair lock has beyond a plain one.
var fairClauses = []clause{
	{
		name: "places are granted in the order of their arrival",
		says: "FairLock is a lock that is granted in the order in which its waiters came, in all agents.",
		prove: func(t *testing.T, h *Harness) {
			f := h.fairQueue(t)
			for range rounds {
				f.wait(1, 0, 0, 1, 0)
				for len(f.waiting) > 0 {
					f.next()
				}
			}
		},
	},
	{
		name: "a tenure that asks again keeps its place",
		says: "A place is kept by asking, see [AcquireReply].AskWithin.",
		prove: func(t *testing.T, h *Harness) {
			f := h.fairQueue(t)
			f.wait(1, 0, 1)
			for _, s := range slices.Backward(f.waiting) {
				if reply := s.queue(theLock, s.number, f.holder.tenure()); reply.AskWithin <= 0 {
					t.Errorf("%+v; want to know how the place is kept", reply)
				}
			}
			for len(f.waiting) > 0 {
				f.next()
			}
		},
	},
	{
		name: "a place that was lost comes back",
		says: "A [FairLock] that has lost the place of the tenure puts it just before the first tenure that came later",
		prove: func(t *testing.T, h *Harness) {
			f := h.fairQueue(t)
			f.wait(1, 0)
			lost := f.seat(1)
			req := lost.queueing(theLock, lost.number)
			req.Arrived = 1 // long ago
			if reply, err := lost.try(req); err != nil || !reply.Queued {
				t.Fatalf("Acquire(%s) = %+v, %v; want it queued", req.Tenure, reply, err)
			}
			f.waiting = slices.Insert(f.waiting, 0, lost)
			for len(f.waiting) > 0 {
				f.next()
			}
		},
	},
	{
		name: "nobody overtakes when a lease is over",
		says: "Such a call may be a Release, a Break, or an Acquire of another tenure, which then finds the lock busy.",
		prove: func(t *testing.T, h *Harness) {
			h.needs(t, withQueue) // otherwise the lease of a pass is not there to end
			f := h.fairQueue(t)
			f.wait(1, 0)
			first, second := f.waiting[0], f.waiting[1]
			f.end()
			first.sees(theLock, first.tenure().String())
			if !first.awaitFree(theLock) { // it does not take up what it was passed
				return
			}
			newcomer := f.seat(1)
			newcomer.refused(theLock, newcomer.number, second.tenure().String())
			second.hears(lockagent.MessagePassed, second.number)
			second.get(second.queueing(theLock, second.number))
		},
	},
	{
		name: "a break hands the lock on",
		says: "the call that frees the lock, or comes upon a free lock, passes it on.",
		prove: func(t *testing.T, h *Harness) {
			f := h.fairQueue(t)
			f.wait(1, 0)
			f.agents[1].breaks(theLock, true)
			f.agents[0].hears(lockagent.MessageBroken, f.holder.number)
			f.takesUp()
			f.next()
		},
	},
	{
		name: "a place that is given up is gone",
		says: "the tenure is released;",
		prove: func(t *testing.T, h *Harness) {
			f := h.fairQueue(t)
			f.wait(1, 1, 0, 1)
			gone, withdrawn := f.waiting[0], f.waiting[2]
			for range 2 { // the reply may have been lost
				gone.release(theLock, gone.number, false)
				withdrawn.withdraws(theLock, withdrawn.number)
			}
			withdrawn.withdrawn(theLock, withdrawn.number)
			f.waiting = []fairSeat{f.waiting[1], f.waiting[3]}
			f.next()
			f.next()
		},
	},
	{
		name: "the dead hold nobody up",
		says: "A free lock is for the first place whose program lives.",
		prove: func(t *testing.T, h *Harness) {
			h.needs(t, withQueue) // other stores know by their clock alone
			f := h.fairQueue(t)
			dead := h.agent(t)
			dead.subscribe(theLock)
			f.agents = append(f.agents, dead)
			dead.messages.Cancel()
			// The store may learn of the end of Listen after a while.
			eventually(t, "the lock passes to who listens", func() bool {
				f.waiting = nil
				f.wait(2, 1)
				f.end()
				reached := f.agents[0].inspect(theLock).Holder == f.waiting[1].tenure().String()
				for _, s := range f.waiting {
					s.answered(Release(t, s.store, s.ending(theLock, s.number)))
				}
				f.holder = f.seat(0)
				f.holder.acquire(theLock, f.holder.number)
				return reached
			})
		},
	},
	{
		name: "a free lock is left to another program that is first",
		says: "If the first place is theirs, the store tells them, and keeps the lock for them for some seconds.",
		prove: func(t *testing.T, h *Harness) {
			if h.PlantWaiter == nil {
				t.Skip("the harness cannot have another program wait")
			}
			f := h.fairQueue(t)
			told := make(chan struct{}, 1)
			h.PlantWaiter(t, theLock, time.Hour, func() {
				select {
				case told <- struct{}{}:
				default:
				}
			})
			f.wait(1)
			first := f.waiting[0]
			if reply := first.queue(theLock, first.number, f.holder.tenure()); reply.Outsiders == 0 {
				t.Errorf("%+v; want an outsider ahead", reply)
			}
			if released := f.holder.release(theLock, f.holder.number, true); released.Passed || released.Others > 0 {
				t.Errorf("Release = %+v; want the lock left to another program", released)
			}
			<-told
			f.agents[0].sees(theLock, "")
			reply, err := first.try(first.queueing(theLock, first.number))
			if err != nil || reply.Granted || !reply.Queued || reply.Holder != "" || reply.Remaining <= 0 ||
				reply.Remaining > minute {
				t.Errorf("Acquire = %+v, %v; want the lock kept for a while", reply, err)
			}
		},
	},
}

// fairQueue is theLock as a fair lock, with a holder and tenures that wait for it.
type fairQueue struct {
	t       *testing.T
	agents  []*party
	latest  uint64
	holder  fairSeat
	waiting []fairSeat
}

// fairSeat is a tenure.
type fairSeat struct {
	*party
	number uint64
}

func (s fairSeat) tenure() lockagent.Tenure { return s.party.tenure(s.number) }

// fairQueue makes a queue in which the first of two agents has the lock.
func (h *Harness) fairQueue(t *testing.T) *fairQueue {
	t.Helper()
	f := &fairQueue{t: t, agents: h.agents(t, 2)}
	for _, p := range f.agents {
		p.subscribe(theLock)
	}
	f.holder = f.seat(0)
	f.holder.acquire(theLock, f.holder.number)
	return f
}

// seat is the next tenure of an agent.
func (f *fairQueue) seat(agent int) fairSeat {
	f.latest++
	return fairSeat{f.agents[agent], f.latest}
}

// wait has tenures of agents wait, one after the other.
func (f *fairQueue) wait(agents ...int) {
	f.t.Helper()
	for _, agent := range agents {
		s := f.seat(agent)
		reply, err := s.try(s.queueing(theLock, s.number))
		if err != nil || reply.Granted || !reply.Queued {
			f.t.Fatalf("Acquire(%s) = %+v, %v; want it queued", s.tenure(), reply, err)
		}
		f.waiting = append(f.waiting, s)
	}
}

// end releases the lock.
func (f *fairQueue) end() {
	f.t.Helper()
	f.holder.release(theLock, f.holder.number, true)
}

// asks reports whether the tenure has the lock when it asks.
func (f *fairQueue) asks(s fairSeat) bool {
	f.t.Helper()
	reply, err := s.try(s.queueing(theLock, s.number))
	if err != nil {
		f.t.Fatalf("Acquire(%s): %v", s.tenure(), err)
	}
	return reply.Granted
}

// next releases the lock, and expects the first one that waits to have it.
func (f *fairQueue) next() {
	f.t.Helper()
	f.end()
	f.takesUp()
}

// takesUp expects the first one that waits to have the lock. If it was passed, the message says so.
// Otherwise those behind are refused, and it is granted the lock.
func (f *fairQueue) takesUp() {
	f.t.Helper()
	first := f.waiting[0]
	if first.inspect(theLock).Held {
		first.hears(lockagent.MessagePassed, first.number)
	}
	f.waiting = f.waiting[1:]
	for _, later := range slices.Backward(f.waiting) {
		if f.asks(later) {
			f.t.Fatalf("%s has the lock before %s", later.tenure(), first.tenure())
		}
	}
	first.get(first.queueing(theLock, first.number))
	first.sees(theLock, first.tenure().String())
	f.holder = first
}
