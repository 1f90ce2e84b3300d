package storetest

import (
	"context"
	"strconv"
	"sync"
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
		name:   "a reset empties the queue",
		except: spin,
		says:   "A reset empties the queue.",
		prove: func(t *testing.T, h *Harness) {
			line := h.line(t, 1)
			h.reset(t)
			line.one.acquire(theLock, 2)
			if released := line.one.release(theLock, 2, true); released.Passed {
				t.Errorf("%+v: passed to a tenure that waited before the reset", released)
			}
		},
	},
	{
		name: "an incarnation has a name of its own",
		says: "A store that lost its data has a new one.",
		prove: func(t *testing.T, h *Harness) {
			h.needsIncarnation(t)
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
		says: "OnReset calls f when the store turns out to be another incarnation than before",
		prove: func(t *testing.T, h *Harness) {
			h.needsIncarnation(t)
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
					if reset.From != before || reset.To != after || reset.Reason == "" {
						t.Errorf("told %+v; want from %q to %q, with a reason", reset, before, after)
					}
					if one.offers(withHistory) && (reset.After <= 0 || reset.Before <= 0) {
						t.Errorf("told %+v; want between when and when", reset)
					}
				}
			}
		},
	},
	{
		name: "a step of the clock is told to every store",
		says: "It also calls f when somebody has set the store's clock, because leases may have ended early.",
		prove: func(t *testing.T, h *Harness) {
			h.needsIncarnation(t)
			if h.StepClock == nil {
				t.Skip("the harness cannot set the clock")
			}
			one, two := h.pair(t)
			told, toldTwo := one.onReset(), two.onReset()
			incarnation := one.incarnation(1)
			last := one.acquire(theLock, 2).Token
			for number, step := range []time.Duration{minute / 2, -minute / 2, 2 * minute} {
				h.StepClock(t, step)
				for _, told := range []<-chan lockagent.Reset{told, toldTwo} {
					reset, ok := awaitReset(t, told)
					if !ok {
						return
					}
					if reset.From != incarnation || reset.To != incarnation || reset.Reason == "" ||
						one.offers(withHistory) && (reset.After <= 0 || reset.Before < reset.After) {
						t.Errorf("told %+v; want that %q is what it was, with a reason, and between when and when", reset, incarnation)
					}
				}
				other := "after step " + lockagent.Name(strconv.Itoa(number))
				token := two.acquire(other, 1).Token
				if token <= last {
					t.Errorf("token %d after %d, when the clock was set by %v", token, last, step)
				}
				last = token
			}
			two.acquire(theLock, 1) // the last step was longer than the lease
		},
	},
	{
		name: "calls made by a function that is told are answered",
		says: "A store holds no mutex while it calls done, wake, hear or the f of OnReset: these functions may call the " +
			"store again.",
		prove: func(t *testing.T, h *Harness) {
			h.needsIncarnation(t)
			one := h.agent(t)
			one.incarnation(1)
			first := start(t, "Release", func(done func(lockagent.ReleaseReply, error)) {
				var once sync.Once
				t.Cleanup(one.store.OnReset(func(lockagent.Reset) {
					once.Do(func() { one.store.Release(context.Background(), one.ending(theLock, 1), done) })
				}))
				h.reset(t)
				one.incarnation(2)
			})
			if released, err := first.await(); err != nil || released.Released {
				t.Errorf("Release = %+v, %v; want nothing to release", released, err)
			}
		},
	},
	{
		name: "a function that was cancelled is told nothing",
		says: "OnReset calls f when the store turns out to be another incarnation than before",
		prove: func(t *testing.T, h *Harness) {
			h.needsIncarnation(t)
			one := h.agent(t)
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

// reset deletes the data, and the store goes on at once. It skips the rest of the case if that cannot be.
func (h *Harness) reset(t *testing.T) {
	t.Helper()
	switch {
	case h.Reset == nil:
		t.Skip("the harness cannot reset the data")
	case h.GracePeriods:
		t.Skip("a grace period follows")
	}
	h.Reset(t)
}

// needsIncarnation skips the case if the store cannot tell its incarnation.
func (h *Harness) needsIncarnation(t *testing.T) {
	t.Helper()
	if h.NoIncarnation {
		t.Skip("the store cannot tell its incarnation")
	}
}

// incarnation acquires a lock of the agent's own, and returns the incarnation in the reply.
func (p *party) incarnation(number uint64) string {
	p.t.Helper()
	incarnation := p.acquire("of "+lockagent.Name(p.id), number).Incarnation
	p.release("of "+lockagent.Name(p.id), number, true)
	if incarnation == "" {
		p.t.Fatal("the store does not tell its incarnation")
	}
	return incarnation
}

// onReset returns a channel of the resets of the agent's store.
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
