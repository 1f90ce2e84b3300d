package storetest

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

var passClauses = []clause{
	{
		name: "a release passes the lock to the agent that has waited longest",
		says: "the tenures that wait for the lock, in the order of their arrival. A Release then passes the lock to one " +
			"of them at the same instant, and sends a message to the agent of that tenure alone.",
		prove: func(t *testing.T, h *Harness) {
			ring := h.ring(t, 4)
			last := lockagent.Token(0)
			for i := range rounds * len(ring.all) {
				woken := make([]int, len(ring.all))
				for j, sub := range ring.subs {
					woken[j] = sub.Count()
				}
				want := (ring.holder + 1) % len(ring.all)
				if !ring.release() || ring.holder != want {
					t.Fatalf("pass %d went to agent %d, want %d", i, ring.holder, want)
				}
				if ring.passed.Token <= last {
					t.Errorf("pass %d has token %d after %d", i, ring.passed.Token, last)
				}
				last = ring.passed.Token
				for j, p := range ring.all {
					_, told := p.messages.Take(lockagent.MessagePassed, theLock, p.tenure(ring.numbers[j]))
					if j != want && (told || ring.subs[j].Count() != woken[j]) {
						t.Errorf("agent %d was woken by pass %d, or told of it", j, i)
					}
				}
			}
		},
	},
	{
		name: "the tenure begins when the other one ends",
		says: "MessagePassed: a Release passed the lock to the tenure. The tenure begins at the instant of that Release",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			begun := two.refused(theLock, 1, one.tenure(1).String())
			released := one.release(theLock, 1, true)
			passed := two.hears(lockagent.MessagePassed, 1)
			if later := passed.At.Sub(released.At); later < 0 || later > moment {
				t.Errorf("released at %d, and passed at %d", released.At, passed.At)
			}
			if passed.Incarnation != begun.Incarnation || passed.Clock != begun.Clock {
				t.Errorf("passed by incarnation %q on clock %q, after %+v", passed.Incarnation, passed.Clock, begun)
			}
			// A store may know only to the millisecond what is left of a lease, and so which tokens were used.
			if off := lockagent.StoreTime(passed.Token).Sub(passed.At); off < -moment || off > moment+time.Millisecond {
				t.Errorf("token %d is %v off the time %d", passed.Token, off, passed.At)
			}
		},
	},
	{
		name: "tokens grow over a pass",
		says: "T is greater than every token that the lock had before.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			req := one.ending(theLock, 1)
			first := two.refused(theLock, 1, one.tenure(1).String())
			req.Last = lockagent.Token(first.At) + farAhead
			last := req.Last
			if one.end(req, true).Passed { // a store may first want an Acquire to set its clock
				passed := two.hears(lockagent.MessagePassed, 1)
				if passed.Token <= last {
					t.Errorf("passed with token %d after %d", passed.Token, last)
				}
				if later := passed.At.Sub(first.At); passed.Clock == first.Clock && later > Patience {
					t.Errorf("%v passed on clock %q", later, first.Clock)
				}
				last = passed.Token
			}
			if next := two.get(two.queueing(theLock, 1)); next.Token <= last {
				t.Errorf("token %d after %d", next.Token, last)
			}
		},
	},
	{
		name: "a pass tells the trace of the release",
		says: "A pass carries it to the next holder.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 2)
			one, two, three := line.one, line.others[0], line.others[1]
			req := one.ending(theLock, 1)
			req.Trace = aTrace
			if !one.end(req, true).Passed {
				t.Fatal("the lock was not passed")
			}
			if passed := two.hears(lockagent.MessagePassed, 1); passed.Trace != aTrace {
				t.Errorf("told the trace %q; want %q", passed.Trace, aTrace)
			}
			two.release(theLock, 1, true)
			if passed := three.hears(lockagent.MessagePassed, 1); passed.Trace != "" {
				t.Errorf("told the trace %q of a release that had none", passed.Trace)
			}
		},
	},
	{
		name: "the lease is short",
		slow: true,
		says: "The lease of a pass is [PassLease].",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			passed := line.passes(one, 1, two)
			if left := one.inspect(theLock).Remaining; left > lockagent.PassLease {
				t.Errorf("%v left of a lease of %v", left, lockagent.PassLease)
			}
			if !one.awaitFree(theLock) {
				return
			}
			next := one.acquire(theLock, 2)
			notBefore(t, lockagent.PassLease, lockagent.AcquireReply{At: passed.At}, next)
			if next.Token <= passed.Token {
				t.Errorf("token %d after %d was passed", next.Token, passed.Token)
			}
		},
	},
	{
		name: "an agent that missed the message is granted the lock",
		says: "If the message is lost, the tenure has the lock all the same: its next Acquire is granted.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			if released := one.release(theLock, 1, true); !released.Passed {
				t.Fatalf("Release = %+v; want the lock passed", released)
			}
			two.get(two.queueing(theLock, 1))
			if left := one.sees(theLock, two.tenure(1).String()).Remaining; left <= lockagent.PassLease {
				t.Errorf("%v left of a lease of %v", left, minute)
			}
			two.release(theLock, 1, true)
		},
	},
	{
		name: "a passed tenure can be released before the message arrives",
		says: "Messages may be lost, late, and repeated.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 2)
			one, two, three := line.one, line.others[0], line.others[1]
			one.release(theLock, 1, true)
			req := two.ending(theLock, 1) // as if the message were late
			req.Unanswered = true
			two.end(req, true)
			three.hears(lockagent.MessagePassed, 1)
			three.sees(theLock, three.tenure(1).String())
		},
	},
	{
		name: "the next in the queue stands by",
		says: "The next tenure in the queue gets a [MessageStandby].",
		prove: func(t *testing.T, h *Harness) {
			const crowd = 6
			line := h.line(t, crowd)
			from := line.one
			for i, to := range line.others {
				line.passes(from, 1, to)
				from = to.party
				if i+1 == crowd {
					break
				}
				told := line.others[i+1].hears(lockagent.MessageStandby, 1)
				if told.AskAfter <= 0 || told.AskAfter > lockagent.PassLease {
					t.Errorf("told %+v; want what remains of %v", told, lockagent.PassLease)
				}
				// Some more tenures may be told, but not all.
				if i == 0 && line.others[crowd-1].messages.Count(lockagent.MessageStandby) > 0 {
					t.Errorf("told the last of %d", crowd)
				}
			}
		},
	},
	{
		name: "a release that ends nothing passes nothing",
		says: "Released is false if the tenure did not have the lock: it was over, had never begun, or was released by an " +
			"earlier call whose reply was lost.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 3)
			one, two, three := line.one, line.others[0], line.others[1]
			if released := three.release(theLock, 1, false); released.Passed {
				t.Errorf("Release of a tenure that waited = %+v", released)
			}
			line.passes(one, 1, two)
			if again := one.release(theLock, 1, false); again.Passed {
				t.Errorf("Release = %+v, repeated", again)
			}
			two.sees(theLock, two.tenure(1).String())
		},
	},
	{
		name: "the end of a lease passes nothing",
		slow: true,
		says: "Only a Release passes a lock. Break, the end of a lease, a reset and a downgrade do not.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			one, two := line.one, line.others[0]
			one.subscribe(theLock)
			line.passes(one, 1, two)
			one.queue(theLock, 2, two.tenure(1))
			if !two.awaitFree(theLock) {
				return
			}
			two.release(theLock, 1, false) // the tenure is over
			two.sees(theLock, "")
			one.acquire(theLock, 2)
			if one.messages.Count(lockagent.MessagePassed) > 0 {
				t.Errorf("told %+v", one.messages.all())
			}
		},
	},
	{
		name: "one tenure at a time has a lock that is passed",
		says: "One owner at a time holds a lock as long as clocks run at about the same rate",
		prove: func(t *testing.T, h *Harness) {
			h.visitAll(t, []*place{newPlace("orders/1")}, (*party).queueing)
		},
	},
}

// aTrace is a W3C trace context.
const aTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
