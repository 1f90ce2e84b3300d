package storetest

import (
	"errors"
	"testing"

	"github.com/lockagent/lockagent"
)

// What brings a tenure into the queue of a lock and out of it, which shows when the
// lock is passed on.
var queueClauses = []clause{
	{
		name: "a tenure that finds the lock busy is queued if it asks for that",
		says: "A tenure comes into the queue by an Acquire that asks for it and finds the lock busy.",
		prove: func(t *testing.T, h *Harness) {
			h.needsQueue(t)
			one, two := h.pair(t)
			two.subscribe(theLock)
			if reply := one.get(queueing(one.wish(theLock, 1))); reply.Queued {
				t.Errorf("%+v: queued for a lock that it was granted", reply)
			}
			if reply := two.refused(theLock, 1, one.tenure(1).String()); reply.Queued {
				t.Errorf("%+v: queued without having asked for it", reply)
			}
			if released := one.release(theLock, 1, true); released.Passed {
				t.Errorf("%+v: passed on to nobody", released)
			}
			one.acquire(theLock, 2)
			two.queue(theLock, 1, one.tenure(2))
			two.queue(theLock, 1, one.tenure(2))
			if reply := two.refused(theLock, 1, one.tenure(2).String()); !reply.Queued {
				t.Errorf("%+v: not queued any more", reply)
			}
		},
	},
	{
		name: "a store without a queue says that nobody is queued",
		says: "A store without a queue never says that it queued or passed on anything.",
		prove: func(t *testing.T, h *Harness) {
			if !h.NoQueue {
				t.Skip("the store has a queue")
			}
			one, two := h.pair(t)
			sub := two.subscribe(theLock)
			one.acquire(theLock, 1)
			if reply, err := two.try(queueing(two.wish(theLock, 1))); err != nil || reply.Granted || reply.Queued {
				t.Errorf("Acquire = %+v, %v; want it refused and not queued", reply, err)
			}
			if released := one.release(theLock, 1, true); released.Passed {
				t.Errorf("Release = %+v; want it not passed on", released)
			}
			sub.Await()
			two.acquire(theLock, 1)
		},
	},
	{
		name: "who asks again keeps the place",
		says: "It keeps its place when it asks again; the tokens of its newest request count.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 2)
			one, two, three := line.one, line.others[0], line.others[1]
			again := queueing(two.wish(theLock, 1))
			again.Tokens = 1000
			if reply, err := two.try(again); err != nil || !reply.Queued {
				t.Fatalf("Acquire = %+v, %v; want it queued", reply, err)
			}
			if pass := line.passes(one, 1, two); pass.Tokens != again.Tokens {
				t.Errorf("passed on with %d tokens, want %d", pass.Tokens, again.Tokens)
			}
			line.passes(two.party, 1, three) // and two has no second place
		},
	},
	{
		name: "who is granted the lock leaves",
		says: "It leaves the queue when it has been granted the lock",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			one.breaks(theLock, true)
			two.acquire(theLock, 1)
			two.breaks(theLock, true)
			one.acquire(theLock, 2)
			line.wakes(one, 2)
		},
	},
	{
		name: "who is passed the lock leaves",
		says: "when the lock is passed on to it",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			line.passes(one, 1, two)
			one.breaks(theLock, true)
			one.acquire(theLock, 2)
			line.wakes(one, 2)
		},
	},
	{
		name: "who is released leaves",
		says: "when it is released",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 2)
			one, two := line.one, line.others[0]
			two.release(theLock, 1, false)
			if reply, err := two.try(queueing(two.wish(theLock, 1))); !errors.Is(err, lockagent.ErrWithdrawn) {
				t.Errorf("Acquire(%s) = %+v, %v; want ErrWithdrawn", two.tenure(1), reply, err)
			}
			line.wakes(one, 1) // two is subscribed still, and has no place
		},
	},
	{
		name: "who has not subscribed leaves",
		says: "when the queue finds that its Store is not subscribed to the lock.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 2)
			one, two, three := line.one, line.others[0], line.others[1]
			two.release(theLock, 1, false)
			three.release(theLock, 1, false)
			two.sub.Cancel()
			// The store may hear of that only after a while.
			eventually(t, "the lock is passed on to who has subscribed still", func() bool {
				number := line.next(one)
				two.queue(theLock, number, one.tenure(number))
				three.queue(theLock, number, one.tenure(number))
				one.release(theLock, number, true)
				reached := one.inspect(theLock).Holder == three.tenure(number).String()
				two.release(theLock, number, !reached)
				three.release(theLock, number, true)
				return reached
			})
		},
	},
	{
		name: "nobody is passed the lock who is not there",
		says: "If there is none, the lock is free and everybody is woken.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			two.release(theLock, 1, false)
			two.sub.Cancel()
			sub := one.subscribe(theLock)
			released := func() lockagent.ReleaseReply {
				number := line.next(one)
				two.queue(theLock, number, one.tenure(number))
				reply := one.release(theLock, number, true)
				two.release(theLock, number, reply.Passed)
				return reply
			}
			eventually(t, "the lock is not passed on", func() bool { return !released().Passed })
			woken := sub.Count()
			if reply := released(); reply.Passed {
				t.Errorf("%+v: passed on to one who is not there", reply)
			}
			one.sees(theLock, "")
			eventually(t, "everybody is woken", func() bool {
				one.sees(theLock, "")
				return sub.Count() > woken
			})
		},
	},
	{
		name: "a lock that is free is granted, whoever waits",
		says: "The queue reserves nothing: an Acquire that finds the lock free is granted, whoever waits.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 2)
			one, two, three := line.one, line.others[0], line.others[1]
			one.breaks(theLock, true)
			three.acquire(theLock, 1)
			line.passes(three.party, 1, two)
		},
	},
	{
		name: "queues of different locks are apart",
		says: "A store may have a queue for each lock",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			one.acquire("another", 1)
			if released := one.release("another", 1, true); released.Passed {
				t.Errorf("%+v: passed on to one who waits for another lock", released)
			}
			line.passes(one, 1, two)
		},
	},
	{
		name: "a reset empties the queue",
		says: "a reset empties the queue.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			h.reset(t)
			line.one.acquire(theLock, 2)
			if released := line.one.release(theLock, 2, true); released.Passed {
				t.Errorf("%+v: passed on to one who waited before the reset", released)
			}
		},
	},
}

