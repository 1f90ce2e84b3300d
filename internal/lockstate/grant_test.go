package lockstate

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestUncontendedLockCostsOneAcquireAndOneRelease(t *testing.T) {
	r := newRig(t)
	r.idle(true)
	r.acquire("ann")
	r.want("Requested ann", "Attempted 30s")
	r.idle(false)
	r.granted()
	r.want("Began", "Granted ann 101")
	r.release("ann")
	r.want("Ended ann", "Returning")
	r.returned(0)
	r.want("Returned", "Unlocked 1")
	r.idle(true)
	r.noAlarm()
	if r.s.Listening() {
		t.Error("an uncontended lock wants wake-ups")
	}
}

func TestGrantTellsWhatTheStoreConfirmed(t *testing.T) {
	r := newRig(t)
	r.pass(5 * time.Second)
	r.acquire("ann")
	r.pass(time.Second) // the call takes a second
	r.granted()
	g := r.last(Granted)
	if got, want := r.last(Began).Sent, Instant(5*time.Second); got != want {
		t.Errorf("Sent %v, want %v: the instant before the call", got, want)
	}
	if want := Instant(5*time.Second + 28*time.Second); r.s.tenure.deadline != want {
		t.Errorf("deadline %v, want %v: the lease and its margin, from before the call", r.s.tenure.deadline, want)
	}
	if g.StoreTime != storeTime(r.now) || g.Lease != 30*time.Second || g.Incarnation != "one" || g.Tenure != r.asked ||
		g.How != lockagent.ByStore {
		t.Errorf("the grant does not tell the store's confirmation: %+v", g)
	}
	if want := r.now.add(r.s.cfg.Claim); g.ClaimBy != want {
		t.Errorf("to be claimed by %v, want %v", g.ClaimBy, want)
	}
	owner, token, count, tenure := r.s.Hold()
	if owner != "ann" || token != 101 || count != 1 || tenure != r.asked {
		t.Errorf("Holder is %q, %d, %d, %d", owner, token, count, tenure)
	}
}

func TestLateGrantIsReturned(t *testing.T) {
	t.Run("and the lock asked for again, for a kept lease", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		first := r.asked
		r.pass(28 * time.Second) // the deadline, had it been granted
		r.skip()
		r.granted()
		r.want("Began", "Returning")
		if r.asked != first {
			t.Errorf("returns tenure %d, want %d", r.asked, first)
		}
		r.returned(0)
		r.want("Returned", "Attempted 30s")
		if r.asked == first {
			t.Error("the number of a tenure that was returned is used again")
		}
		r.granted()
		r.want("Began", "Granted ann 104")
	})
	t.Run("but not a nanosecond too early", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.pass(28*time.Second - 1)
		r.skip()
		r.granted()
		r.want("Began", "Granted ann 101", "Renewing 30s", "BecameUncertain")
	})
	t.Run("and a request for a fixed lease is told that it was too short", func(t *testing.T) {
		r := newRig(t)
		r.acquireFixed("ann", time.Second)
		r.want("Requested ann", "Attempted 1s")
		r.pass(900 * time.Millisecond)
		r.granted()
		r.want("Began", "Answered ann: lease too short", "Returning")
		r.returned(0)
		r.want("Returned")
		r.idle(true)
	})
	t.Run("without blaming a request that arrived after the attempt was sent", func(t *testing.T) {
		r := newRig(t)
		r.acquireFixed("ann", time.Second)
		r.pass(800 * time.Millisecond)
		r.cancel("ann")
		r.acquireFixed("bob", time.Second)
		r.pass(100 * time.Millisecond)
		r.skip()
		r.granted()
		r.want("Began", "Returning")
		r.returned(0)
		r.want("Returned", "Attempted 1s")
	})
}

func TestFixedLease(t *testing.T) {
	t.Run("is trusted from before the attempt", func(t *testing.T) {
		r := newRig(t)
		r.acquireFixed("ann", 10*time.Second)
		r.pass(time.Second)
		r.skip()
		r.granted()
		r.want("Began", "Granted ann 101 until 9s")
	})
	t.Run("expires at its deadline and is never renewed", func(t *testing.T) {
		r := newRig(t)
		r.acquireFixed("ann", 10*time.Second)
		r.granted()
		r.skip()
		r.alarmIn(9*time.Second, 9*time.Second)
		r.pass(9*time.Second - 1)
		r.want()
		r.pass(1)
		r.want("Ended ann: expired", "Returning")
		r.returned(0)
		r.want("Returned")
	})
	t.Run("of a request that arrived after the attempt counts from its grant", func(t *testing.T) {
		r := newRig(t)
		r.acquireFixed("ann", 10*time.Second)
		r.pass(8 * time.Second)
		r.cancel("ann")
		r.acquireFixed("bob", 10*time.Second)
		r.skip()
		r.granted()
		r.want("Began", "Granted bob 101 until 17s", "Renewing 10s")
	})
}

