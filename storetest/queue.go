package storetest

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// queueClauses are about how a tenure gets and loses its place. A pass shows who has one.
var queueClauses = []clause{
	{
		name: "a tenure that finds the lock busy is queued if it asks for that",
		says: "An Acquire that asks for a place and finds the lock busy gives its tenure a place.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			two.subscribe(theLock)
			if reply := one.get(one.queueing(theLock, 1)); reply.Queued {
				t.Errorf("%+v: queued for a lock that it was granted", reply)
			}
			if reply := two.refused(theLock, 1, one.tenure(1).String()); reply.Queued {
				t.Errorf("%+v: queued without having asked for it", reply)
			}
			if released := one.release(theLock, 1, true); released.Passed {
				t.Errorf("%+v: passed to nobody", released)
			}
			one.acquire(theLock, 2)
			two.queue(theLock, 1, one.tenure(2))
			two.queue(theLock, 1, one.tenure(2))
		},
	},
	{
		name: "the holder is told that it is wanted",
		says: "MessageWanted: another agent waits for the lock that this tenure has.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			two.subscribe(theLock)
			for number := uint64(1); number <= rounds; number++ {
				one.acquire(theLock, number)
				two.queue(theLock, number, one.tenure(number))
				one.hears(lockagent.MessageWanted, number)
				one.release(theLock, number, true)
				two.release(theLock, number, true)
			}
		},
	},
	{
		name: "a tenure that asks again keeps its place",
		says: "Another Acquire of that tenure keeps the place.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 2)
			one, two, three := line.one, line.others[0], line.others[1]
			two.queue(theLock, 1, one.tenure(1))
			line.passes(one, 1, two)
			line.passes(two.party, 1, three) // and two has no second place
		},
	},
	{
		name: "a tenure that is granted the lock loses its place",
		says: "an Acquire of the tenure is granted;",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			one.breaks(theLock, true)
			two.get(two.queueing(theLock, 1))
			two.breaks(theLock, true)
			one.acquire(theLock, 2)
			line.wakes(one, 2)
		},
	},
	{
		name: "a tenure that is passed the lock loses its place",
		says: "a Release passes the lock to the tenure;",
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
		name: "a tenure that is released loses its place",
		says: "the tenure is released;",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 2)
			one, two, three := line.one, line.others[0], line.others[1]
			two.release(theLock, 1, false)
			three.withdraws(theLock, 1)
			three.withdrawn(theLock, 1)
			line.wakes(one, 1) // both still subscribe, but have no places
		},
	},
	{
		name: "no lock is passed to an agent that does not listen",
		says: "If no agent in the queue listens, the lock is free and all waiters are woken.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, dead := line.one, line.others[0]
			sub := one.subscribe(theLock)
			dead.messages.Cancel()
			woken := 0
			eventually(t, "the lock is not passed", func() bool {
				woken = sub.Count()
				passed := one.release(theLock, line.latest, true).Passed
				if passed {
					line.again(dead)
				}
				return !passed
			})
			eventually(t, "everybody is woken", func() bool {
				one.sees(theLock, "")
				return sub.Count() > woken
			})
		},
	},
	{
		name: "a crowd of the dead holds nobody up",
		says: "The tenures before that one lose their places.",
		prove: func(t *testing.T, h *Harness) {
			const crowd = 12
			line := h.line(t, crowd+1)
			one, living := line.one, line.others[crowd]
			for _, dead := range line.others[:crowd] {
				dead.close()
			}
			// A release may look at a few places only.
			eventually(t, "the lock is passed to who listens", func() bool {
				released := one.release(theLock, line.latest, true)
				reached := released.Passed && one.inspect(theLock).Holder == living.tenure(1).String()
				if !reached {
					line.again()
				}
				return reached
			})
			living.hears(lockagent.MessagePassed, 1)
			if released := living.release(theLock, 1, true); released.Passed {
				t.Errorf("Release = %+v; want that the dead have no places", released)
			}
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
				t.Errorf("%+v: passed to one who waits for another lock", released)
			}
			line.passes(one, 1, two)
		},
	},
	{
		name: "who waits for another program is to ask again",
		says: "Or another program has the lock, and may release it without a wake-up.",
		prove: func(t *testing.T, h *Harness) {
			h.plantHolder(t, 1, minute)
			one := h.agent(t)
			one.subscribe(theLock)
			holder, _ := lockagent.ParseTenure(stranger)
			if within := one.queue(theLock, 1, holder).AskWithin; within <= 0 || within > time.Second {
				t.Errorf("it is to ask again within %v; want a second at most", within)
			}
		},
		except: []lockagent.LockKind{lockagent.ReadWriteLock}, // other programs always wake its waiters
	},
	{
		name: "who waits for an agent need not ask",
		says: "So nobody has to ask if the holder's identity is of [NewAgentID].",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			silent := *one // an agent that has never waited, and whose messages go to another server, or to nobody
			silent.id = lockagent.NewAgentID()
			silent.acquire(theLock, 1)
			two.subscribe(theLock)
			if within := two.queue(theLock, 1, silent.tenure(1)).AskWithin; within != 0 {
				t.Errorf("it is to ask again within %v", within)
			}
		},
		except: []lockagent.LockKind{lockagent.FairLock}, // its places are kept by asking
	},
}

