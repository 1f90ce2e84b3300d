package memstore

import (
	"context"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

const orders lockagent.Name = "orders/42"

// guest is an agent with a Store of its own, and what that told it.
type guest struct {
	t     *testing.T
	store *Store
	id    lockagent.AgentID
	heard []lockagent.Message
	woken int
}

// newGuest has a new agent listen, and subscribe to the lock.
func newGuest(t *testing.T, store *Store) *guest {
	g := &guest{t: t, store: store, id: lockagent.NewAgentID()}
	store.Listen(g.id, func(message lockagent.Message) { g.heard = append(g.heard, message) })
	store.Subscribe(orders, lockagent.PlainLock, func() { g.woken++ })
	g.hears(lockagent.MessagesMissed, lockagent.MessageAlone)
	return g
}

func newGuests(t *testing.T, n int) []*guest {
	guests := []*guest{newGuest(t, New())}
	for len(guests) < n {
		guests = append(guests, newGuest(t, guests[0].store.Share()))
	}
	return guests
}

func (g *guest) tenure(number uint64) lockagent.Tenure {
	return lockagent.Tenure{Agent: g.id, Number: number}
}

// ask acquires, by a call that a store without faults answers before it returns.
func (g *guest) ask(req lockagent.AcquireRequest) (reply lockagent.AcquireReply, err error) {
	g.store.Acquire(context.Background(), req, func(r lockagent.AcquireReply, e error) { reply, err = r, e })
	return reply, err
}

func (g *guest) acquire(name lockagent.Name, number uint64) lockagent.AcquireReply {
	g.t.Helper()
	reply, err := g.ask(lockagent.AcquireRequest{Name: name, Tenure: g.tenure(number), Lease: time.Minute})
	if err != nil || !reply.Granted {
		g.t.Fatalf("Acquire = %+v, %v; want it granted", reply, err)
	}
	return reply
}

// queue acquires a lock that is busy, and asks for a place.
func (g *guest) queue(number uint64) lockagent.AcquireReply {
	g.t.Helper()
	reply, err := g.ask(lockagent.AcquireRequest{Name: orders, Tenure: g.tenure(number), Lease: time.Minute, Queue: true})
	if err != nil || !reply.Queued {
		g.t.Fatalf("Acquire = %+v, %v; want it queued", reply, err)
	}
	return reply
}

func (g *guest) end(req lockagent.ReleaseRequest) (reply lockagent.ReleaseReply) {
	g.t.Helper()
	g.store.Release(context.Background(), req, func(r lockagent.ReleaseReply, err error) {
		if reply = r; err != nil {
			g.t.Fatal(err)
		}
	})
	return reply
}

func (g *guest) release(name lockagent.Name, number uint64) lockagent.ReleaseReply {
	g.t.Helper()
	return g.end(lockagent.ReleaseRequest{Name: name, Tenure: g.tenure(number)})
}

func (g *guest) breaks(name lockagent.Name) (broken bool) {
	g.t.Helper()
	g.store.Break(context.Background(), lockagent.BreakRequest{Name: name}, func(reply lockagent.BreakReply, err error) {
		if broken = reply.Broken; err != nil {
			g.t.Fatal(err)
		}
	})
	return broken
}

// hears expects messages of these kinds since the last time.
func (g *guest) hears(kinds ...lockagent.MessageKind) []lockagent.Message {
	g.t.Helper()
	heard := g.heard
	g.heard = nil
	same := len(heard) == len(kinds)
	for i := 0; same && i < len(kinds); i++ {
		same = heard[i].Kind == kinds[i]
	}
	if !same {
		g.t.Fatalf("heard %+v; want kinds %v", heard, kinds)
	}
	return heard
}
