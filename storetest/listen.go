package storetest

import (
	"context"
	"sync"
	"testing"

	"github.com/lockagent/lockagent"
)

// The messages about queues are in the chapters Queue and Pass.
var listenClauses = []clause{
	{
		name: "an agent is told when the store begins to listen",
		says: "Whenever the store begins to receive the messages, for the first time or after an interruption, hear gets " +
			"a [MessagesMissed].",
		prove: func(t *testing.T, h *Harness) {
			h.agents(t, 3) // waits for the message of each agent
		},
	},
	{
		name: "an agent is told that its tenure was broken",
		says: "MessageBroken: a Break ended the tenure. At, Operator.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			for number := uint64(1); number <= rounds; number++ {
				begun := one.acquire(theLock, number).At
				h.needs(t, withOperator)
				reply, err := startBreak(t, two.store, two.breaking(theLock)).await()
				if err != nil || !reply.Broken {
					t.Fatalf("Break = %+v, %v", reply, err)
				}
				if told := one.hears(lockagent.MessageBroken, number); told.At < begun || told.At > reply.At {
					t.Errorf("told %+v after a tenure that began at %d and was broken at %d", told, begun, reply.At)
				}
			}
		},
	},
	{
		name: "no other agent is told",
		says: "Listen calls hear with each message to the agent.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			two.acquire("another", 1)
			one.acquire(theLock, 1)
			two.breaks(theLock, true)
			one.hears(lockagent.MessageBroken, 1)
			two.breaks("another", true)
			two.messages.Await(lockagent.MessageBroken, "another", two.tenure(1))
			for _, told := range two.messages.all() {
				if told.Name == theLock {
					t.Errorf("told %+v", told)
				}
			}
		},
	},
	{
		name: "calls made by hear are answered",
		says: "A store holds no mutex while it calls done, wake, hear or the f of OnReset: these functions may call the " +
			"store again.",
		prove: func(t *testing.T, h *Harness) {
			store := h.Open(t)
			t.Cleanup(func() { _ = store.Close() })
			layer, _ := lockagent.Layer[lockagent.Messages](store)
			two := &party{t: t, store: store, kind: h.kind, id: lockagent.NewAgentID()}
			first := start(t, "Acquire", func(done func(lockagent.AcquireReply, error)) {
				var once sync.Once // messages may be repeated
				t.Cleanup(layer.Listen(two.id, func(lockagent.Message) {
					// The first message comes when the store begins to listen.
					once.Do(func() { store.Acquire(context.Background(), two.wish(theLock, 1), done) })
				}))
			})
			if reply, err := first.await(); err != nil || !reply.Granted {
				t.Errorf("Acquire = %+v, %v; want it granted", reply, err)
			}
		},
	},
	{
		name: "an agent that listens no more is left in peace",
		says: "The store may call hear once more after cancel has returned.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.messages.Cancel()
			for number := uint64(1); number <= rounds; number++ {
				one.acquire(theLock, number)
				two.breaks(theLock, true)
				two.acquire(theLock, number)
				two.breaks(theLock, true)
				two.hears(lockagent.MessageBroken, number)
			}
			if told := one.messages.Count(lockagent.MessageBroken); told > 1 {
				t.Errorf("told %d times after cancel had returned", told)
			}
		},
	},
}