// A tenure that was asked for in the name of one request may serve another.
func TestGrantForAnotherRequestThanTheLockWasAskedFor(t *testing.T) {
	t.Run("a kept lease after a short fixed one is renewed when a third of that has passed", func(t *testing.T) {
		r := newRig(t)
		r.acquireFixed("ann", 10*time.Second)
		r.acquire("bob")
		r.cancel("ann")
		r.skip()
		r.granted()
		r.want("Began", "Granted bob 101")
		third := 10 * time.Second / 3
		r.alarmIn(third, third)
		r.pass(third)
		r.want("Renewing 30s")
	})
	t.Run("a lease that the store would keep for longer than the request needs is returned", func(t *testing.T) {
		for _, ask := range []func(*rig, lockagent.Owner){
			func(r *rig, o lockagent.Owner) { r.acquireFixed(o, 10*time.Second) },
			func(r *rig, o lockagent.Owner) { r.acquire(o) },
		} {
			r := newRig(t)
			r.acquireFixed("ann", time.Hour)
			ask(r, "bob")
			r.cancel("ann")
			r.skip()
			r.granted()
			r.want("Began", "Returning")
			r.returned(0)
			r.skip()
			r.granted()
			bob := r.last(Granted).Request
			if got, want := r.s.left(r.now), r.s.lease(&bob); bob.Owner != "bob" || got != want {
				t.Errorf("%s holds the lock, which the store keeps for %v, want %v", bob.Owner, got, want)
			}
		}
	})
	t.Run("so is one that an attempt without an answer may have begun", func(t *testing.T) {
		r := newRig(t)
		r.acquireFixed("ann", time.Hour)
		r.acquire("bob")
		r.attemptFails(errStore)
		r.cancel("ann")
		r.pass(time.Second)
		r.skip()
		r.granted()
		r.want("Began", "Returning")
	})
}

func TestReentry(t *testing.T) {
	t.Run("is granted at once, under the token of the hold, and counted", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		r.acquire("ann+")
		r.want("Requested ann+", "Reentered ann+ 101 x2")
		r.acquire("ann+")
		r.want("Requested ann+", "Reentered ann+ 101 x3")
		if _, token, count, _ := r.s.Hold(); token != 101 || count != 3 {
			t.Errorf("held %d times under token %d, want 3 times under 101", count, token)
		}
	})
	t.Run("goes past everybody who waits", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+", "bob", "cid+")
		r.acquire("ann+")
		r.want("Requested ann+", "Reentered ann+ 101 x2")
	})
	t.Run("of a request that would not wait is granted too", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		r.try("ann+")
		r.want("Requested ann+", "Reentered ann+ 101 x2")
	})
	t.Run("is for sessions only", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.acquire("ann")
		r.want("Requested ann", "Queued ann")
	})
	t.Run("is not for other sessions", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		r.acquire("bob+")
		r.want("Requested bob+", "Queued bob+")
	})
	t.Run("serves all that the session asked for while it waited", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann+")
		r.acquire("bob", "ann+")
		r.skip()
		r.granted()
		r.want("Began", "Granted ann+ 101", "Reentered ann+ 101 x2")
	})
	t.Run("is not granted into a hold that is past its deadline", func(t *testing.T) {
		r := newRig(t)
		r.acquireFixed("ann+", 10*time.Second)
		r.granted()
		r.skip()
		r.passLate(9 * time.Second)
		r.acquire("ann+")
		r.want("Requested ann+", "Ended ann+: expired", "Returning")
		r.returned(0)
		r.want("Returned", "Attempted 30s")
	})
	t.Run("holds until the last grant is released, in whatever order", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		outer := r.ids["ann+"]
		r.acquire("ann+")
		r.skip()
		r.step(Release{ID: outer, Call: 7})
		r.want("Ended ann+, 1 left", "Unlocked 7")
		r.release("ann+")
		r.want("Ended ann+", "Returning")
		r.returned(0)
		r.want("Returned", "Unlocked 1")
	})
}

