package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// fencedClauses are about the tokens of fenced locks, which other programs count, too.
var fencedClauses = []clause{
	{
		name: "who gets the lock after a break shows its own kind",
		says: "A tenure that has the lock shows the kind to every Acquire, Break and Inspect of another tenure, also if " +
			"it was passed the lock.",
		prove: func(t *testing.T, h *Harness) {
			if !slices.Contains(h.kinds, lockagent.PlainLock) {
				t.Skip("the store has no plain locks")
			}
			one, two := h.pair(t)
			three := h.agent(t)
			two.kind, three.kind = lockagent.PlainLock, lockagent.PlainLock
			one.acquire(theLock, 1)
			one.breaks(theLock, true)
			wish := two.wish(theLock, 1)
			wish.Lease = minute * 2 / 3 // so it ends before the lease of the broken tenure would have
			two.get(wish)
			three.refused(theLock, 1, two.tenure(1).String())
			three.kind = h.kind
			_, err := three.try(three.wish(theLock, 2))
			want := lockagent.KindError{Name: theLock, Kind: h.kind, Used: lockagent.PlainLock}
			if told, _ := errors.AsType[*lockagent.KindError](err); told == nil || *told != want {
				t.Errorf("Acquire: error %v; want %v", err, &want)
			}
		},
	},
	{
		name: "a tenure begins above the tokens of other programs",
		says: "It begins above every token that they have had, also if that is ahead of the store's clock.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			small := h.plantToken(t, 7)
			before := one.acquire("another", 1)
			first := one.acquire(theLock, 1)
			if off := lockagent.StoreTime(first.Token).Sub(first.At); first.Token <= small || off < -moment || off > moment {
				t.Errorf("token %d at %d after %d", first.Token, first.At, small)
			}
			one.release(theLock, 1, true)
			great := h.plantToken(t, first.Token+farAhead)
			second := two.acquire(theLock, 1)
			if second.Token <= great || second.Token > great+farAhead {
				t.Errorf("token %d after %d", second.Token, great)
			}
			req := two.ending(theLock, 1)
			req.Last = second.Token
			two.end(req, true)
			if third := one.acquire(theLock, 2); third.Token <= second.Token {
				t.Errorf("token %d after %d", third.Token, second.Token)
			}
			// The tokens of other locks and the clock stay.
			after := one.acquire("a third", 1)
			if after.Token >= great || after.Clock != before.Clock || after.At.Sub(before.At) > Patience {
				t.Errorf("granted %+v after %+v, with token %d of another lock in between", after, before, great)
			}
		},
	},
	{
		name: "tokens ahead of the clock grow, however a tenure ends",
		says: "T is greater than every token that the lock had before.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			last := h.plantToken(t, one.acquire("another", 1).Token+farAhead)
			number := uint64(0)
			begins := func(lease time.Duration) lockagent.Token {
				t.Helper()
				number++
				wish := one.wish(theLock, number)
				wish.Lease = lease
				begun := one.get(wish).Token
				if begun <= last {
					t.Errorf("tenure %d: token %d after %d", number, begun, last)
				}
				last = begun
				return begun
			}
			ends := func(holds int) {
				t.Helper()
				req := one.ending(theLock, number)
				if holds > 0 {
					req.Last = last + lockagent.Token(holds) - 1
					last = req.Last
				}
				one.end(req, true)
			}
			begins(minute)
			ends(1)
			begins(minute)
			ends(1000)
			begins(minute)
			ends(0)
			begins(minute)
			two.breaks(theLock, true)
			begun := begins(minute)
			one.keep(number)
			ends(1)
			if last = begins(brief); last > begun+farAhead/2 {
				t.Errorf("the tokens run away: %d after %d", last, begun)
			}
			if !one.awaitFree(theLock) {
				return
			}
			last += lockagent.Token((brief - moment) / time.Microsecond) // it may have used so many
			begins(minute)
			one.get(one.wish(theLock, number)) // again, because a reply was lost
			ends(1)
			begins(minute)
		},
	},
	{
		name: "a lock that is passed has a token above all others",
		says: "T is greater than every token that the lock had before.",
		prove: func(t *testing.T, h *Harness) {
			h.needs(t, withQueue)
			one, two := h.pair(t)
			last := h.plantToken(t, one.acquire("another", 1).Token+farAhead)
			two.subscribe(theLock)
			for number := uint64(1); number <= rounds; number++ {
				one.acquire(theLock, number)
				two.queue(theLock, number, one.tenure(number))
				req := one.ending(theLock, number)
				req.Last = last + 10_000
				if released := one.end(req, true); !released.Passed {
					t.Fatalf("Release = %+v; want the lock passed", released)
				}
				passed := two.hears(lockagent.MessagePassed, number)
				if passed.Token <= req.Last || passed.Token > req.Last+farAhead {
					t.Errorf("passed with token %d after %d", passed.Token, req.Last)
				}
				last = passed.Token
				two.keep(number)
				two.release(theLock, number, true)
			}
		},
	},
	{
		name: "a lock without tokens is an error",
		says: "That stays so until an operator sets it right.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			h.plantToken(t, lockagent.MaxToken)
			if reply, err := one.try(one.wish(theLock, 1)); !errors.Is(err, lockagent.ErrNoTokens) {
				t.Errorf("Acquire = %+v, %v; want ErrNoTokens", reply, err)
			}
			one.sees(theLock, "")
			one.acquire("another", 1)
			h.plantToken(t, 7)
			one.acquire(theLock, 2)
		},
	},
}

// plantToken makes another program have had a token of theLock.
func (h *Harness) plantToken(t *testing.T, token lockagent.Token) lockagent.Token {
	t.Helper()
	if h.PlantToken == nil {
		t.Skip("the harness cannot plant the token of another program")
	}
	h.PlantToken(t, theLock, token)
	return token
}
