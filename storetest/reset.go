package storetest

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

var resetClauses = []clause{
	{
		name: "a store without its memory has free locks",
		says: "it was restarted, flushed, or replaced by a replica.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			h.reset(t)
			one.sees(theLock, "")
			if reply := one.renew(theLock, 1, minute); reply.Held {
				t.Errorf("Renew of a forgotten tenure = %+v; want Held false", reply)
			}
			two.acquire(theLock, 1)
			one.release(theLock, 1, false)
			two.sees(theLock, two.tenure(1).String())
		},
	},
	{
		name: "tokens go on above the floor",
		says: "Floor is a token that has been used already: the range begins above it, even if the store has forgotten.",
		prove: func(t *testing.T, h *Harness) {
			const tokens = 1_000_000 // ahead of any clock that counts in microseconds
			one, two := h.pair(t)
			wish := one.wish(theLock, 1)
			wish.Tokens = tokens
			last := one.get(wish).Token + tokens - 1
			h.reset(t)
			wish = two.wish(theLock, 1)
			wish.Floor = last
			if reply := two.get(wish); reply.Token <= last {
				t.Errorf("token %d, floor %d", reply.Token, last)
			}
		},
	},
	{
		name: "an incarnation has a name of its own",
		says: "A store that lost its memory has a new one.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			before := one.incarnation(1)
			if again := two.incarnation(1); again != before {
				t.Errorf("incarnation %q for one store, %q for another", before, again)
			}
			if again := one.incarnation(2); again != before {
				t.Errorf("incarnation %q after %q, with nothing in between", again, before)
			}
			h.reset(t)
			after := one.incarnation(3)
			if after == before {
				t.Errorf("incarnation %q as before the reset", after)
			}
			if again := two.incarnation(3); again != after {
				t.Errorf("incarnation %q for one store, %q for another, after the reset", after, again)
			}
		},
	},
	{
		name: "a reset is told to every store",
		says: "OnReset has f called when the store is found to be another incarnation than before",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			told, toldTwo := one.onReset(), two.onReset()
			for number := uint64(1); number <= rounds; number++ {
				before := one.incarnation(2*number - 1)
				two.incarnation(2*number - 1)
				h.reset(t)
				after := one.incarnation(2 * number)
				two.incarnation(2 * number)
				for _, told := range []<-chan lockagent.Reset{told, toldTwo} {
					reset, ok := awaitReset(t, told)
					if !ok {
						return
					}
					if reset.From != before || reset.To != after || reset.Reason == "" || reset.After <= 0 || reset.Before < reset.After {
						t.Errorf("told %+v; want from %q to %q, with a reason, and between when and when", reset, before, after)
					}
				}
			}
		},
	},
	{
		name: "a function that was cancelled is told nothing",
		says: "OnReset has f called when the store is found to be another incarnation than before",
		prove: func(t *testing.T, h *Harness) {
			one, _ := h.pair(t)
			cancelled := make(chan lockagent.Reset, 1)
			cancel := one.store.OnReset(func(reset lockagent.Reset) { cancelled <- reset })
			told := one.onReset()
			one.incarnation(1)
			cancel()
			h.reset(t)
			one.incarnation(2)
			awaitReset(t, told)
			select {
			case reset := <-cancelled:
				t.Errorf("told %+v after cancel had returned", reset)
			default:
			}
		},
	},
}

func (h *Harness) reset(t *testing.T) {
	t.Helper()
	if h.Reset == nil {
		t.Skip("the harness cannot reset the data")
	}
	h.Reset(t)
}

// incarnation is what a grant of a lock of the agent's own tells, or the end of
// the case if that is nothing.
func (p *party) incarnation(number uint64) string {
	p.t.Helper()
	incarnation := p.acquire("of "+lockagent.Name(p.id), number).Incarnation
	p.release("of "+lockagent.Name(p.id), number, true)
	if incarnation == "" {
		p.t.Skip("the store does not tell its incarnation")
	}
	return incarnation
}

// onReset returns a channel of the resets that the agent's store tells.
func (p *party) onReset() <-chan lockagent.Reset {
	told := make(chan lockagent.Reset, 10*rounds)
	p.t.Cleanup(p.store.OnReset(func(reset lockagent.Reset) { told <- reset }))
	return told
}

func awaitReset(t *testing.T, told <-chan lockagent.Reset) (lockagent.Reset, bool) {
	t.Helper()
	overdue := time.NewTimer(Patience)
	defer overdue.Stop()
	select {
	case reset := <-told:
		return reset, true
	case <-overdue.C:
		t.Errorf("told of no reset within %v", Patience)
		return lockagent.Reset{}, false
	}
}
