package storetest

import (
	"errors"
	"math"
	"testing"

	"github.com/lockagent/lockagent"
)

var tokenClauses = []clause{
	{
		name: "tokens grow from grant to grant",
		says: "Every grant of a lock has a greater token than all grants of that lock before it, whoever granted them.",
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
				two.breaks(theLock, true)
			}
		},
	},
	{
		name: "a range is not used again",
		says: "Token is the first token of the range; the request's Tokens follow each other without a gap.",
		prove: func(t *testing.T, h *Harness) {
			const tokens = 1_000_000 // ahead of any clock that counts in microseconds
			one, two := h.pair(t)
			wish := one.wish(theLock, 1)
			wish.Tokens = tokens
			first := one.get(wish)
			one.release(theLock, 1, true)
			if second := two.acquire(theLock, 1); second.Token < first.Token+tokens {
				t.Errorf("token %d after the %d that begin with %d", second.Token, tokens, first.Token)
			}
		},
	},
	{
		name: "a tenure that is granted again has a new range",
		says: "Tokens is how many tokens the tenure needs, one for each hold inside it.",
		prove: func(t *testing.T, h *Harness) {
			const tokens = 1000
			one, _ := h.pair(t)
			wish := one.wish(theLock, 1)
			wish.Tokens = tokens
			first, again := one.get(wish), one.get(wish)
			if again.Token < first.Token+tokens {
				t.Errorf("token %d after the %d that begin with %d", again.Token, tokens, first.Token)
			}
		},
	},
	{
		name: "a range begins above the floor",
		says: "Floor is a token that has been used already: the range begins above it, even if the store has forgotten.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			wish := one.wish(theLock, 1)
			wish.Floor = one.acquire("another", 1).Token + 3_600_000_000 // as after an hour, for a clock in microseconds
			first := one.get(wish)
			if first.Token <= wish.Floor {
				t.Errorf("token %d, floor %d", first.Token, wish.Floor)
			}
			one.release(theLock, 1, true)
			second := two.acquire(theLock, 1)
			if second.Token <= first.Token {
				t.Errorf("token %d after %d", second.Token, first.Token)
			}
			two.release(theLock, 1, true)
			wish = two.wish(theLock, 2)
			wish.Floor = 1
			if third := two.get(wish); third.Token <= second.Token {
				t.Errorf("token %d after %d, with a floor below", third.Token, second.Token)
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
			wish.Floor = lockagent.MaxToken - 5
			wish.Tokens = 6
			one.refusedOption(wish)
			one.sees(theLock, "")

			wish.Tokens = 5
			if reply := one.get(wish); reply.Token != lockagent.MaxToken-4 {
				t.Errorf("token %d, floor %d", reply.Token, wish.Floor)
			}
			one.release(theLock, 1, true)
			if reply, err := two.try(two.wish(theLock, 1)); reply.Granted || !lockagent.Definite(err) {
				t.Errorf("Acquire = %+v, %v, with no token left; want a definite error", reply, err)
			}
			two.sees(theLock, "")
		},
	},
}

// refusedOption acquires and expects to hear that the request is out of bounds.
func (p *party) refusedOption(req lockagent.AcquireRequest) {
	p.t.Helper()
	if reply, err := p.try(req); reply.Granted || !errors.Is(err, lockagent.ErrBadOption) {
		p.t.Errorf("Acquire(%+v) = %+v, %v; want ErrBadOption", req, reply, err)
	}
}
