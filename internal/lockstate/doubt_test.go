package lockstate

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestRenewalsThatAreUrgent(t *testing.T) {
	r := newRig(t)
	r.hold("ann")
	r.pass(10 * time.Second)
	if r.last(Renewing).Urgent {
		t.Error("a renewal in its own time is urgent")
	}
	r.renewed(true)
	r.step(StoreReset{}) // as for all other locks, which had better gather
	if r.last(Renewing).Urgent {
		t.Error("a renewal after a reset is urgent")
	}
	r.pass(27500 * time.Millisecond)
	r.step(StoreReset{})
	r.renewed(true)
	if !r.last(Renewing).Urgent {
		t.Error("a renewal after a reset is not urgent near the deadline")
	}
	r.renewed(true)
	r.release("ann")
	r.returned(0)

	r.acquireFixed("bob+", time.Second)
	r.granted()
	r.acquire("bob+") // to be kept, with less than a second left
	if !r.last(Renewing).Urgent {
		t.Error("the renewal of a short lease is not urgent")
	}
}

// The store was reset while it was asked. Its answer may be of the time before.
func TestBusyBeforeAReset(t *testing.T) {
	r := newRig(t)
	r.acquire("ann")
	r.step(StoreReset{})
	r.skip()
	r.busy(25 * time.Second)
	r.want("FoundBusy", "Queued ann", "Attempted 30s")
}

func TestAttemptWithoutAnAnswer(t *testing.T) {
	t.Run("is made again under the same number, after a pause", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		number := r.asked
		r.skip()
		r.attemptFails(errStore)
		r.want("AttemptFailed")
		r.alarmIn(500*time.Millisecond, time.Second)
		r.pass(time.Second)
		r.want("Attempted 30s")
		if r.asked != number {
			t.Errorf("asks for tenure %d, want %d", r.asked, number)
		}
	})
	t.Run("counts the lease from before the attempt that was answered", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.attemptFails(errStore)
		r.pass(time.Second)
		sent := r.last(Attempted).Now
		r.granted()
		if want := sent.add(28 * time.Second); r.s.tenure.deadline != want {
			t.Errorf("trusted until %v, want %v", time.Duration(r.s.tenure.deadline), time.Duration(want))
		}
	})
	t.Run("pauses longer each time, up to a bound, and starts over when the store has answered", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		again := func() {
			t.Helper()
			at, _ := r.s.Alarm()
			r.pass(at.Sub(r.now))
		}
		for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
			r.attemptFails(errStore)
			r.alarmIn(pause/2, pause)
			again()
		}
		r.busy(time.Second)
		again()
		r.attemptFails(errStore)
		r.alarmIn(500*time.Millisecond, time.Second)
	})
	t.Run("is withdrawn when nobody waits any more", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		number := r.asked
		r.attemptFails(errStore)
		r.skip()
		r.cancel("ann")
		r.want("Answered ann: timeout", "Withdrawing")
		if r.asked != number {
			t.Errorf("withdraws tenure %d, want %d", r.asked, number)
		}
		r.returnedLate()
		r.want("Withdrawn")
		r.idle(true)
	})
	t.Run("is withdrawn when nobody waits and the answer is unknown only then", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.cancel("ann")
		r.skip()
		r.attemptFails(errStore)
		r.want("AttemptFailed", "Withdrawing")
	})
	t.Run("is withdrawn also when a later attempt finds another holder", func(t *testing.T) {
		// The first attempt may still be on its way.
		r := newRig(t)
		r.acquire("ann")
		r.attemptFails(errStore)
		r.pass(time.Second)
		r.busy(time.Second)
		r.skip()
		r.cancel("ann")
		r.want("Answered ann: timeout", "Withdrawing")
	})
	t.Run("is withdrawn also when a later attempt is refused for good", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.attemptFails(errStore)
		r.pass(time.Second)
		r.skip()
		r.attemptFails(lockagent.ErrNotPermitted)
		r.want("Answered ann: not permitted", "AttemptRefused", "Withdrawing")
	})
	t.Run("is forgotten once the tenure was returned", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.attemptFails(errStore)
		r.pass(time.Second)
		r.granted()
		r.release("ann")
		r.returned(0)
		r.acquire("ann")
		r.busy(time.Second)
		r.skip()
		r.cancel("ann")
		r.want("Answered ann: timeout", "Forgot")
	})
	t.Run("is withdrawn even after the tenure that began at last was denied", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann", "bob")
		r.attemptFails(errStore)
		r.pass(time.Second)
		r.granted()
		r.pass(10 * time.Second)
		r.skip()
		r.renewed(false)
		r.want("Ended ann: denied", "Denied", "Withdrawing")
		r.returnedLate()
		r.want("Withdrawn", "Attempted 30s")
	})
	t.Run("keeps the next request waiting while it is withdrawn", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		number := r.asked
		r.attemptFails(errStore)
		r.cancel("ann")
		r.skip()
		r.acquire("bob")
		r.want("Requested bob", "Queued bob")
		r.returnedLate()
		r.want("Withdrawn", "Attempted 30s")
		if r.asked == number {
			t.Error("a withdrawn number is used again")
		}
	})
}