// The holds of a session have one lease.
func TestLeaseOfASession(t *testing.T) {
	fixed := func(r *rig, lease time.Duration) { r.request(Request{Owner: "ann+", Lease: lease}) }
	t.Run("begins anew with a re-entry", func(t *testing.T) {
		r := newRig(t)
		r.holdFixed("ann+", 10*time.Second)
		r.pass(5 * time.Second)
		fixed(r, 10*time.Second)
		r.want("Requested ann+", "Extended ann+ until 14s", "Reentered ann+ 101 until 14s x2", "Renewing 10s")
		r.renewed(true)
		r.skip()
		r.pass(9*time.Second - 1)
		r.want()
		r.pass(1)
		r.want("Ended ann+: expired, 1 left", "Ended ann+: expired", "Returning")
	})
	t.Run("does not end earlier because of a re-entry", func(t *testing.T) {
		r := newRig(t)
		r.holdFixed("ann+", 20*time.Second)
		fixed(r, 10*time.Second)
		r.want("Requested ann+", "Reentered ann+ 101 until 18s x2")
	})
	t.Run("begins anew with a release that leaves a hold", func(t *testing.T) {
		r := newRig(t)
		r.holdFixed("ann+", 10*time.Second)
		fixed(r, 10*time.Second)
		r.pass(5 * time.Second)
		r.skip()
		r.releaseOwner("ann+")
		r.want("Ended ann+, 1 left", "Unlocked 1", "Extended ann+ until 14s", "Renewing 10s")
		r.releaseOwner("ann+")
		r.want("Ended ann+", "Returning")
	})
	t.Run("begins anew with an extension of one hold", func(t *testing.T) {
		r := newRig(t)
		r.holdFixed("ann+", 10*time.Second)
		fixed(r, 10*time.Second)
		r.skip()
		r.extend("ann+", 20*time.Second)
		r.want("Extended ann+ until 18s", "Extended ann+ until 18s", "Renewing 20s")
	})
	t.Run("begins with two grants at once", func(t *testing.T) {
		r := newRig(t)
		fixed(r, 10*time.Second)
		fixed(r, 20*time.Second)
		r.skip()
		r.granted()
		r.want(
			"Began", "Granted ann+ 101 until 9s", "Extended ann+ until 18s", "Reentered ann+ 101 until 18s x2", "Renewing 20s",
		)
	})
	t.Run("is kept while one of the holds is", func(t *testing.T) {
		r := newRig(t)
		r.holdFixed("ann+", 10*time.Second)
		r.acquire("ann+")
		r.want("Requested ann+", "Extended ann+, kept", "Reentered ann+ 101 x2")
		r.pass(10 * time.Second / 3)
		r.want("Renewing 30s")
		r.renewed(true)
		r.skip()
		r.pass(11 * time.Second)
		r.want("Renewing 30s")
		r.renewed(true)
		r.skip()
		fixed(r, time.Minute)
		r.want("Requested ann+", "Reentered ann+ 101 x3")
		r.releaseOwner("ann+")
		r.skip()
		until := time.Duration(r.s.tenure.deadline)
		r.releaseOwner("ann+")                                                            // the kept one
		r.want("Ended ann+, 1 left", "Unlocked 2", "Extended ann+ until "+until.String()) // as its owner was told
	})
	t.Run("has an extension, also after it was kept", func(t *testing.T) {
		for name, when := range map[string]struct{ before, beside bool }{
			"before":               {before: true},
			"beside the kept hold": {beside: true},
		} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t)
				r.holdFixed("ann+", 10*time.Second)
				outer := r.ids["ann+"]
				if when.before {
					r.step(Extend{ID: outer, Lease: time.Hour})
				}
				r.acquire("ann+")
				r.skip()
				if when.beside {
					r.step(Extend{ID: outer, Lease: time.Hour})
					r.want("Extended ann+, kept")
				}
				r.release("ann+")
				if got, want := r.last(Extended).Fixed, Instant(new(Config).trust(time.Hour)); got != want {
					t.Errorf("it ends at %v, want %v", time.Duration(got), time.Duration(want))
				}
			})
		}
	})
	t.Run("is that of a kept hold from the beginning", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		fixed(r, 10*time.Second)
		r.want("Requested ann+", "Reentered ann+ 101 x2")
	})
	t.Run("is lost with the tenure if it cannot be kept", func(t *testing.T) {
		r := newRig(t)
		r.holdFixed("ann+", 10*time.Second)
		r.acquire("ann+")
		r.skip()
		r.pass(9 * time.Second)
		r.want("Renewing 30s", "BecameUncertain", "Ended ann+: deadline, 1 left", "Ended ann+: deadline", "Returning")
	})
	t.Run("begins anew when a kept grant is taken back", func(t *testing.T) {
		r := newRig(t)
		r.holdFixed("ann+", 10*time.Second)
		r.acquire("ann+")
		r.pass(time.Second)
		r.skip()
		r.step(Unclaimed{ID: r.ids["ann+"]})
		r.want("Ended ann+: unclaimed, 1 left", "Extended ann+ until 10s", "Renewing 10s")
	})
	t.Run("that is to outlive its process is not kept", func(t *testing.T) {
		r := newRig(t)
		r.request(Request{Owner: "ann+", Lease: time.Hour, Outlive: true})
		r.granted()
		r.skip()
		r.acquire("ann+")
		r.want("Requested ann+", "Reentered ann+ 101 x2")
	})
	t.Run("is its own without a session", func(t *testing.T) {
		r := newRig(t)
		r.request(Request{Owner: "ann", Mode: Shared, Lease: 10 * time.Second})
		r.granted()
		r.skip()
		r.request(Request{Owner: "bob", Mode: Shared, Lease: 20 * time.Second})
		r.want("Requested bob", "Granted bob 102 by hand-off until 18s", "Renewing 20s shared")
	})
	t.Run("is that of many holds", func(t *testing.T) {
		r := newRig(t)
		r.holdFixed("ann+", 10*time.Second)
		for range 3 * fewRequests {
			fixed(r, 10*time.Second)
		}
		r.pass(time.Second)
		r.acquire("ann+")
		r.releaseOwner("ann+")
		r.skip()
		for x := range r.s.requests.grants {
			if x.fixed != Instant(10*time.Second) {
				t.Errorf("a hold ends at %v", time.Duration(x.fixed))
			}
		}
	})
}
