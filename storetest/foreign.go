package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// stranger is a holder as no agent here writes it.
const stranger = "0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5b1:-77:write"

var foreignClauses = []clause{
	{
		name: "the lock of another program is refused, with its holder",
		says: "Holder is who has the lock instead, as the store writes it: the text of a [Tenure], or whatever another program put there.",
		prove: func(t *testing.T, h *Harness) {
			h.plantHolder(t, 2, minute)
			one, _ := h.pair(t)
			if left := one.refused(theLock, 1, stranger).Remaining; left <= 0 || left > minute {
				t.Errorf("%v left of a lease of %v", left, minute)
			}
			seen := one.sees(theLock, stranger)
			if seen.HoldCount != 2 || seen.Remaining <= 0 || seen.Remaining > minute {
				t.Errorf("Inspect = %+v; want hold count 2, and what is left of %v", seen, minute)
			}
		},
	},
	{
		name: "a lease without end is told as negative",
		says: "negative if the lease has no end",
		prove: func(t *testing.T, h *Harness) {
			h.plantHolder(t, 1, 0)
			one, _ := h.pair(t)
			if left := one.refused(theLock, 1, stranger).Remaining; left >= 0 {
				t.Errorf("Acquire: %v left of a lease without end", left)
			}
			if left := one.sees(theLock, stranger).Remaining; left >= 0 {
				t.Errorf("Inspect: %v left of a lease without end", left)
			}
		},
	},
	{
		name: "the lock of another program is left alone",
		says: "A repeated or late call can therefore never touch another tenure than its own.",
		prove: func(t *testing.T, h *Harness) {
			h.plantHolder(t, 1, minute)
			one, _ := h.pair(t)
			if reply := one.renew(theLock, 1, time.Hour); reply.Held {
				t.Errorf("Renew = %+v; want Held false", reply)
			}
			one.release(theLock, 1, false)
			if seen := one.sees(theLock, stranger); seen.Remaining > minute || seen.HoldCount != 1 {
				t.Errorf("Inspect = %+v; want it as it was", seen)
			}
		},
	},
	{
		name: "the lock of another program can be broken",
		says: "Break frees a lock, whoever has it, and wakes the agents that wait.",
		prove: func(t *testing.T, h *Harness) {
			h.plantHolder(t, 3, 0)
			one, _ := h.pair(t)
			one.breaks(theLock, true)
			one.acquire(theLock, 1)
		},
	},
	{
		name: "what is no lock is not touched",
		says: "ErrWrongType is returned when the store has something else than a lock under the name of the lock.",
		prove: func(t *testing.T, h *Harness) {
			if h.PlantValue == nil {
				t.Skip("the harness cannot plant a value that is no lock")
			}
			h.PlantValue(t, theLock)
			one, two := h.pair(t)
			wrong := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, lockagent.ErrWrongType) {
					t.Errorf("%s: error %v; want ErrWrongType", what, err)
				}
			}
			reply, err := one.try(one.wish(theLock, 1))
			wrong("Acquire", err)
			if reply.Granted {
				t.Errorf("Acquire = %+v", reply)
			}
			_, err = Inspect(t, one.store, theLock)
			wrong("Inspect", err)
			broken, err := Break(t, one.store, theLock)
			wrong("Break", err)
			if broken {
				t.Error("Break: broken")
			}
			if renewed := one.renew(theLock, 1, minute); renewed.Held {
				t.Errorf("Renew = %+v; want Held false", renewed)
			}
			one.release(theLock, 1, false)
			_, err = Inspect(t, two.store, theLock)
			wrong("Inspect, after all that", err)
		},
	},
}

// plantHolder has another program hold the lock.
func (h *Harness) plantHolder(t *testing.T, count int, lease time.Duration) {
	if h.PlantHolder == nil {
		t.Skip("the harness cannot plant the lock of another program")
	}
	h.PlantHolder(t, theLock, stranger, count, lease)
}