func TestAttemptThatIsRefusedForGood(t *testing.T) {
	for _, err := range []error{lockagent.ErrNotPermitted, lockagent.ErrWrongType, lockagent.ErrClosed} {
		r := newRig(t)
		r.acquire("ann", "bob")
		r.try("cid")
		r.skip()
		r.attemptFails(err)
		e := errText(err)
		r.want("Answered ann: "+e, "Answered bob: "+e, "Answered cid: "+e, "AttemptRefused", "Forgot")
		r.idle(true)
		r.acquire("ann") // the next request asks anew
		r.want("Requested ann", "Attempted 30s")
	}
}

func TestAttemptOfAWithdrawnTenureIsMadeUnderANewNumber(t *testing.T) {
	r := newRig(t)
	r.acquire("ann")
	number := r.asked
	r.skip()
	r.attemptFails(lockagent.ErrWithdrawn)
	r.want("AttemptFailed")
	r.pass(time.Second)
	r.want("Attempted 30s")
	if r.asked <= number {
		t.Errorf("asks for tenure %d after %d", r.asked, number)
	}
	r.busy(time.Second)
	r.skip()
	r.cancel("ann")
	r.want("Answered ann: timeout", "Forgot") // there is nothing to withdraw
}

func TestStoreReset(t *testing.T) {
	inDoubt := func(r *rig, want bool) { // a grace period that ends meanwhile would end the hold as lost
		r.t.Helper()
		if got := r.s.InDoubt(); got != want {
			r.t.Errorf("in doubt: %t, want %t", got, want)
		}
	}
	t.Run("while the lock is free means nothing", func(t *testing.T) {
		r := newRig(t)
		r.step(StoreReset{})
		r.want()
	})
	t.Run("while asleep has the store asked again", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.busy(time.Second)
		r.skip()
		r.step(StoreReset{})
		r.want("Doubted", "Attempted 30s")
	})
	t.Run("while held has the tenure renewed at once", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.pass(time.Second)
		r.step(StoreReset{})
		r.want("Doubted", "Renewing 30s")
		r.renewed(false)
		r.want("Ended ann: denied", "Denied")
	})
	t.Run("while held has a fixed lease checked, and not made longer than the hold", func(t *testing.T) {
		r := newRig(t)
		r.acquireFixed("ann", 10*time.Second)
		r.granted()
		r.pass(time.Second)
		r.skip()
		r.step(StoreReset{})
		r.want("Doubted", "Renewing "+new(Config).leaseFor(8*time.Second).String())
		r.renewed(true)
		r.want("Renewed")
		r.pass(8 * time.Second)
		r.want("Ended ann: expired", "Returning")
	})
	t.Run("during a renewal has another one made", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.pass(10 * time.Second)
		r.skip()
		r.step(StoreReset{})
		r.want("Doubted")
		r.renewed(true)
		r.want("Renewed", "Renewing 30s")
		r.renewed(true)
		r.want("Renewed")
	})
	t.Run("does not wait for the pause after a failed renewal", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.pass(10 * time.Second)
		r.renewFails()
		r.skip()
		r.step(StoreReset{})
		r.want("Doubted", "Renewing 30s")
	})
	t.Run("does not wait for the pause after the renewal under way fails either", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.pass(10 * time.Second)
		r.step(StoreReset{})
		r.skip()
		r.renewFails()
		r.want("RenewFailed", "Renewing 30s")
		r.renewFails() // this one was sent after the reset
		r.want("RenewFailed")
	})
	t.Run("has a release wait for the renewal, which may put the tenure back", func(t *testing.T) {
		renewing := func(t *testing.T) *rig {
			r := newRig(t)
			r.hold("ann")
			r.step(StoreReset{})
			r.skip()
			r.release("ann")
			r.want("Ended ann")
			return r
		}
		r := renewing(t)
		inDoubt(r, true)
		r.renewed(true)
		r.want("Renewed", "Returning")
		inDoubt(r, false)
		r.returned(0)
		r.want("Returned", "Unlocked 1")

		r = renewing(t)
		r.renewed(false)
		r.want("Denied", "Unlocked 1: denied")

		r = renewing(t)
		r.renewFails()
		r.want("RenewFailed", "Returning")
		inDoubt(r, true)
		r.returned(0)
		r.want("Returned", "Unlocked 1")
		inDoubt(r, false)

		r = renewing(t)
		r.pass(28 * time.Second) // then the lease may be over
		r.want("Returning")
		r.returnedLate()
		r.want("Returned, over before", "Unlocked 1: unconfirmed")

		r = renewing(t)
		r.step(Broken{Tenure: r.asked, At: storeTime(r.now), Operator: "eve"})
		r.want("Denied", "Unlocked 1: broken", "Withdrawing")
		if got := r.last(Unlocked).Operator; got != "eve" {
			t.Errorf("broken by %q", got)
		}
	})
	t.Run("while returned has the agent wait for the answer before it has come back", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.skip()
		r.step(StoreReset{})
		r.want("Doubted")
		inDoubt(r, true)
		r.returnedLate()
		r.want("Returned, over before", "Unlocked 1: denied")
		inDoubt(r, false)
	})
}

