package lockstate

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// The lease of a pass is trusted for 1.8 s.
const passTrust = 1800 * time.Millisecond

func TestAttemptAsksForAPlaceInTheQueue(t *testing.T) {
	queue := func(r *rig, want bool) {
		r.t.Helper()
		if got := r.last(Attempted).Queue; got != want {
			r.t.Errorf("asks for a place in the queue: %t, want %t", got, want)
		}
	}
	t.Run("once wake-ups are wanted", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		queue(r, false)
		r.busy(time.Minute)
		r.step(Woken{})
		queue(r, true)
	})
	t.Run("at once while they are wanted still", func(t *testing.T) {
		r := newRig(t)
		r.pass(time.Second)
		r.acquire("ann")
		r.busy(time.Minute)
		r.step(Woken{})
		r.granted()
		r.release("ann")
		r.returned(0)
		r.acquire("bob")
		queue(r, true)
	})
	t.Run("but not for those who would not wait", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.busy(time.Minute)
		r.cancel("ann")
		r.try("bob")
		queue(r, false)
		r.busy(time.Minute)
		r.acquire("cid")
		queue(r, true)
	})
}

func TestPassWhileAsleep(t *testing.T) {
	// The call is sent at 0, and takes so long to the store and back.
	const way = 100 * time.Millisecond
	asleep := func(t *testing.T) *rig {
		r := newRig(t, func(c *Config) { c.HandOffGrants = 10 })
		r.acquire("ann", "bob")
		r.pass(way)
		at := storeTime(r.now)
		r.pass(way)
		r.acquireReplied(lockagent.AcquireReply{Holder: "other:7", Remaining: time.Minute, At: at, Queued: true}, nil)
		r.skip()
		return r
	}
	t.Run("begins the tenure", func(t *testing.T) {
		r := asleep(t)
		r.pass(time.Second)
		r.passed(r.now)
		r.want("Began", "Granted ann 101")
		g := r.last(Granted)
		if g.Tenure != r.asked || g.StoreTime != storeTime(r.now) || g.Lease != lockagent.PassLease ||
			g.Incarnation != "one" || g.How != lockagent.ByStore {
			t.Errorf("granted %+v", g)
		}
	})
	t.Run("is trusted from the instant that the clock of the store tells, however late it comes", func(t *testing.T) {
		r := asleep(t)
		const made = 5 * time.Second
		r.pass(made + 3*way - time.Duration(r.now))
		r.passed(Instant(made))
		r.want("Began", "Granted ann 101")
		// The store's clock showed the time of the answer at 0 or later, so that of the
		// pass 4.9 s after that or later.
		if want := Instant(made - way + passTrust); r.s.tenure.deadline != want {
			t.Errorf("trusted until %v, want %v", time.Duration(r.s.tenure.deadline), time.Duration(want))
		}
	})
	t.Run("counts from no later than its arrival", func(t *testing.T) {
		r := asleep(t)
		r.passed(Instant(time.Hour)) // the store's clock was set
		r.want("Began", "Granted ann 101")
		if got := r.last(Began).Sent; got != r.now {
			t.Errorf("trusted from %v, at %v", time.Duration(got), time.Duration(r.now))
		}
	})
	t.Run("has the store asked at once if it is not trusted any more", func(t *testing.T) {
		r := asleep(t)
		made := r.now // which may be as early as one way before
		r.pass(passTrust - way - 1)
		r.passed(made)
		r.want("Began", "Granted ann 101", "Renewing 30s", "BecameUncertain")

		r = asleep(t)
		r.pass(passTrust - way)
		r.passed(made)
		r.want("Woke", "Attempted 30s")
		r.granted()
		r.want("Began", "Granted ann 104")
	})
	t.Run("has the store asked at once if the lock was found busy since", func(t *testing.T) {
		r := asleep(t)
		r.passed(Instant(way - time.Microsecond))
		r.want("Woke", "Attempted 30s")
	})
	t.Run("has the store asked at once if no answer tells when it was", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.attemptFails(errStore)
		r.skip()
		r.passed(r.now)
		r.want("Woke", "Attempted 30s")
	})
	t.Run("of another tenure is nothing to us", func(t *testing.T) {
		r := asleep(t)
		r.asked--
		r.passed(r.now)
		r.want()
	})
	t.Run("comes twice", func(t *testing.T) {
		r := asleep(t)
		r.passed(r.now)
		r.skip()
		r.passed(r.now)
		r.want()
	})
	t.Run("has the store asked at once if the clock is another", func(t *testing.T) {
		r := asleep(t)
		r.step(Passed{Tenure: r.asked, Token: 101, At: storeTime(r.now), Clock: "another"})
		r.want("Woke", "Attempted 30s")
	})
	t.Run("has the store asked at once if it is unconfirmed", func(t *testing.T) {
		unconfirmed := func(r *rig) {
			r.step(Passed{Tenure: r.asked, Token: 101, At: storeTime(r.now), Incarnation: "one", Unconfirmed: true})
		}
		r := asleep(t)
		unconfirmed(r)
		r.want("Woke", "Attempted 30s")
		unconfirmed(r) // while a call is under way, whose answer is older
		r.want("Woke")
		r.queued(time.Minute)
		r.want("FoundBusy", "Attempted 30s")
		r.granted()
		r.want("Began", "Granted ann 101")
		unconfirmed(r)
		r.want()
	})
	t.Run("has the store asked at once if its token is not above the floor", func(t *testing.T) {
		r := asleep(t)
		r.passed(r.now)
		r.release("ann")
		r.release("bob") // token 102
		r.returned(0)
		r.acquire("cid")
		r.queued(time.Minute)
		r.skip()
		r.step(Passed{Tenure: r.asked, Token: 102, At: storeTime(r.now)})
		r.want("Woke", "Attempted 2s")
		if got := r.last(Attempted).Floor; got != 102 {
			t.Errorf("asks for tokens above %d, want 102", got)
		}
	})
	t.Run("tells of outsiders", func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.HandOffTime = 5 * time.Millisecond })
		r.acquire("ann", "bob")
		r.queued(time.Minute)
		r.step(Passed{Tenure: r.asked, Token: 101, At: storeTime(r.now), Outsiders: 2})
		r.pass(time.Millisecond)
		r.skip()
		r.release("ann")
		r.want("Ended ann", "Returning")
	})
	t.Run("follows a call that failed", func(t *testing.T) {
		r := asleep(t)
		r.step(Woken{})
		r.attemptFails(errStore)
		r.skip()
		r.passed(r.now)
		r.want("Began", "Granted ann 101")
		r.pass(time.Second)
		r.skip()
		r.renewed(false) // and the call that failed may arrive yet
		r.want("Ended ann: denied", "Denied", "Withdrawing")
	})
	t.Run("of the same time as the answer may be the older one", func(t *testing.T) {
		r := asleep(t)
		r.passed(Instant(way))
		r.skip()
		r.pass(time.Second)
		r.skip()
		r.renewed(false) // it was broken, say, and the tenure came into the queue after that
		r.want("Ended ann: denied", "Denied", "Withdrawing")
	})
	t.Run("leaves no doubt otherwise", func(t *testing.T) {
		r := asleep(t)
		r.passed(Instant(way + time.Microsecond))
		r.pass(time.Second)
		r.skip()
		r.renewed(false)
		r.want("Ended ann: denied", "Denied", "Attempted 30s")
	})
}

