package storetest

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

var passClauses = []clause{
	{
		name: "a release passes the lock on to who has waited longest",
		says: "A Release then passes the lock on to the tenure that has waited longest, in the same instant, and tells that one only",
		prove: func(t *testing.T, h *Harness) {
			const rounds = 3
			line := h.line(t, 3)
			ring := append(line.others, &waiter{line.one, line.one.subscribe(theLock)})
			from, number, last := line.one, uint64(1), lockagent.Token(0)
			for i := range rounds * len(ring) {
				to, next := ring[i%len(ring)], uint64(1+i/len(ring))
				if to.party == line.one {
					next++
				}
				woken := make([]int, len(ring))
				for j, w := range ring {
					woken[j] = w.sub.Count()
				}
				released := from.release(theLock, number, true)
				pass, ok := to.sub.AwaitPass()
				if !ok || !released.Passed || released.Others != 0 || pass.Tenure != to.tenure(next) {
					t.Fatalf("Release = %+v; passed on %+v; want it passed on to %s", released, pass, to.tenure(next))
				}
				to.keep(next)
				to.sees(theLock, to.tenure(next).String())
				if pass.Token <= last || pass.Tokens != 1 {
					t.Errorf("pass %d has %d tokens from %d on, after %d", i, pass.Tokens, pass.Token, last)
				}
				for j, w := range ring {
					if w != to && (w.sub.Count() != woken[j] || len(w.sub.Passes) > 0) {
						t.Errorf("subscriber %d was woken by pass %d", j, i)
					}
				}
				from.queue(theLock, number+1, to.tenure(next)) // as the last
				from, number, last = to.party, next, pass.Token
			}
		},
	},
	{
		name: "the tenure begins when the other one ends",
		says: "as if that had acquired it at the same instant.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			before := one.incarnation(1)
			released := one.release(theLock, 1, true)
			pass, ok := two.sub.AwaitPass()
			if !ok {
				return
			}
			if pass.At != released.At {
				t.Errorf("released at %d, and passed on at %d", released.At, pass.At)
			}
			if pass.Incarnation != before {
				t.Errorf("passed on by incarnation %q of %q", pass.Incarnation, before)
			}
		},
	},
	{
		name: "tokens begin above the last one and no lower than the clock",
		says: "They begin above the last one of the lock, and no lower than the clock.",
		prove: func(t *testing.T, h *Harness) {
			const tokens = 1_000_000 // ahead of any clock that counts in microseconds
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			more := one.wish(theLock, 1)
			more.Tokens = tokens
			last := one.get(more).Token + tokens - 1
			if pass := line.passes(one, 1, two); pass.Token <= last || pass.Token < lockagent.Token(pass.At) {
				t.Errorf("passed on with token %d at %d, after %d", pass.Token, pass.At, last)
			} else if again := two.acquire(theLock, 1); again.Token <= pass.Token {
				t.Errorf("token %d after %d was passed on", again.Token, pass.Token)
			}
		},
	},
	{
		name: "the lease is short",
		says: "for [PassLease], with as many tokens as were asked for.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			pass := line.passes(one, 1, two)
			if pass.Lease != lockagent.PassLease {
				t.Errorf("passed on for %v, want %v", pass.Lease, lockagent.PassLease)
			}
			if left := one.inspect(theLock).Remaining; left > lockagent.PassLease {
				t.Errorf("%v left of a lease of %v", left, lockagent.PassLease)
			}
			if !AwaitFree(t, one.store, theLock) {
				return
			}
			next := one.acquire(theLock, 2)
			notBefore(t, lockagent.PassLease, lockagent.AcquireReply{At: pass.At}, next)
			if next.Token <= pass.Token {
				t.Errorf("token %d after %d was passed on", next.Token, pass.Token)
			}
		},
	},
	{
		name: "who was passed the lock can renew it",
		says: "Renew starts the lease of a tenure anew.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			line.passes(one, 1, two)
			two.keep(1)
			if left := one.sees(theLock, two.tenure(1).String()).Remaining; left <= lockagent.PassLease {
				t.Errorf("%v left of a lease that was renewed for %v", left, minute)
			}
		},
	},
	{
		name: "who missed the pass is granted the lock",
		says: "the tenure then has the lock all the same, and its next Acquire is granted.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			if released := one.release(theLock, 1, true); !released.Passed {
				t.Fatalf("Release = %+v; want the lock passed on", released)
			}
			two.acquire(theLock, 1)
			if left := one.sees(theLock, two.tenure(1).String()).Remaining; left <= lockagent.PassLease {
				t.Errorf("%v left of a lease of %v", left, minute)
			}
			two.release(theLock, 1, true)
		},
	},
	{
		name: "a repeated release has the same reply and passes nothing on",
		says: "Repeated, it has the same reply.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 2)
			one, two := line.one, line.others[0]
			first := one.release(theLock, 1, true)
			if again := one.release(theLock, 1, true); again != first || !again.Passed {
				t.Errorf("Release = %+v, and repeated %+v", first, again)
			}
			two.sees(theLock, two.tenure(1).String())
		},
	},
	{
		name: "who waits outside of the queue is not passed over",
		says: "if nobody waits outside of the queue: there are no more Stores subscribed to the lock, other than the releaser's own, than other Stores have tenures in the queue.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 2)
			one, two := line.one, line.others[0]
			outside := newParty(t, h.open(t))
			sub := outside.subscribe(theLock)
			line.wakes(one, 1)
			sub.Await()
			outside.acquire(theLock, 1) // the queue is as it was
			line.passes(outside, 1, two)
		},
	},
	{
		name: "who waits outside of the queue is not passed over, though a Store has two places",
		says: "than other Stores have tenures in the queue.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			newParty(t, line.others[0].store).queue(theLock, 1, line.one.tenure(1))
			newParty(t, h.open(t)).subscribe(theLock)
			line.wakes(line.one, 1)
		},
	},
	{
		name: "places of the releaser's own Store do not count",
		says: "no more Stores subscribed to the lock, other than the releaser's own, than other Stores have tenures in the queue.",
		prove: func(t *testing.T, h *Harness) {
			h.needsQueue(t)
			one, own := newParty(t, h.Store), newParty(t, h.Store)
			sub := own.subscribe(theLock)
			one.acquire(theLock, 1)
			own.queue(theLock, 1, one.tenure(1))
			outside := newParty(t, h.open(t)).subscribe(theLock)
			if released := one.release(theLock, 1, true); released.Passed {
				t.Errorf("%+v: passed on within one Store, over who waits outside of the queue", released)
			}
			sub.Await()
			outside.Await()
		},
	},
	{
		name: "subscriptions of the releaser's own do not count",
		says: "there are no more Stores subscribed to the lock, other than the releaser's own, than other Stores have tenures in the queue.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			one.subscribe(theLock)
			one.subscribe(theLock)
			line.passes(one, 1, two)
		},
	},
	{
		name: "a break passes nothing on",
		says: "Break, the end of a lease and a reset pass nothing on",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			one.breaks(theLock, true)
			two.sub.Await()
			one.sees(theLock, "")
			// The queue is as it was.
			one.acquire(theLock, 2)
			line.passes(one, 2, two)
		},
	},
	{
		name: "the end of a lease passes nothing on",
		says: "Break, the end of a lease and a reset pass nothing on",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			sub := one.subscribe(theLock)
			line.passes(one, 1, two)
			one.queue(theLock, 2, two.tenure(1))
			if !AwaitFree(t, two.store, theLock) {
				return
			}
			two.release(theLock, 1, false) // of what is over
			two.sees(theLock, "")
			one.acquire(theLock, 2)
			if len(sub.Passes) > 0 {
				t.Errorf("%+v was passed on", <-sub.Passes)
			}
		},
	},
	{
		name: "the release of another tenure passes nothing on",
		says: "A Release of a tenure that has the lock passes it on",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 2)
			one, two := line.one, line.others[0]
			if released := two.release(theLock, 1, false); released.Passed {
				t.Errorf("Release of a tenure that waited = %+v", released)
			}
			one.sees(theLock, one.tenure(1).String())
		},
	},
	{
		name: "one tenure at a time has a lock that is passed on",
		says: "One owner at a time holds a lock as long as clocks run at about the same rate",
		prove: func(t *testing.T, h *Harness) {
			h.needsQueue(t)
			h.visitAll(t, []*place{{name: theLock}}, (*party).visitInTurn)
		},
	},
}