// A grant that was made before a reset, or before a break, is checked before anybody is told
// of it.
func TestGrantOfATenureInDoubt(t *testing.T) {
	doubted := func(t *testing.T) *rig {
		r := newRig(t)
		r.acquire("ann")
		r.skip()
		r.step(StoreReset{})
		r.want("Doubted")
		r.granted()
		r.want("Began", "Renewing 30s")
		if !r.last(Renewing).Urgent {
			t.Error("somebody waits for the grant, and the check is not urgent")
		}
		return r
	}
	t.Run("is delivered when the store has confirmed it", func(t *testing.T) {
		r := doubted(t)
		r.acquire("bob")
		r.skip()
		r.pass(time.Second)
		r.renewed(true)
		r.want("Renewed", "Granted ann 101")
		r.alarmIn(9*time.Second, 9*time.Second)
	})
	t.Run("is asked for anew when the store does not know of it", func(t *testing.T) {
		r := doubted(t)
		r.renewed(false)
		r.want("Denied", "Attempted 30s")
	})
	t.Run("is returned and asked for anew when there is no telling", func(t *testing.T) {
		r := doubted(t)
		r.renewFails()
		r.want("RenewFailed", "Returning")
		r.returned(0)
		r.want("Returned", "Attempted 30s")
	})
	t.Run("is returned when there is no answer before its deadline", func(t *testing.T) {
		r := doubted(t)
		r.pass(28 * time.Second)
		r.want("Returning")
	})
	t.Run("is returned when nobody waits any more", func(t *testing.T) {
		r := doubted(t)
		r.cancel("ann")
		r.want("Answered ann: timeout", "Returning")
	})
	t.Run("is checked for the lease of the request", func(t *testing.T) {
		r := newRig(t)
		r.acquireFixed("ann", 5*time.Second)
		r.step(StoreReset{})
		r.skip()
		r.granted()
		r.want("Began", "Renewing 5s")
		r.pass(time.Second)
		r.renewed(true)
		r.want("Renewed", "Granted ann 101 until 4.5s")
	})
	t.Run("is checked again if doubt comes up meanwhile", func(t *testing.T) {
		r := doubted(t)
		r.step(Missed{})
		r.renewed(true)
		r.want("Doubted", "Renewed", "Renewing 30s")
		r.renewed(true)
		r.want("Renewed", "Granted ann 101")
	})
}

func TestWithoutHolds(t *testing.T) {
	t.Run("ends the tenure that is not known any more before anything else", func(t *testing.T) {
		r := recovering(t, 41, Instant(time.Second))
		r.fresh = 41
		r.idle(false)
		r.alarmIn(time.Second, time.Second)
		r.acquire("ann")
		r.want("Requested ann", "Queued ann")
		r.pass(time.Second)
		r.want("Withdrawing")
		if r.asked != 41 {
			t.Errorf("returns tenure %d, want 41", r.asked)
		}
		r.returned(0)
		r.want("Withdrawn", "Attempted 30s")
	})
	t.Run("tells of the last token that it knows of", func(t *testing.T) {
		r := recovering(t, 41, 0)
		r.fresh = 41
		r.acquire("ann")
		if e := r.last(Withdrawing); e.Floor != 50 || !e.Unanswered {
			t.Errorf("withdraws %+v", e)
		}
		r.returnedLate()
		if e := r.last(Attempted); e.Floor != 50 {
			t.Errorf("asks %+v", e)
		}
	})
	t.Run("does not hear the answers to what was asked before", func(t *testing.T) {
		r := recovering(t, 41, 0)
		r.fresh = 41
		r.step(AcquireReplied{Tenure: 41, Reply: lockagent.AcquireReply{Granted: true, Token: 5}})
		r.step(RenewReplied{Tenure: 41})
		r.want("Withdrawing")
	})
	t.Run("tries until the lease has run out", func(t *testing.T) {
		r := recovering(t, 41, 0)
		r.fresh = 41
		r.step(Tick{})
		for r.now < Instant(30*time.Second) {
			r.returnFails(errStore)
			r.skip()
			at, _ := r.s.Alarm()
			r.pass(at.Sub(r.now))
		}
		r.want("Dropped")
		r.idle(true)
	})
}