func TestPassWhileTheStoreIsAsked(t *testing.T) {
	// The tenure is in the queue, and a second call is under way, sent at 1 s.
	asking := func(t *testing.T) *rig {
		r := newRig(t)
		r.acquire("ann")
		r.queued(time.Minute)
		r.pass(time.Second)
		r.step(Woken{})
		r.skip()
		return r
	}
	t.Run("waits for the answer", func(t *testing.T) {
		r := asking(t)
		r.passed(r.now)
		r.want("Offered")
	})
	t.Run("is of no use if that is a grant", func(t *testing.T) {
		r := asking(t)
		r.passed(r.now)
		r.granted()
		r.want("Offered", "Began", "Granted ann 104")
		if got := r.s.tenure.deadline; got != Instant(29*time.Second) {
			t.Errorf("trusted until %v, want 29s", time.Duration(got))
		}
	})
	t.Run("begins the tenure if the lock was busy before it", func(t *testing.T) {
		r := asking(t)
		r.try("bob") // who is served, not turned away
		at := r.now
		r.pass(500 * time.Millisecond)
		r.passed(r.now)
		r.skip()
		r.acquireReplied(
			lockagent.AcquireReply{Holder: "other:7", Remaining: time.Minute, At: storeTime(at), Queued: true}, nil,
		)
		r.want("Began", "Granted ann 101", "Answered bob: held by ann for 1.8s")
	})
	t.Run("begins the tenure if there was no answer about the queue before", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.passed(r.now)
		r.skip()
		r.queued(time.Minute)
		r.want("Began", "Granted ann 101")
	})
	t.Run("is over if the lock was busy after it", func(t *testing.T) {
		r := asking(t)
		at := r.now
		r.passed(at)
		r.pass(time.Millisecond)
		r.skip()
		r.queued(time.Minute)
		r.want("FoundBusy", "Attempted 30s")
		r.queued(time.Minute)
		r.want("FoundBusy")
	})
	t.Run("begins the tenure if there is no answer", func(t *testing.T) {
		r := asking(t)
		r.passed(r.now)
		r.skip()
		r.attemptFails(errStore)
		r.want("AttemptFailed", "Began", "Granted ann 101")
		r.pass(time.Second)
		r.skip()
		r.renewed(false)
		r.want("Ended ann: denied", "Denied", "Withdrawing")
	})
	t.Run("is not trusted any more when there is no answer", func(t *testing.T) {
		r := asking(t)
		r.passed(r.now)
		r.skip()
		r.pass(passTrust)
		r.attemptFails(errStore)
		r.want("AttemptFailed")
	})
	t.Run("is of no use if no answer tells when it was", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.passed(r.now)
		r.skip()
		r.attemptFails(errStore)
		r.want("AttemptFailed")
	})
	t.Run("is of no use if the tenure is withdrawn", func(t *testing.T) {
		r := asking(t)
		r.passed(r.now)
		r.skip()
		r.attemptFails(lockagent.ErrWithdrawn)
		r.want("AttemptFailed")
	})
	t.Run("is returned if nobody waits when the answer comes", func(t *testing.T) {
		r := asking(t)
		at := r.now
		r.passed(at)
		r.cancel("ann")
		r.skip()
		r.acquireReplied(lockagent.AcquireReply{Holder: "other:7", At: storeTime(at), Queued: true}, nil)
		r.want("Began", "Returning")
	})
	t.Run("is returned if everybody was refused", func(t *testing.T) {
		r := asking(t)
		r.passed(r.now)
		r.skip()
		r.attemptFails(lockagent.ErrNotPermitted)
		r.want("Answered ann: not permitted", "AttemptRefused", "Withdrawing")
	})
	t.Run("is doubted if the store was reset", func(t *testing.T) {
		r := asking(t)
		at := r.now
		r.passed(at)
		r.step(StoreReset{})
		r.skip()
		r.acquireReplied(lockagent.AcquireReply{Holder: "other:7", At: storeTime(at), Queued: true}, nil)
		r.want("Began", "Renewing 30s")
	})
}

