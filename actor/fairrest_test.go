package actor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// restsFairly reports whether the fair lock "door" rests in an agent.
func restsFairly(t *testing.T, a *Agent) bool {
	t.Helper()
	s := await(t, "status", a.Status("door", lockagent.FairLock))
	if s.Err != nil {
		t.Fatal(s.Err)
	}
	return s.Value.Resting
}

func TestAFairLockRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		store := newTap(memory)
		a, b := startResting(t, Config{Store: store}), start(t, Config{Store: memory.Share()})
		usually(t, a, fairly("ann"))
		if !restsFairly(t, a) {
			t.Error("the lock went back")
		}
		calls := store.count("")
		for _, owner := range []lockagent.Owner{"ann", "bob"} {
			released(t, granted(t, a.Acquire(background, "door", fairly(owner))))
		}
		if n := store.count("") - calls; n != 0 {
			t.Errorf("%d calls for requests that come to a lock that rests", n)
		}
		asked := time.Now()
		released(t, granted(t, b.Acquire(background, "door", fairly("cid"))))
		if waited := time.Since(asked); waited != 0 { // virtual time
			t.Errorf("the other agent waited for %v", waited)
		}
		if restsFairly(t, a) {
			t.Error("the lock rests, though another agent had it")
		}
	})
}

// A lock that could rest is held. Those who come then get it in their order, whatever their agents.
func TestAFairLockThatMayRestGoesToTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		a, b := startResting(t, Config{Store: memory}), start(t, Config{Store: memory.Share()})
		usually(t, a, fairly("ann"))
		held := granted(t, a.Acquire(background, "door", fairly("ann")))
		var queue []<-chan lockagent.Grant
		for _, agent := range []*Agent{b, a, b, a} {
			queue = append(queue, agent.Acquire(background, "door", fairly("bob")))
			synctest.Wait() // until it has its place
		}
		released(t, held)
		for len(queue) > 0 {
			next := granted(t, queue[0])
			queue = queue[1:]
			synctest.Wait()
			for _, later := range queue {
				if len(later) > 0 {
					t.Error("a request that came later has the lock")
				}
			}
			released(t, next)
		}
	})
}

// Programs with Redisson tell nobody that they wait. The lock goes back soon, whoever uses it, and then they come first.
func TestAFairLockRestsForAMomentOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		a := startResting(t, Config{Store: memory})
		usually(t, a, fairly("ann"))
		waits, told := time.Now(), make(chan time.Duration, 1)
		memory.PlantWaiter("door", time.Hour, func() {
			select {
			case told <- time.Since(waits):
			default:
			}
		})
		holds := 0
		for len(told) == 0 && time.Since(waits) < 2*fairRest {
			released(t, granted(t, a.Acquire(background, "door", fairly("ann"))))
			holds++
			time.Sleep(100 * time.Microsecond)
		}
		if after := await(t, "the other program is told", told); after > fairRest {
			t.Errorf("told after %v, want %v at most", after, fairRest)
		}
		t.Logf("%d holds came first", holds)
	})
}
