package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/lockagent/lockagent"
)

var closeClauses = []clause{
	{
		name: "a closed store answers that it is closed",
		says: "ErrClosed is returned by every use of an agent or a store that is closed.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			one.close()
			if reply, err := one.try(one.wish("orders/43", 1)); !errors.Is(err, lockagent.ErrClosed) {
				t.Errorf("Acquire = %+v, %v; want ErrClosed", reply, err)
			}
			one.fails(theLock, lockagent.ErrClosed)
			if one.offers(withHistory) {
				if at, err := Time(t, one.store); !errors.Is(err, lockagent.ErrClosed) {
					t.Errorf("Time = %d, %v; want ErrClosed", at, err)
				}
			}
			two.sees(theLock, one.tenure(1).String())
			two.sees("orders/43", "")
		},
	},
	{
		name: "no lock is free because a store was closed",
		says: "It frees no lock.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 1)
			one.close()
			two.refused(theLock, 1, one.tenure(1).String())
		},
	},
	{
		name: "a closed store takes subscriptions and ends them",
		says: "ends all that the store has running in this process.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			cancelWake := one.store.Subscribe(theLock, one.kind, func() {})
			cancelReset := one.store.OnReset(func(lockagent.Reset) {})
			one.close()
			cancelWake()
			cancelReset()
			one.messages.Cancel()
			cancels := []func(){
				one.store.Subscribe(theLock, one.kind, func() {}),
				one.store.OnReset(func(lockagent.Reset) {}),
			}
			if messages, ok := lockagent.Layer[lockagent.Messages](one.store); ok {
				cancels = append(cancels, messages.Listen(one.id, func(lockagent.Message) {}))
			}
			for _, cancel := range cancels {
				if cancel == nil {
					t.Fatal("nothing to cancel")
				}
				cancel()
			}
			two.acquire(theLock, 1)
		},
	},
	{
		name: "a waiter is woken when the store is closed",
		says: "when the store is closed: every Acquire says so",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			two.acquire(theLock, 1)
			sub := one.subscribe(theLock)
			one.refused(theLock, 1, two.tenure(1).String())
			one.close()
			sub.Await()
			if _, err := one.try(one.wish(theLock, 2)); !errors.Is(err, lockagent.ErrClosed) {
				t.Errorf("Acquire: error %v; want ErrClosed", err)
			}
			sub.Cancel()
			one.subscribe(theLock).Cancel() // who comes later is woken, too
		},
	},
	{
		name: "calls under way are answered",
		says: "Close ends all calls under way with ErrClosed",
		prove: func(t *testing.T, h *Harness) {
			const calls = 50
			one := h.agent(t)
			var (
				begun    sync.WaitGroup
				acquired [calls]*call[lockagent.AcquireReply]
				renewed  [calls]*call[lockagent.RenewReply]
				released [calls]*call[lockagent.ReleaseReply]
			)
			name := func(i int) lockagent.Name { return lockagent.Name(fmt.Sprintf("parcels/%d", i)) }
			closed := make(chan struct{})
			for i := range calls {
				if i == calls-1 { // some calls come late, whatever the others do
					<-closed
				}
				begun.Go(func() { acquired[i] = startAcquire(t, one.store, one.wish(name(i), 1)) })
				begun.Go(func() {
					renewed[i] = startRenew(t, one.store, one.renewal(theLock, uint64(i+1), minute))
				})
				begun.Go(func() {
					released[i] = startRelease(t, one.store, one.ending(theLock, uint64(i+1)))
				})
				if i == calls/2 {
					begun.Go(func() {
						defer close(closed)
						one.close()
					})
				}
			}
			begun.Wait()
			for i := range calls {
				ended(t, acquired[i])
				ended(t, renewed[i])
				ended(t, released[i])
			}
		},
	},
}

// ended expects a call to have an answer or ErrClosed.
func ended[R any](t *testing.T, c *call[R]) {
	t.Helper()
	if reply, err := c.await(); err != nil && !errors.Is(err, lockagent.ErrClosed) {
		t.Errorf("%s = %+v, %v; want an answer or ErrClosed", c.what, reply, err)
	}
}