func TestTenureInTheQueueIsWithdrawn(t *testing.T) {
	t.Run("when nobody waits any more", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.queued(time.Minute)
		r.skip()
		r.cancel("ann")
		r.want("Answered ann: timeout", "Withdrawing")
		if r.s.tenure.number != r.asked {
			t.Errorf("returns tenure %d, want %d", r.s.tenure.number, r.asked)
		}
		if r.last(Withdrawing).Unanswered {
			t.Error("every attempt was answered")
		}
		r.passed(r.now) // too late to be of use
		r.want()
		r.returned(0)
		r.want("Withdrawn")
	})
	t.Run("also when the last answer does not tell of the queue", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.queued(time.Minute)
		r.step(Woken{})
		r.busy(time.Minute)
		r.skip()
		r.cancel("ann")
		r.want("Answered ann: timeout", "Withdrawing")
	})
	t.Run("on closing", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.queued(time.Minute)
		r.skip()
		r.step(Close{})
		r.want("Closed", "Answered ann: closed", "Withdrawing")
	})
}

func TestLeaseOfAPass(t *testing.T) {
	passed := func(t *testing.T, lease time.Duration) *rig {
		r := newRig(t)
		r.acquireFixed("ann", lease)
		r.queued(time.Minute)
		r.skip()
		r.passed(r.now)
		return r
	}
	third := lockagent.PassLease / 3
	t.Run("is not renewed for a short hold", func(t *testing.T) {
		r := passed(t, 0)
		r.want("Began", "Granted ann 101")
		r.pass(third - 1)
		r.release("ann")
		r.want("Ended ann", "Returning")
	})
	t.Run("is renewed in full when a third of it has passed", func(t *testing.T) {
		r := passed(t, 0)
		r.skip()
		r.pass(third)
		r.want("Renewing 30s")
		if r.last(Renewing).Urgent {
			t.Error("the renewal is urgent, with most of the lease left")
		}
		r.renewed(true)
		r.want("Renewed")
		if want := Instant(third + 28*time.Second); r.s.tenure.deadline != want {
			t.Errorf("trusted until %v, want %v", time.Duration(r.s.tenure.deadline), time.Duration(want))
		}
		r.alarmIn(10*time.Second, 10*time.Second+100*time.Millisecond)
	})
	t.Run("is renewed at once if little is left of it", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.queued(time.Minute)
		r.pass(passTrust - 800*time.Millisecond)
		r.skip()
		r.passed(0) // late
		r.want("Began", "Granted ann 101", "Renewing 30s")
		if !r.last(Renewing).Urgent {
			t.Error("the renewal is not urgent, with less than half of the lease left")
		}
	})
	t.Run("is renewed if a fixed lease is longer", func(t *testing.T) {
		r := passed(t, 10*time.Second)
		r.want("Began", "Granted ann 101 until 9s", "Renewing 10s")
		if r.last(Renewing).Urgent {
			t.Error("the renewal is urgent, with all of the lease left")
		}
		r.renewed(true)
		r.skip()
		r.pass(9 * time.Second)
		r.want("Ended ann: expired", "Returning")
	})
	t.Run("is not renewed if a fixed lease is shorter", func(t *testing.T) {
		r := passed(t, time.Second)
		r.want("Began", "Granted ann 101 until 900ms")
		r.pass(900 * time.Millisecond)
		r.want("Ended ann: expired", "Returning")
	})
	t.Run("ends the hold if it cannot be renewed", func(t *testing.T) {
		r := passed(t, 0)
		r.skip()
		r.pass(passTrust)
		r.want("Renewing 30s", "BecameUncertain", "Ended ann: deadline", "Returning")
	})
	t.Run("is renewed in the time of a watchdog that is shorter", func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Watchdog = time.Second })
		r.acquire("ann")
		r.queued(time.Minute)
		r.passed(r.now)
		r.skip()
		due := passTrust - Trust(time.Second) + time.Second/3
		r.alarmIn(due, due)
		r.pass(due)
		r.want("Renewing 1s")
		if r.last(Renewing).Urgent {
			t.Error("a renewal in its own time is urgent")
		}
	})
}

