package actor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// fairly is the request of an owner for a fair lock.
func fairly(owner lockagent.Owner) Request { return Request{Owner: owner, Kind: lockagent.FairLock} }

// After a panic a fair lock withdraws every tenure that it may have in the store: another agent
// waits for none of them.
func TestFairStartsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newTap(store.Share())
		s.news = func(func(lockagent.Message), lockagent.Message) {} // nor is it told of its ghosts
		a, b := start(t, Config{Store: s, Logger: quiet}), start(t, Config{Store: store})
		granted(t, a.Acquire(background, "door", fairly("ann")))
		waiting := []<-chan lockagent.Grant{
			a.Acquire(background, "door", fairly("bob")), a.Acquire(background, "door", fairly("cid")),
		}
		synctest.Wait()
		dan := b.Acquire(background, "door", fairly("dan"))
		synctest.Wait()
		a.upset("door")
		for _, c := range waiting {
			refused(t, c, lockagent.ErrInternal)
		}
		begin := time.Now()
		released(t, granted(t, dan))
		if waited := time.Since(begin); waited > retryMax+lockagent.PassLease/2 { // after the pause
			t.Errorf("the other agent waited %v", waited)
		}
		closed(t, b)
		settledAs(t, a, store.Share(), lockagent.FairLock, "door")
	})
}
