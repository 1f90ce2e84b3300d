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
			h.visitAll(t, []*place{newPlace("orders/1"), newPlace("orders/2"), newPlace("orders/3")}, (*party).wish)
		},
	},
	{
		name: "done is called exactly once",
		says: "The store calls done exactly once, from any goroutine, possibly before the method has returned.",
		prove: func(t *testing.T, h *Harness) {
			const locks = 5
			names := make([]lockagent.Name, locks)
			for i := range names {
				names[i] = lockagent.Name(fmt.Sprintf("orders/%d", i))
			}
			// The goroutines mix the calls at random. The answers do not matter here. But
			// await fails the case if a call has no answer.
			agents := h.agents(t, 4)
			var all sync.WaitGroup
			for i := range 40 {
				p := agents[i%len(agents)]
				all.Go(func() {
					for round := range 5 {
						number := uint64(i*5 + round + 1)
						acquired := make([]*call[lockagent.AcquireReply], locks)
						renewed := make([]*call[lockagent.RenewReply], locks)
						for j, name := range names {
							acquired[j] = startAcquire(t, p.store, p.wish(name, number))
						}
						seen := startInspect(t, p.store, names[round], p.kind)
						for j, name := range names {
							p.answered(acquired[j].await())
							renewed[j] = startRenew(t, p.store, p.renewal(name, number, minute))
						}
						for j, name := range names {
							p.answered(renewed[j].await())
							p.answered(Release(t, p.store, p.ending(name, number)))
						}
						p.answered(seen.await())
						if p.offers(withOperator) {
							p.answered(breakLock(t, p.store, p.breaking(names[round])))
						}
					}
				})
			}
			all.Wait()
			for _, name := range names {
				agents[0].sees(name, "")
			}
			for _, p := range agents {
				p.close()
			}
		},
	},
	{
		name:   "subscriptions come and go at any time",
		except: spin,
		says:   "A Store is safe for concurrent use.",
		prove: func(t *testing.T, h *Harness) {
			agents := h.agents(t, 2)
			var all sync.WaitGroup
			for i := range 20 {
				p := agents[i%len(agents)]
				all.Go(func() {
					for number := uint64(i*10 + 1); number <= uint64(i*10+10); number++ {
						sub := subscribe(t, p.store, theLock, p.kind)
						cancel := p.store.OnReset(func(lockagent.Reset) {})
						p.answered(p.try(p.wish(theLock, number)))
						p.answered(Release(t, p.store, p.ending(theLock, number)))
						cancel()
						sub.Cancel()
					}
				})
			}
			all.Wait()
			sub := agents[0].subscribe(theLock)
			one := agents[1]
			for number := uint64(1001); number <= 1000+rounds; number++ {
				one.acquire(theLock, number)
				one.release(theLock, number, true)
				sub.Await()
			}
		},
	},
}

// place is the resource that a lock protects: for one visitor at a time. All fields are
// atomic. So the case finds a second visitor without the race detector.
type place struct {
	name    lockagent.Name
	visitor atomic.Pointer[party]
	token   atomic.Uint64 // of the last visit
	visits  atomic.Int64

	// The first visit lasts until another visitor has tried to come in. Otherwise it would
	// depend on chance whether two visits can overlap.
	first atomic.Pointer[party]
	met   chan struct{} // closed when another visitor has tried
	meet  sync.Once
}

func newPlace(name lockagent.Name) *place { return &place{name: name, met: make(chan struct{})} }

// tried notes that p has tried to come in.
func (place *place) tried(p *party) {
	if first := place.first.Load(); first != nil && first != p {
		place.meet.Do(func() { close(place.met) })
	}
}

// visitAll makes agents visit the places, over and over. wish makes their requests.
func (h *Harness) visitAll(
	t *testing.T, places []*place, wish func(*party, lockagent.Name, uint64) lockagent.AcquireRequest,
) {
	t.Helper()
	const turns = 15
	agents := h.agents(t, 6)
	var all sync.WaitGroup
	for i, p := range agents {
		all.Go(func() {
			for turn := range turns {
				place := places[(i+turn)%len(places)]
				if !p.visit(place, wish(p, place.name, uint64(turn+1))) {
					return
				}
			}
		})
	}
	all.Wait()
	for _, place := range places {
		if visits, want := int(place.visits.Load()), len(agents)*turns/len(places); visits != want {
			t.Errorf("lock %q: %d visits, want %d", place.name, visits, want)
		}
		agents[0].sees(place.name, "")
	}
}

// visit waits for the lock of a place, and enters. It reports whether all was well.
func (p *party) visit(place *place, req lockagent.AcquireRequest) bool {
	sub := subscribe(p.t, p.store, place.name, p.kind)
	defer sub.Cancel()
	overdue := time.NewTimer(Patience)
	defer overdue.Stop()
	for {
		reply, err := p.try(req)
		if err != nil {
			p.t.Errorf("Acquire: %v", err)
			return false
		}
		if reply.Granted {
			return p.enter(place, req.Tenure, reply.Token)
		}
		place.tried(p)
		// Wake-ups and messages may be lost, so try again after a while.
		again := time.NewTimer(100 * time.Millisecond)
		select {
		case <-sub.C:
		case <-p.messages.C:
		case <-again.C:
		case <-overdue.C:
			p.t.Errorf("lock %q was not free for %v", place.name, Patience)
			return false
		}
		again.Stop()
		if passed, ok := p.messages.Take(lockagent.MessagePassed, place.name, req.Tenure); ok {
			return p.enter(place, req.Tenure, passed.Token)
		}
	}
}

func (p *party) enter(place *place, tenure lockagent.Tenure, token lockagent.Token) bool {
	if other := place.visitor.Swap(p); other != nil {
		p.t.Errorf("lock %q: %s was granted it while %s had it", place.name, p.id, other.id)
	}
	if last := place.token.Swap(uint64(token)); last >= uint64(token) {
		p.t.Errorf("lock %q: token %d after token %d", place.name, token, last)
	}
	place.visits.Add(1)
	place.tried(p)
	if place.first.CompareAndSwap(nil, p) {
		overdue := time.NewTimer(Patience)
		select {
		case <-place.met:
		case <-overdue.C:
			p.t.Errorf("lock %q: nobody else tried to have it within %v", place.name, Patience)
		}
		overdue.Stop()
	}
	seen, err := inspect(p.t, p.store, place.name, p.kind) // takes time, in which others may come in
	if err != nil || seen.Holder != tenure.String() {
		p.t.Errorf("Inspect(%q) = %+v, %v, while %s has the lock", place.name, seen, err, tenure)
	}
	if !place.visitor.CompareAndSwap(p, nil) {
		p.t.Errorf("lock %q: another was granted it while %s had it", place.name, p.id)
	}
	released, err := Release(p.t, p.store,
		lockagent.ReleaseRequest{Name: place.name, Kind: p.kind, Tenure: tenure, Last: token})
	if err != nil || !released.Released {
		p.t.Errorf("Release(%q) = %+v, %v", place.name, released, err)
		return false
	}
	return true
}