// line is a lock that one agent has, tenure 1, for which others wait in the queue.
type line struct {
	t      *testing.T
	one    *party
	others []*waiter
	latest uint64 // the last number of one's tenures that next has used
}

// waiter is an agent that has subscribed to the lock.
type waiter struct {
	*party
	sub *Subscription
}

// line is a skip if the store has no queue.
func (h *Harness) line(t *testing.T, others int) *line {
	t.Helper()
	h.needsQueue(t)
	l := &line{t: t, one: newParty(t, h.Store), latest: 1}
	l.one.acquire(theLock, 1)
	for range others {
		w := &waiter{party: newParty(t, h.open(t))}
		w.sub = w.subscribe(theLock)
		w.queue(theLock, 1, l.one.tenure(1))
		l.others = append(l.others, w)
	}
	return l
}

// needsQueue skips a case that is about queues, if the store has none.
func (h *Harness) needsQueue(t *testing.T) {
	t.Helper()
	if h.NoQueue {
		t.Skip("the store has no queue")
	}
}

// passes releases a tenure and expects the lock to be passed on to number 1 of
// another agent.
func (l *line) passes(from *party, number uint64, to *waiter) lockagent.Pass {
	l.t.Helper()
	released := from.release(theLock, number, true)
	if !released.Passed || released.Others != 0 {
		l.t.Fatalf("Release(%s) = %+v; want the lock passed on and nobody woken", from.tenure(number), released)
	}
	pass, ok := to.sub.AwaitPass()
	if !ok || pass.Tenure != to.tenure(1) {
		l.t.Fatalf("the lock was passed on as %+v; want %s", pass, to.tenure(1))
	}
	return pass
}

// wakes releases a tenure and expects the lock to be free, although there are some who
// wait.
func (l *line) wakes(from *party, number uint64) {
	l.t.Helper()
	if released := from.release(theLock, number, true); released.Passed {
		l.t.Fatalf("Release(%s) = %+v; want the lock not to be passed on", from.tenure(number), released)
	}
	for _, w := range l.others {
		w.sub.Await()
	}
	l.one.sees(theLock, "")
}

// next has an agent acquire the lock by its next tenure. The lock is made free for
// that.
func (l *line) next(p *party) uint64 {
	l.t.Helper()
	if _, err := Break(l.t, p.store, theLock); err != nil {
		l.t.Fatalf("Break: %v", err)
	}
	l.latest++
	p.acquire(theLock, l.latest)
	return l.latest
}

// queueing is a request that asks for a place in the queue.
func queueing(req lockagent.AcquireRequest) lockagent.AcquireRequest {
	req.Queue = true
	return req
}

// queue acquires, and expects that holder has the lock and the tenure gets a place
// in the queue.
func (p *party) queue(name lockagent.Name, number uint64, holder lockagent.Tenure) {
	p.t.Helper()
	reply, err := p.try(queueing(p.wish(name, number)))
	if err != nil || reply.Granted || reply.Holder != holder.String() || !reply.Queued {
		p.t.Fatalf("Acquire(%s) = %+v, %v; want it queued, because of holder %q", p.tenure(number), reply, err, holder)
	}
}
