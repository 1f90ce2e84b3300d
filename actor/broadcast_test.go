package actor

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
	"github.com/lockagent/lockagent/memstore"
)

// What the store says about all locks takes as long as there are locks. Meanwhile the agent hears what the store says
// about one of them.
func TestTheStoreIsHeardDuringABroadcast(t *testing.T) {
	for name, tell := range map[string]func(*Agent){
		"messages were missed": func(a *Agent) { a.hear(lockagent.Message{Kind: lockagent.MessagesMissed}) },
		"the store was reset":  func(a *Agent) { a.storeReset(lockagent.Reset{}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTap(memstore.New())
				a := start(t, Config{Store: store})
				door := granted(t, a.Acquire(background, "door", who("ann")))
				gate := granted(t, a.Acquire(background, "gate", who("bob")))
				resume := make(chan struct{})
				renewed := 0
				store.on("renew", func(o *op) {
					if o.name == "door" { // its actor takes its time
						renewed++
						<-resume
					}
					o.run()
				})
				tenure := store.calls[1].tenure // of the gate
				go func() {
					tell(a)
					a.hear(lockagent.Message{Kind: lockagent.MessageBroken, Name: "gate", Tenure: tenure, At: math.MaxInt64})
				}()
				synctest.Wait()
				if renewed != 1 {
					t.Errorf("the actor of the door heard %d times", renewed)
				}
				if gate.Held() {
					t.Error("the agent did not hear that the gate was broken")
				}
				close(resume)
				synctest.Wait()
				released(t, door)
			})
		})
	}
}

// Each command reaches all actors once, in the order of the calls. One that waits is not added again.
func TestBroadcastInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTap(memstore.New())
		a := start(t, Config{Store: store})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		resume := make(chan struct{})
		store.on("renew", func(o *op) {
			<-resume // the first command is under way
			o.run()
		})
		b := &a.broadcast
		b.tell(lockstate.Missed{})
		synctest.Wait()
		for range 3 {
			b.tell(lockstate.StoreReset{})
			b.tell(lockstate.Missed{})
		}
		b.mu.Lock()
		waiting := slices.Clone(b.waiting)
		b.mu.Unlock()
		if want := []lockstate.Command{lockstate.StoreReset{}, lockstate.Missed{}}; !slices.Equal(waiting, want) {
			t.Errorf("%#v wait, want %#v", waiting, want)
		}
		close(resume)
		synctest.Wait()
		if b.waiting != nil || b.runs {
			t.Errorf("%#v wait still", b.waiting)
		}
		released(t, g)
		closed(t, a)
		b.tell(lockstate.Missed{})
		if b.runs {
			t.Error("a closed agent has a goroutine")
		}
	})
}

// An agent that is closed has no goroutine left that runs actors.
func TestABroadcastEndsWithItsAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		granted(t, a.Acquire(background, "door", who("ann")))
		b := &a.broadcast
		resume := make(chan struct{})
		b.running.Go(func() { <-resume }) // as it is while an actor takes its time
		ended := make(chan error, 1)
		go func() { ended <- a.Close() }()
		synctest.Wait()
		silent(t, "Close", ended)
		close(resume)
		if err := await(t, "Close", ended); err != nil {
			t.Error(err)
		}
	})
}