// keep renews a tenure for as long as the case takes.
func (p *party) keep(number uint64) {
	p.t.Helper()
	reply, err := Renew(p.t, p.store, lockagent.RenewRequest{Name: theLock, Tenure: p.tenure(number), Lease: minute, Urgent: true})
	if err != nil || !reply.Held {
		p.t.Fatalf("Renew(%s) = %+v, %v; want it held", p.tenure(number), reply, err)
	}
}

// visitInTurn is [party.visit] by the queue.
func (p *party) visitInTurn(place *place, number uint64) bool {
	sub := Subscribe(p.t, p.store, place.name)
	defer sub.Cancel()
	overdue := time.NewTimer(Patience)
	defer overdue.Stop()
	for {
		reply, err := p.try(queueing(p.wish(place.name, number)))
		if err != nil {
			p.t.Errorf("Acquire: %v", err)
			return false
		}
		if reply.Granted {
			return p.enter(place, number, reply)
		}
		again := time.NewTimer(100 * time.Millisecond)
		select {
		case <-sub.C:
		case pass := <-sub.Passes:
			if pass.Tenure == p.tenure(number) {
				again.Stop()
				return p.enter(place, number, lockagent.AcquireReply{Granted: true, Token: pass.Token, At: pass.At})
			}
		case <-again.C:
		case <-overdue.C:
			p.t.Errorf("lock %q was not free for %v", place.name, Patience)
			return false
		}
		again.Stop()
	}
}