func TestTinyLeaseThatIsToBeKeptIsRenewedAtOnce(t *testing.T) {
	for _, tt := range []struct {
		lease time.Duration
		want  []string
	}{
		{lockagent.PassLease, []string{"Requested ann+", "Extended ann+, kept", "Reentered ann+ 101 x2"}},
		{lockagent.PassLease - 1, []string{"Requested ann+", "Extended ann+, kept", "Reentered ann+ 101 x2", "Renewing 30s"}},
	} {
		r := newRig(t)
		r.acquireFixed("ann+", tt.lease)
		r.granted()
		r.skip()
		r.acquire("ann+")
		r.want(tt.want...)
	}
}

func TestReturnThatPassesTheLock(t *testing.T) {
	r := newRig(t, func(c *Config) { c.HandOffGrants = 1 })
	r.hold("ann", "bob")
	r.release("ann")
	r.skip()
	r.step(ReleaseReplied{
		Tenure: r.asked, Reply: lockagent.ReleaseReply{Released: true, At: storeTime(r.now), Passed: true, Others: -1},
	})
	r.want("Returned", "Unlocked 1", "Attempted 2s") // at once, for the next place
	r.queued(lockagent.PassLease)
	r.want("FoundBusy")
	r.alarmIn(lockagent.PassLease, lockagent.PassLease+110*time.Millisecond)
}
