package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// stranger is the holder that another program writes.
const stranger = "0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5b1:77"

var foreignClauses = []clause{
	{
		name: "the lock of another program is refused, with its holder",
		says: "Holder has the lock instead: the text of a [Tenure], or the text that another program wrote.",
		prove: func(t *testing.T, h *Harness) {
			h.plantHolder(t, 2, minute)
			one := h.agent(t)
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
		says: "until the holder's lease is over. It is negative if that has no end.",
		prove: func(t *testing.T, h *Harness) {
			h.plantHolder(t, 1, 0)
			one := h.agent(t)
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
		says: "So a repeated or late call never touches another tenure than its own.",
		prove: func(t *testing.T, h *Harness) {
			h.plantHolder(t, 1, minute)
			one := h.agent(t)
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
		says: "Break frees a lock, whatever tenure or program has it.",
		prove: func(t *testing.T, h *Harness) {
			h.plantHolder(t, 3, 0)
			one := h.agent(t)
			one.breaks(theLock, true)
			one.acquire(theLock, 1)
		},
	},
	{
		name: "a value that is no lock is not touched",
		says: "ErrWrongType is returned when the store has something that is no lock under the name of the lock.",
		prove: func(t *testing.T, h *Harness) {
			h.untouched(t, h.PlantValue)
		},
	},
	{
		name: "a value that only looks like a lock is not touched",
		says: "A key that is no lock stays, and the error is [ErrWrongType].",
		prove: func(t *testing.T, h *Harness) {
			h.untouched(t, h.PlantForeignHash)
		},
	},
	{
		name: "an error of one lock does not touch the others",
		says: "are definite: the call had no effect, and trying again will not help.",
		prove: func(t *testing.T, h *Harness) {
			if h.PlantValue == nil {
				t.Skip("the harness cannot plant a value that is no lock")
			}
			const locks = 30
			one, two := h.pair(t)
			name := func(i int) lockagent.Name { return lockagent.Name(fmt.Sprintf("orders/%d", i)) }
			bad := func(i int) bool { return i%3 == 1 }
			for i := range locks {
				if bad(i) {
					h.PlantValue(t, name(i))
				}
			}
			var acquired []*call[lockagent.AcquireReply]
			for i := range locks {
				acquired = append(acquired, startAcquire(t, one.store, one.wish(name(i), 1)))
			}
			for i, c := range acquired {
				if reply, err := c.await(); reply.Granted == bad(i) || errors.Is(err, lockagent.ErrWrongType) != bad(i) {
					t.Errorf("Acquire(%q) = %+v, %v; want it granted if that is a lock", name(i), reply, err)
				}
			}
			var renewed []*call[lockagent.RenewReply]
			for i := range locks {
				renewed = append(renewed, startRenew(t, one.store, one.renewal(name(i), 1, 2*minute)))
			}
			for i, c := range renewed {
				if reply, err := c.await(); reply.Held == bad(i) || err != nil && !bad(i) {
					t.Errorf("Renew(%q) = %+v, %v; want it held if that is a lock", name(i), reply, err)
				}
			}
			var released []*call[lockagent.ReleaseReply]
			for i := range locks {
				released = append(released, startRelease(t, one.store, one.ending(name(i), 1)))
			}
			for i, c := range released {
				if reply, err := c.await(); reply.Released == bad(i) || err != nil && !bad(i) {
					t.Errorf("Release(%q) = %+v, %v; want it released if that is a lock", name(i), reply, err)
				}
				if !bad(i) {
					two.sees(name(i), "")
				}
			}
		},
	},
}

// untouched makes all calls to a value that plant put under the name of a lock.
func (h *Harness) untouched(t *testing.T, plant func(testing.TB, lockagent.Name)) {
	t.Helper()
	if plant == nil {
		t.Skip("the harness cannot plant that")
	}
	plant(t, theLock)
	one, two := h.pair(t)
	wrong := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, lockagent.ErrWrongType) {
			t.Errorf("%s: error %v; want ErrWrongType", what, err)
		}
	}
	for _, req := range []lockagent.AcquireRequest{one.wish(theLock, 1), one.queueing(theLock, 1)} {
		reply, err := one.try(req)
		wrong("Acquire", err)
		if reply.Granted {
			t.Errorf("Acquire = %+v", reply)
		}
	}
	_, err := inspect(t, one.store, theLock, one.kind)
	wrong("Inspect", err)
	if one.offers(withOperator) {
		broken, err := breakLock(t, one.store, one.breaking(theLock))
		wrong("Break", err)
		if broken {
			t.Error("Break: broken")
		}
	}
	// The store may also just say that the tenure does not have the lock.
	renewed, err := Renew(t, one.store, one.renewal(theLock, 1, minute))
	if renewed.Held || err != nil && !errors.Is(err, lockagent.ErrWrongType) {
		t.Errorf("Renew = %+v, %v; want Held false or ErrWrongType", renewed, err)
	}
	released, err := Release(t, one.store, one.ending(theLock, 1))
	if released.Released || err != nil && !errors.Is(err, lockagent.ErrWrongType) {
		t.Errorf("Release = %+v, %v; want Released false or ErrWrongType", released, err)
	}
	_, err = inspect(t, two.store, theLock, two.kind)
	wrong("Inspect, after all that", err)
}

// plantHolder makes another program hold the lock.
func (h *Harness) plantHolder(t *testing.T, count int, lease time.Duration) {
	if h.PlantHolder == nil {
		t.Skip("the harness cannot plant the lock of another program")
	}
	h.PlantHolder(t, theLock, h.kind, stranger, count, lease)
}
