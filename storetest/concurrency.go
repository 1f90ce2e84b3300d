package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

var concurrencyClauses = []clause{
	{
		name: "one tenure at a time has a lock",
		says: "One owner at a time holds a lock as long as clocks run at about the same rate",
		prove: func(t *testing.T, h *Harness) {
			places := []*place{{name: "orders/1"}, {name: "orders/2"}, {name: "orders/3"}}
			h.visitAll(t, places, (*party).visit)
		},
	},
	{
		name: "done is called exactly once",
		says: "done is called exactly once, from any goroutine, possibly before the method has returned.",
		prove: func(t *testing.T, h *Harness) {
			const agents, locks = 40, 5
			stores := []lockagent.Store{h.Store, h.open(t)}
			names := make([]lockagent.Name, locks)
			for i := range names {
				names[i] = lockagent.Name(fmt.Sprintf("orders/%d", i))
			}
			// The mix is random enough to be of interest. What is answered does not
			// matter here, that it is answered does: await fails the case otherwise.
			var all sync.WaitGroup
			for i := range agents {
				p := newParty(t, stores[i%len(stores)])
				all.Go(func() {
					for round := range 5 {
						number := uint64(round + 1)
						acquired := make([]*call[lockagent.AcquireReply], locks)
						for j, name := range names {
							acquired[j] = startAcquire(t, p.store, p.wish(name, number))
						}
						seen := startInspect(t, p.store, names[round])
						for j, name := range names {
							p.answered(acquired[j].await())
							p.answered(Renew(t, p.store, lockagent.RenewRequest{Name: name, Tenure: p.tenure(number), Lease: minute}))
							p.answered(Release(t, p.store, lockagent.ReleaseRequest{Name: name, Tenure: p.tenure(number)}))
						}
						p.answered(seen.await())
						p.answered(Break(t, p.store, names[round]))
					}
				})
			}
			all.Wait()
			for _, name := range names {
				newParty(t, h.Store).sees(name, "")
			}
			for _, store := range stores {
				if err := store.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
		},
	},
	{
		name: "subscriptions come and go at any time",
		says: "A Store is safe for concurrent use.",
		prove: func(t *testing.T, h *Harness) {
			stores := []lockagent.Store{h.Store, h.open(t)}
			var all sync.WaitGroup
			for i := range 20 {
				p := newParty(t, stores[i%len(stores)])
				all.Go(func() {
					for number := uint64(1); number <= 10; number++ {
						sub := Subscribe(t, p.store, theLock)
						cancel := p.store.OnReset(func(lockagent.Reset) {})
						p.answered(p.try(p.wish(theLock, number)))
						p.answered(Release(t, p.store, lockagent.ReleaseRequest{Name: theLock, Tenure: p.tenure(number)}))
						cancel()
						sub.Cancel()
					}
				})
			}
			all.Wait()
			sub := Subscribe(t, h.Store, theLock)
			one := newParty(t, stores[1])
			for number := uint64(1); number <= rounds; number++ {
				one.acquire(theLock, number)
				one.release(theLock, number, true)
				sub.Await()
			}
		},
	},
}

// answered takes the outcome of a call and fails the case if that is an error.
// Unlike the other methods it may be used on any goroutine.
func (p *party) answered(_ any, err error) {
	p.t.Helper()
	if err != nil {
		p.t.Errorf("a call that was in order: %v", err)
	}
}

// place is what a lock protects: it is for one visitor at a time. Everything in
// it is atomic, so that a visitor too many is found by its traces, and not only
// by the race detector.
type place struct {
	name    lockagent.Name
	visitor atomic.Pointer[party]
	token   atomic.Uint64 // of the last visit
	visits  atomic.Int64
}

// visitAll has agents with a few stores go to the places, over and over.
func (h *Harness) visitAll(t *testing.T, places []*place, visit func(*party, *place, uint64) bool) {
	t.Helper()
	const agents, turns = 12, 15
	stores := []lockagent.Store{h.Store, h.open(t), h.open(t)}
	var all sync.WaitGroup
	for i := range agents {
		p := newParty(t, stores[i%len(stores)])
		all.Go(func() {
			for turn := range turns {
				if !visit(p, places[(i+turn)%len(places)], uint64(turn+1)) {
					return
				}
			}
		})
	}
	all.Wait()
	for _, place := range places {
		if visits, want := int(place.visits.Load()), agents*turns/len(places); visits != want {
			t.Errorf("lock %q: %d visits, want %d", place.name, visits, want)
		}
		newParty(t, h.Store).sees(place.name, "")
	}
}

// visit waits for the lock of a place, and goes there. It reports whether all
// was well.
func (p *party) visit(place *place, number uint64) bool {
	sub := Subscribe(p.t, p.store, place.name)
	defer sub.Cancel()
	overdue := time.NewTimer(Patience)
	defer overdue.Stop()
	for {
		reply, err := p.try(p.wish(place.name, number))
		if err != nil {
			p.t.Errorf("Acquire: %v", err)
			return false
		}
		if reply.Granted {
			return p.enter(place, number, reply)
		}
		// Wake-ups may be lost, so try again when one should have been there.
		again := time.NewTimer(100 * time.Millisecond)
		select {
		case <-sub.C:
		case <-again.C:
		case <-overdue.C:
			p.t.Errorf("lock %q was not free for %v", place.name, Patience)
			return false
		}
		again.Stop()
	}
}

func (p *party) enter(place *place, number uint64, reply lockagent.AcquireReply) bool {
	if other := place.visitor.Swap(p); other != nil {
		p.t.Errorf("lock %q: %s was granted it while %s had it", place.name, p.id, other.id)
	}
	if last := place.token.Swap(uint64(reply.Token)); last >= uint64(reply.Token) {
		p.t.Errorf("lock %q: token %d after token %d", place.name, reply.Token, last)
	}
	place.visits.Add(1)
	seen, err := Inspect(p.t, p.store, place.name) // the visit: others come in meanwhile if they can
	if err != nil || seen.Holder != p.tenure(number).String() {
		p.t.Errorf("Inspect(%q) = %+v, %v, while %s has the lock", place.name, seen, err, p.tenure(number))
	}
	if !place.visitor.CompareAndSwap(p, nil) {
		p.t.Errorf("lock %q: another was granted it while %s had it", place.name, p.id)
	}
	released, err := Release(p.t, p.store, lockagent.ReleaseRequest{Name: place.name, Tenure: p.tenure(number)})
	if err != nil || !released.Released {
		p.t.Errorf("Release(%q) = %+v, %v", place.name, released, err)
		return false
	}
	return true
}
