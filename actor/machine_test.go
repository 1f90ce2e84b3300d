package actor

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// fairly is the request of an owner for a fair lock.
func fairly(owner lockagent.Owner) Request { return Request{Owner: owner, Kind: lockagent.FairLock} }

// Waiters of two agents get a fair lock in the order in which they came.
func TestFairOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 4
		store := memstore.New()
		w := &witness{}
		a, b := start(t, Config{Store: store.Share(), Recorder: w}), start(t, Config{Store: store, Recorder: w})
		holder := granted(t, a.Acquire(background, "door", fairly("holder")))
		var order []string
		grants := make(map[string]<-chan lockagent.Grant)
		ask := func(agent *Agent, owner string) {
			grants[owner] = agent.Acquire(background, "door", fairly(lockagent.Owner(owner)))
			synctest.Wait() // until it has its place
			order = append(order, owner)
		}
		for i := range waiters {
			ask(a, fmt.Sprint("a", i))
			ask(b, fmt.Sprint("b", i))
		}
		released(t, holder)
		last := holder.Token()
		for i, owner := range order {
			g := granted(t, grants[owner])
			if g.Token() <= last {
				t.Errorf("%s has token %d after %d", owner, g.Token(), last)
			}
			last = g.Token()
			for _, later := range order[i+1:] {
				silent(t, later, grants[later])
			}
			released(t, g)
		}
		for _, agent := range []*Agent{a, b} {
			closed(t, agent)
		}
		w.checkHolds(t)
	})
}

// Each hold of a fair lock lasts as long as its own tenure, which is renewed.
func TestFairHoldsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := start(t, Config{Store: store})
		g := granted(t, a.Acquire(background, "door", fairly("ann")))
		bob := a.Acquire(background, "door", fairly("bob"))
		try := refusal(t, a.Acquire(background, "door", Request{Owner: "cid", Kind: lockagent.FairLock, Try: true}), lockagent.ErrHeld)
		if want := (&lockagent.HeldError{Name: "door", Holder: "ann", Left: g.Remaining()}); try.Error() != want.Error() {
			t.Errorf("refused: %v, want %v", try, want)
		}
		before := g.Remaining()
		time.Sleep(5 * time.Minute)
		if !g.Held() || g.Remaining() < before-15*time.Second {
			t.Errorf("held %t for %v", g.Held(), g.Remaining())
		}
		released(t, g)
		released(t, granted(t, bob))
		settledAs(t, a, store, lockagent.FairLock, "door")
	})
}

// After a panic a fair lock withdraws every tenure that it may have in the store: another agent
// waits for none of them.
func TestFairStartsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newTap(store.Share())
		s.news = func(func(lockagent.Message), lockagent.Message) {} // nor is it told of its ghosts
		a, b := start(t, Config{Store: s, Logger: quiet}), start(t, Config{Store: store})
		granted(t, a.Acquire(background, "door", fairly("ann")))
		waiting := []<-chan lockagent.Grant{a.Acquire(background, "door", fairly("bob")), a.Acquire(background, "door", fairly("cid"))}
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

// Another process goes on with a fair lock: with its hold, and with those who wait, unless they give up.
func TestFairRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, b := leaving(t, Config{Store: store.Share()}), start(t, Config{Store: store})
		g := granted(t, a.Acquire(background, "door", fairly("ann")))
		bob := a.Acquire(background, "door", fairly("bob"))
		synctest.Wait()
		dan := b.Acquire(background, "door", fairly("dan"))
		synctest.Wait()
		n := detached(t, a)
		if len(n.Locks[0].Tenures) != 2 {
			t.Errorf("the snapshot has %d tenures, want that of the hold and that of the waiter", len(n.Locks[0].Tenures))
		}
		refused(t, bob, lockagent.ErrClosed)
		next := resuming(t, Config{Store: store.Share()}, n)
		waits := resumedOf(t, next, "bob")
		_ = <-next.Leave(background, "door", "bob")
		refused(t, waits.Grant, lockagent.ErrSessionClosed)
		h := claimed(t, next, "door")
		time.Sleep(time.Minute)
		silent(t, "dan", dan)
		if !h.Held() || h.Token() != g.Token() {
			t.Errorf("held %t with token %d", h.Held(), h.Token())
		}
		begin := time.Now()
		released(t, h)
		released(t, granted(t, dan))
		if time.Since(begin) != 0 {
			t.Errorf("dan waited %v: somebody had a place before him", time.Since(begin))
		}
		closed(t, next)
		closed(t, b)
	})
}