// line is theLock with a holder, tenure 1 of one, and with others in its queue.
type line struct {
	t      *testing.T
	one    *party
	others []*waiter
	latest uint64 // the last number of one's tenures
}

// waiter is an agent that has subscribed to the lock.
type waiter struct {
	*party
	sub *Subscription
}

// line makes a line.
func (h *Harness) line(t *testing.T, others int) *line {
	t.Helper()
	h.needs(t, withQueue)
	l := &line{t: t, one: h.agent(t), latest: 1}
	l.one.acquire(theLock, 1)
	for range others {
		w := &waiter{party: h.agent(t)}
		w.sub = w.subscribe(theLock)
		w.queue(theLock, 1, l.one.tenure(1))
		l.others = append(l.others, w)
	}
	return l
}

// passes releases a tenure, and expects the lock to be passed to tenure 1 of another agent.
func (l *line) passes(from *party, number uint64, to *waiter) lockagent.Message {
	l.t.Helper()
	released := from.release(theLock, number, true)
	if !released.Passed || released.Others != 0 {
		l.t.Fatalf("Release(%s) = %+v; want the lock passed and nobody woken", from.tenure(number), released)
	}
	to.sees(theLock, to.tenure(1).String())
	return to.hears(lockagent.MessagePassed, 1)
}

// wakes releases a tenure, and expects that the lock is free and all waiters are woken.
func (l *line) wakes(from *party, number uint64) {
	l.t.Helper()
	if released := from.release(theLock, number, true); released.Passed {
		l.t.Fatalf("Release(%s) = %+v; want the lock not to be passed", from.tenure(number), released)
	}
	for _, w := range l.others {
		w.sub.Await()
	}
	l.one.sees(theLock, "")
}

// again breaks the lock. Then the first agent acquires it by its next tenure, and the waiters
// take places in this order.
func (l *line) again(waiters ...*waiter) {
	l.t.Helper()
	if _, err := breakLock(l.t, l.one.store, l.one.breaking(theLock)); err != nil {
		l.t.Fatalf("Break: %v", err)
	}
	l.latest++
	l.one.comesIn(l.one.wish(theLock, l.latest))
	for _, w := range waiters {
		w.release(theLock, 1, false)
		w.queue(theLock, 1, l.one.tenure(l.latest))
	}
}

// queue acquires, and expects that holder has the lock and that the tenure gets a place.
func (p *party) queue(name lockagent.Name, number uint64, holder lockagent.Tenure) lockagent.AcquireReply {
	p.t.Helper()
	reply, err := p.try(p.queueing(name, number))
	if err != nil || reply.Granted || reply.Holder != holder.String() || !reply.Queued {
		p.t.Fatalf("Acquire(%s) = %+v, %v; want it queued, because of holder %q", p.tenure(number), reply, err, holder)
	}
	return reply
}
