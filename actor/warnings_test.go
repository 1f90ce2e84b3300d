package actor

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// given reports whether a channel is closed, when everything is at rest.
func given(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// warned expects a channel to be closed, or not.
func warned(t *testing.T, what string, c <-chan struct{}, want bool) {
	t.Helper()
	if got := given(c); got != want {
		t.Errorf("%s: %t; want %t", what, got, want)
	}
}

// A holder learns at once of another agent that waits, for each kind of lock. Nobody who does not wait counts.
func TestAnotherAgentWantsTheLock(t *testing.T) {
	for _, kind := range lockagent.LockKinds() {
		if kind == lockagent.Latch {
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				one, two := start(t, Config{Store: store}), start(t, Config{Store: store.Share()})
				if kind == lockagent.Semaphore || kind == lockagent.Permits {
					<-one.Permits(background, lockagent.PermitsRequest{
						Name: "door", Kind: kind, Op: lockagent.TrySetPermits, N: 1,
					})
				}
				g := granted(t, one.Acquire(background, "door", Request{Owner: "ann", Kind: kind}))
				wanted := g.Wanted()
				refused(
					t, two.Acquire(background, "door", Request{Owner: "bob", Kind: kind, Try: true}), lockagent.ErrHeld,
				)
				time.Sleep(time.Hour)
				warned(t, "nobody waits", wanted, false)
				c := two.Acquire(background, "door", Request{Owner: "bob", Kind: kind, Wait: time.Minute})
				time.Sleep(10 * time.Millisecond)
				warned(t, "another agent waits", wanted, true)
				refused(t, c, lockagent.ErrTimeout)
				warned(t, "nobody waits any more", g.Wanted(), true)
				released(t, g)
				next := granted(t, two.Acquire(background, "door", Request{Owner: "bob", Kind: kind}))
				warned(t, "of the next hold", next.Wanted(), false)
				released(t, next)
			})
		})
	}
}

// Outsiders send no message. The renewal tells of them, and looks only for holders that ask.
func TestAnOutsiderWantsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newTap(store)
		a := start(t, Config{Store: s})
		g, other := granted(
			t, a.Acquire(background, "door", who("ann")),
		), granted(t, a.Acquire(background, "gate", who("ann")))
		var watched []lockagent.Name
		s.on("renew", func(o *op) {
			if o.watched {
				watched = append(watched, o.name)
			}
			o.run()
		})
		wanted := g.Wanted()
		for _, name := range []lockagent.Name{"door", "gate"} {
			defer store.PlantOutsider(name, func() {})()
		}
		warned(t, "before the renewal", wanted, false)
		time.Sleep(10 * time.Second)
		warned(t, "after the renewal", wanted, true)
		warned(t, "of a hold whose owner did not ask", other.Wanted(), false)
		if !slices.Equal(watched, []lockagent.Name{"door"}) {
			t.Errorf("looked who waits for %q", watched)
		}
		released(t, g)
		released(t, other)
	})
}

// A pass tells that more agents wait.
func TestTheNextHolderLearnsOfTheOneBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		one, two, three := start(t, Config{Store: store}), start(
			t, Config{Store: store.Share()},
		), start(t, Config{Store: store.Share()})
		g := granted(t, one.Acquire(background, "door", who("ann")))
		second := two.Acquire(background, "door", who("bob"))
		synctest.Wait()
		third := three.Acquire(background, "door", who("cid"))
		synctest.Wait()
		released(t, g)
		g = granted(t, second)
		warned(t, "cid waits", g.Wanted(), true)
		released(t, g)
		g = granted(t, third)
		warned(t, "nobody waits", g.Wanted(), false)
		released(t, g)
	})
}

func TestAHoldIsUncertainUntilARenewalSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := start(t, Config{Store: store})
		d := &onlooker{}
		g := granted(t, a.Acquire(background, "door", Request{Owner: "ann", Watch: d}))
		brief := granted(t, a.Acquire(background, "gate", Request{Owner: "ann", Lease: 29 * time.Second}))
		deadline := g.Remaining()
		uncertain := g.Uncertain()
		store.SetOutage(lockagent.ErrStoreUnavailable)
		time.Sleep(2*deadline/3 - time.Millisecond)
		warned(t, "renewals fail", uncertain, false)
		time.Sleep(2 * time.Millisecond)
		warned(t, "two thirds are over", uncertain, true)
		warned(t, "for whoever asks late", g.Uncertain(), true)
		warned(t, "a fixed lease needs no renewal", brief.Uncertain(), false)
		if left := g.Remaining(); left > deadline/3 || !g.Held() {
			t.Errorf("%v are left", left)
		}
		store.SetOutage(nil)
		time.Sleep(deadline / 4)
		warned(t, "a later renewal succeeds", uncertain, true)
		warned(t, "another channel", g.Uncertain(), false)
		released(t, g)
		warned(t, "the hold is over", g.Uncertain(), false)
		released(t, brief)
		synctest.Wait()
		if !slices.Contains(d.told, "wanted: false, uncertain: true") ||
			!slices.Contains(d.told, "wanted: false, uncertain: false") {
			t.Errorf("the watcher was told %q", d.told)
		}
	})
}

// Whoever asks only whether the hold is uncertain learns nothing of those who waited before somebody asks for them.
func TestAStaleWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		g := granted(t, a.Acquire(background, "door", reads("ann")))
		other := granted(t, a.Acquire(background, "door", reads("cid")))
		warned(t, "nobody else wants the lock", other.Wanted(), false)
		uncertain := g.Uncertain()
		writer := a.Acquire(background, "door", Request{Owner: "bob", Kind: lockagent.ReadWriteLock, Wait: time.Second})
		synctest.Wait()
		warned(t, "the hold is uncertain", uncertain, false)
		warned(t, "a writer wants the lock", other.Wanted(), true)
		refused(t, writer, lockagent.ErrTimeout)
		time.Sleep(time.Minute) // after a renewal
		warned(t, "a writer that has given up wants the lock", g.Wanted(), false)
		released(t, other)
		released(t, g)
	})
}

// A fixed lease that becomes longer than that of the store depends on a renewal, which may be in danger already.
func TestAnExtendedHoldIsUncertainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := start(t, Config{Store: store})
		kept := granted(t, a.Acquire(background, "door", reads("ann")))
		r := reads("bob")
		r.Lease = DefaultLease - time.Second
		brief := granted(t, a.Acquire(background, "door", r))
		uncertain := brief.Uncertain()
		store.SetOutage(lockagent.ErrStoreUnavailable)
		time.Sleep(2*DefaultLease/3 + time.Second)
		warned(t, "a lease that is kept", kept.Uncertain(), true)
		warned(t, "a lease that ends before", uncertain, false)
		extended := brief.ExtendAsync(background, time.Hour)
		warned(t, "a lease that was extended", uncertain, true)
		store.SetOutage(nil)
		if err := await(t, "extension", extended); err != nil {
			t.Error(err)
		}
		warned(t, "after the renewal", brief.Uncertain(), false)
		released(t, kept)
		released(t, brief)
	})
}
