package storetest

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// farAhead is an hour in microseconds. A token can be so far ahead of the clock if somebody set
// the clock back by an hour.
const farAhead lockagent.Token = 3_600_000_000

var tokenClauses = []clause{
	{
		name: "tokens grow from grant to grant",
		says: "Every hold of a lock has a greater token than all holds of that lock before it, on all agents.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			var last lockagent.AcquireReply
			grew := func(reply lockagent.AcquireReply) {
				t.Helper()
				if reply.Token <= last.Token || reply.At < last.At {
					t.Errorf("token %d at %d after token %d at %d", reply.Token, reply.At, last.Token, last.At)
				}
				last = reply
			}
			for number := uint64(1); number <= 20; number++ {
				grew(one.acquire(theLock, number))
				one.release(theLock, number, true)
				grew(two.acquire(theLock, number))
				if two.offers(withOperator) {
					two.breaks(theLock, true)
				} else {
					two.release(theLock, number, true)
				}
			}
		},
	},
	{
		name:   "tokens are times",
		except: fenced,
		says:   "Its k-th hold has the token T + k - 1.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			for number := uint64(1); number <= 3; number++ {
				reply := one.acquire(theLock, number)
				if off := lockagent.StoreTime(reply.Token).Sub(reply.At); off < -moment || off > moment {
					t.Errorf("token %d is %v off the time %d", reply.Token, off, reply.At)
				}
				one.release(theLock, number, true)
			}
		},
	},
	{
		name: "a tenure that is granted again begins again",
		says: "T is greater than every token that the lock had before.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			first, again := one.acquire(theLock, 1), one.acquire(theLock, 1)
			if again.Token <= first.Token {
				t.Errorf("token %d after %d", again.Token, first.Token)
			}
		},
	},
	{
		name: "tokens grow over a release, which tells the last",
		says: "Last is the token of the tenure's last hold, or 0 if it had none. Later tenures begin above it.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			req := one.ending(theLock, 1)
			req.Last = one.acquire(theLock, 1).Token + farAhead
			released := one.end(req, true)
			second := two.acquire(theLock, 1)
			if second.Token <= req.Last || second.At < released.At {
				t.Errorf("token %d at %d after a release at %d that told %d", second.Token, second.At, released.At, req.Last)
			}
			two.release(theLock, 1, true)
			if third := one.acquire(theLock, 2); third.Token <= second.Token {
				t.Errorf("token %d after %d, which was not told", third.Token, second.Token)
			}
		},
	},
	{
		name: "tokens grow over the end of a lease",
		says: "T is greater than every token that the lock had before.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			wish := one.wish(theLock, 1)
			wish.Lease = brief
			first := one.get(wish)
			if !two.awaitFree(theLock) {
				return
			}
			// The first tenure may have had a hold in each microsecond of its lease.
			second := two.acquire(theLock, 1)
			if least := first.Token + lockagent.Token((brief-moment)/time.Microsecond); second.Token < least {
				t.Errorf("token %d after %d and a lease of %v", second.Token, first.Token, brief)
			}
		},
	},
	{
		name: "tokens begin above the floor",
		says: "The tenure begins above it, even if the store has forgotten the lock.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			wish := one.wish(theLock, 1)
			wish.Floor = one.acquire("another", 1).Token + farAhead
			first := one.get(wish)
			if first.Token <= wish.Floor {
				t.Errorf("token %d, floor %d", first.Token, wish.Floor)
			}
			one.release(theLock, 1, true)
			wish = two.wish(theLock, 1)
			wish.Floor = 1
			second := two.get(wish)
			if second.Token <= first.Token {
				t.Errorf("token %d after %d, with a floor below", second.Token, first.Token)
			}
			h.reset(t)
			wish = one.wish(theLock, 2)
			wish.Floor = second.Token + farAhead
			if third := one.get(wish); third.Token <= wish.Floor {
				t.Errorf("token %d, floor %d, after a reset", third.Token, wish.Floor)
			}
		},
	},
	{
		name: "no token is greater than the greatest",
		says: "Tokens are greater than zero and at most [MaxToken]; zero means that nothing is held.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			wish := one.wish(theLock, 1)
			for _, floor := range []lockagent.Token{lockagent.MaxToken, lockagent.MaxToken + 1, math.MaxUint64} {
				wish.Floor = floor
				one.refusedOption(wish)
			}
			one.sees(theLock, "")
			wish.Floor = lockagent.MaxToken - 1
			if reply, err := one.try(wish); reply.Token > lockagent.MaxToken || reply.Granted == lockagent.Definite(err) {
				t.Errorf("Acquire = %+v, %v; want the greatest token or a definite error", reply, err)
			}
			two.acquire("another", 1) // one wrong floor does not use up the tokens of all
		},
	},
	{
		name: "clocks are named",
		says: "The difference of two StoreTimes is a duration only if their Clocks are the same",
		prove: func(t *testing.T, h *Harness) {
			h.needs(t, withHistory)
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			first := two.refused(theLock, 1, one.tenure(1).String())
			if first.Clock == "" && !withQueue.in(h.Store) {
				t.Skip("the store has several clocks, and passes no lock by any of them")
			}
			if second := two.refused(theLock, 1, one.tenure(1).String()); second.Clock != first.Clock || first.Clock == "" {
				t.Errorf("clock %q, and then %q; want one name", first.Clock, second.Clock)
			}
			req := one.ending(theLock, 1)
			req.Last = lockagent.Token(first.At) + farAhead
			one.end(req, true)
			one.acquire(theLock, 2)
			third := two.refused(theLock, 1, one.tenure(2).String())
			if passed := third.At.Sub(first.At); third.Clock == first.Clock && passed > Patience {
				t.Errorf("%v passed on clock %q", passed, first.Clock)
			}
		},
	},
}

// refusedOption acquires and expects ErrBadOption.
func (p *party) refusedOption(req lockagent.AcquireRequest) {
	p.t.Helper()
	if reply, err := p.try(req); reply.Granted || !errors.Is(err, lockagent.ErrBadOption) {
		p.t.Errorf("Acquire(%+v) = %+v, %v; want ErrBadOption", req, reply, err)
	}
}
