package storetest

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// outsiderClauses are about programs that wait for a lock and do not know of its queue.
var outsiderClauses = []clause{
	{
		name: "outsiders get their turn, and agents the others",
		says: "While outsiders wait, some releases are for them: such a Release frees the lock, wakes all waiters, and " +
			"keeps the lock from agents for a moment.",
		prove: func(t *testing.T, h *Harness) {
			sub := h.outsider(t)
			ring := h.ring(t, 3)
			turns, passes := 0, 0
			for range 100 {
				before := sub.Count()
				if ring.release() {
					passes++
					continue
				}
				turns++
				if sub.Count() == before && !sub.Await() {
					return
				}
				last := ring.all[ring.holder]
				last.comesIn(last.wish(theLock, ring.numbers[ring.holder]))
			}
			if turns == 0 || passes == 0 {
				t.Errorf("of 100 releases %d passed the lock and %d were for the outsiders; want both", passes, turns)
			}
		},
	},
	{
		name: "the lock is kept from the agents for a moment",
		says: "While the store keeps the lock for outsiders, Holder is empty, and Remaining is until the store no longer " +
			"does.",
		prove: func(t *testing.T, h *Harness) {
			h.outsider(t)
			ring := h.ring(t, 2)
			eventually(t, "a lock that is free is kept from an agent", func() bool {
				if ring.release() {
					return false
				}
				first := ring.all[0]
				reply, err := first.try(first.queueing(theLock, ring.numbers[0]))
				if err != nil || reply.Granted != (reply.Remaining == 0) || reply.Remaining > time.Second || reply.Holder != "" {
					t.Errorf("Acquire of a lock that is free = %+v, %v", reply, err)
				}
				kept := !reply.Granted
				first.comesIn(first.wish(theLock, ring.numbers[0]))
				ring.holder = 0
				return kept || t.Failed()
			})
		},
	},
	{
		name: "another program can have the lock meanwhile",
		says: "such a Release frees the lock, wakes all waiters, and keeps the lock from agents for a moment.",
		prove: func(t *testing.T, h *Harness) {
			h.outsider(t)
			ring := h.ring(t, 2)
			eventually(t, "it is the outsiders' turn", func() bool { return !ring.release() })
			h.plantHolder(t, 1, minute)
			ring.all[0].refused(theLock, ring.numbers[0], stranger)
		},
	},
	{
		name: "outsiders are counted",
		says: "Outsiders is the number of outsiders that wait, if the request asked for a place or for a tenure that may " +
			"rest. The store may not see all of them.",
		prove: func(t *testing.T, h *Harness) {
			h.outsider(t)
			h.outsiders(t, 1)
		},
	},
	{
		name: "an agent with a place is no outsider",
		says: "Outsiders is the number of outsiders that wait, if the request asked for a place or for a tenure that may " +
			"rest. The store may not see all of them.",
		prove: func(t *testing.T, h *Harness) {
			h.outsiders(t, 0)
		},
	},
}

// outsiders expects the replies and messages to agents to count at most that many outsiders.
func (h *Harness) outsiders(t *testing.T, most int) {
	t.Helper()
	one, two := h.pair(t)
	one.subscribe(theLock)
	two.subscribe(theLock)
	count := func(what string, n int) {
		t.Helper()
		if n < 0 || n > most {
			t.Errorf("%s tells of %d outsiders; want %d at most", what, n, most)
		}
	}
	count("a grant", one.get(one.queueing(theLock, 1)).Outsiders)
	count("a place", two.queue(theLock, 1, one.tenure(1)).Outsiders)
	if n := two.refused(theLock, 1, one.tenure(1).String()).Outsiders; n != 0 {
		t.Errorf("%d outsiders, for a request that did not ask", n)
	}
	if one.release(theLock, 1, true).Passed { // or it is the outsiders' turn
		count("a pass", two.hears(lockagent.MessagePassed, 1).Outsiders)
	}
}

// outsider makes an outsider wait for theLock.
func (h *Harness) outsider(t *testing.T) *Subscription {
	t.Helper()
	if h.PlantOutsider == nil {
		t.Skip("the harness cannot have another program wait")
	}
	sub, wake := newSubscription(t, theLock)
	h.PlantOutsider(t, theLock, wake)
	return sub
}

// ring is a group of agents that acquire theLock over and over. One of them has the lock, and
// the others have places in the queue.
type ring struct {
	t       *testing.T
	all     []*party
	subs    []*Subscription
	numbers []uint64 // of their tenures
	holder  int
	passed  lockagent.Message // the last
}

func (h *Harness) ring(t *testing.T, n int) *ring {
	t.Helper()
	r := &ring{t: t, all: h.agents(t, n), numbers: make([]uint64, n)}
	for i, p := range r.all {
		r.subs = append(r.subs, p.subscribe(theLock))
		r.numbers[i] = 1
		if i > 0 {
			p.queue(theLock, 1, r.all[0].tenure(1))
			continue
		}
		p.acquire(theLock, 1)
	}
	return r
}

// release ends the holder's tenure, and reports whether the lock was passed. If it was, the
// former holder takes a place again.
func (r *ring) release() bool {
	r.t.Helper()
	from := r.holder
	released := r.all[from].release(theLock, r.numbers[from], true)
	r.numbers[from]++
	if !released.Passed {
		return false
	}
	if released.Others != 0 {
		r.t.Errorf("Release = %+v; want nobody woken by a pass", released)
	}
	holder := r.all[from].inspect(theLock).Holder
	for i, p := range r.all {
		if tenure := p.tenure(r.numbers[i]); tenure.String() == holder {
			r.passed = p.hears(lockagent.MessagePassed, r.numbers[i])
			p.keep(r.numbers[i])
			r.holder = i
			r.all[from].queue(theLock, r.numbers[from], tenure)
			return true
		}
	}
	r.t.Fatalf("the lock was passed to %q, which did not wait", holder)
	return false
}

// comesIn acquires a free lock as soon as the store no longer keeps it for outsiders.
func (p *party) comesIn(req lockagent.AcquireRequest) {
	p.t.Helper()
	granted := poll(func() (again time.Duration, done bool) {
		reply, err := p.try(req)
		if !reply.Granted && (err != nil || reply.Holder != "" || reply.Remaining <= 0) {
			p.t.Fatalf("Acquire(%s) of a lock that is free = %+v, %v", req.Tenure, reply, err)
		}
		return reply.Remaining, reply.Granted // no message or wake-up says when the lock is no longer kept
	})
	if !granted {
		p.t.Fatalf("a lock that is free was kept from agents for %v", Patience)
	}
}

// keep renews a tenure, for longer than the case takes.
func (p *party) keep(number uint64) {
	p.t.Helper()
	req := p.renewal(theLock, number, minute)
	req.Urgent = true
	reply, err := Renew(p.t, p.store, req)
	if err != nil || !reply.Held {
		p.t.Fatalf("Renew(%s) = %+v, %v; want it held", p.tenure(number), reply, err)
	}
}
