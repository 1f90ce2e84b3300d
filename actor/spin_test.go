package actor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// spinning is the request of an owner for a spin lock.
func spinning(owner lockagent.Owner) Request { return Request{Owner: owner, Kind: lockagent.SpinLock} }

// Who waits for a spin lock of another agent polls it: without a subscription, and less and less often.
func TestSpinLockIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		tap := newTap(store)
		a, b := start(t, Config{Store: store.Share()}), start(t, Config{Store: tap})
		g := granted(t, a.Acquire(background, "door", spinning("ann")))
		waits := b.Acquire(background, "door", spinning("bob"))
		time.Sleep(10 * time.Second)
		// At most 128 ms and at least half of that pass from one poll to the next.
		if polls := tap.count("acquire"); polls < 10_000/128 || polls > 10_000/64+8 {
			t.Errorf("%d polls in 10 s", polls)
		}
		if n := tap.subscriptions(); n > 0 {
			t.Errorf("%d subscriptions", n)
		}
		released(t, g)
		before := time.Now()
		next := granted(t, waits)
		if late := time.Since(before); late > 128*time.Millisecond {
			t.Errorf("granted %v after the release", late)
		}
		if next.Token() <= g.Token() {
			t.Errorf("token %d after %d", next.Token(), g.Token())
		}
		released(t, next)
	})
}

// An agent whose own requests follow each other lets others in.
func TestSpinLockOfABusyAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, b := start(t, Config{Store: store.Share()}), start(t, Config{Store: store})
		stop := make(chan struct{})
		busy := make(chan struct{})
		go func() {
			defer close(busy)
			waits := a.Acquire(background, "door", spinning("ann"))
			for turn := true; turn; {
				g := <-waits
				waits = a.Acquire(background, "door", spinning("ann"))
				time.Sleep(time.Millisecond)
				released(t, g)
				select {
				case <-stop:
					turn = false
				default:
				}
			}
			released(t, <-waits)
		}()
		began := time.Now()
		for range 5 {
			released(t, granted(t, b.Acquire(background, "door", spinning("bob"))))
		}
		if waited := time.Since(began); waited > 30*time.Second {
			t.Errorf("waited %v for five turns", waited)
		}
		close(stop)
		<-busy
	})
}
