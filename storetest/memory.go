package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// memoryClauses are about what a store knows of what it has forgotten.
var memoryClauses = []clause{
	{
		name: "a store tells since when it remembers",
		says: "After a reset RemembersSince changes before any call is answered from what the reset has left",
		prove: func(t *testing.T, h *Harness) {
			h.needsIncarnation(t)
			one := h.agent(t)
			since := one.remembersSince()
			one.incarnation(1)
			if again := one.remembersSince(); !again.Equal(since) {
				t.Errorf("since %v, after %v, with nothing in between", again, since)
			}
			before := time.Now()
			h.reset(t)
			two := h.agent(t)
			if since := two.remembersSince(); since.Before(before) {
				t.Errorf("since %v if the store was opened after the reset, which was after %v", since, before)
			}
			reply, err := start(t, "Acquire", func(done func(lockagent.AcquireReply, error)) {
				one.store.Acquire(context.Background(), one.wish(theLock, 2), func(reply lockagent.AcquireReply, err error) {
					since = one.remembersSince()
					done(reply, err)
				})
			}).await()
			if err != nil || since.Before(before) {
				t.Errorf("since %v at the answer %+v, %v; the reset was after %v", since, reply, err, before)
			}
		},
	},
	{
		name: "a step forward of the clock ends leases early",
		says: "What it granted before, it may have forgotten, or the lease may have ended early.",
		prove: func(t *testing.T, h *Harness) {
			h.needsIncarnation(t)
			if h.StepClock == nil {
				t.Skip("the harness cannot set the clock")
			}
			one := h.agent(t)
			one.acquire(theLock, 1)
			first := one.remembersSince()
			h.StepClock(t, -minute)
			one.acquire("after a step back", 1)
			if since := one.remembersSince(); !since.Equal(first) {
				t.Errorf("since %v, after %v and a step back", since, first)
			}
			before := time.Now()
			h.StepClock(t, minute)
			one.acquire("after a step forward", 1)
			if since := one.remembersSince(); since.Before(before) {
				t.Errorf("since %v; the step forward was after %v", since, before)
			}
		},
	},
}

// remembersSince is that of a store with a History.
func (p *party) remembersSince() time.Time {
	history, _ := lockagent.Layer[lockagent.History](p.store)
	return history.RemembersSince()
}
