package lockstate

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// isWanted expects the lock to be wanted, or not.
func (r *rig) isWanted(want bool) {
	r.t.Helper()
	if got := r.s.Wanted(); got != want {
		r.t.Errorf("at %v it is wanted: %t; want %t", time.Duration(r.now), got, want)
	}
}

// isUncertain expects the last hold of an owner to be uncertain, or not.
func (r *rig) isUncertain(o lockagent.Owner, want bool) {
	r.t.Helper()
	if got := r.s.Uncertain(r.ids[o]); got != want {
		r.t.Errorf("at %v %s is uncertain: %t; want %t", time.Duration(r.now), o, got, want)
	}
}

func TestALockIsWanted(t *testing.T) {
	t.Run("by another owner here, until that gives up", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.isWanted(false)
		r.acquire("bob")
		r.isWanted(true)
		r.step(Cancel{ID: r.ids["bob"]})
		r.isWanted(false)
	})
	t.Run("not by the session that holds it, nor by who does not wait", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		r.acquire("ann+")
		r.try("bob")
		r.isWanted(false)
	})
	t.Run("not if nobody holds it", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann", "bob")
		r.isWanted(false)
		r = newRig(t)
		r.acquire("ann")
		r.step(Wanted{Tenure: r.asked})
		r.isWanted(false)
		r.granted()
		r.isWanted(true)
	})
	t.Run("by another agent, also after a hand-off", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.step(Wanted{Tenure: r.asked})
		r.isWanted(true)
		r.acquire("bob")
		r.release("ann")
		r.isWanted(true)
		r.release("bob")
		r.returned(0)
		r.hold("cid")
		r.isWanted(false)
	})
	t.Run("if a pass or an answer says so", func(t *testing.T) {
		for _, contested := range []bool{true, false} {
			r := newRig(t)
			r.acquire("ann")
			r.queued(time.Minute)
			r.step(Passed{Tenure: r.asked, Token: 101, At: storeTime(r.now), Incarnation: "one", Contested: contested})
			r.isWanted(contested)
			r = newRig(t)
			r.acquire("ann")
			r.acquireReplied(lockagent.AcquireReply{Granted: true, Token: 101, Contested: contested}, nil)
			r.isWanted(contested)
		}
	})
	t.Run("if a pass that came before the answer says so", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.queued(time.Second)
		r.pass(2 * time.Second)
		r.step(Passed{Tenure: r.asked, Token: 101, At: storeTime(r.now), Incarnation: "one", Contested: true})
		r.attemptFails(errStore)
		r.isWanted(true)
	})
	t.Run("also in the process that goes on", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.step(Wanted{Tenure: r.asked})
		resumed(t, r, time.Hour).isWanted(true)
		r = newRig(t)
		r.acquire("ann")
		r.step(Wanted{Tenure: r.asked})
		n := recovered(t, r, time.Hour)
		n.step(Tick{})
		n.granted()
		n.isWanted(true)
	})
	t.Run("if a renewal says so", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.pass(10 * time.Second)
		r.renewed(true)
		r.isWanted(false)
		r.pass(10 * time.Second)
		r.wanted()
		r.isWanted(true)
		r.pass(10 * time.Second)
		r.renewed(true) // nobody may have asked
		r.isWanted(true)
	})
	t.Run("not because a message may have been lost, or another kind is asked for", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.step(Missed{})
		r.step(Vacate{})
		r.isWanted(false)
	})
	t.Run("by a writer, if readers have it, and not by readers", func(t *testing.T) {
		r := newRig(t)
		r.read("ann")
		r.granted()
		r.read("bob")
		r.isWanted(false)
		r.acquire("cid")
		r.isWanted(true)
	})
	t.Run("of readers only until the answer to a renewal says that nobody waits", func(t *testing.T) {
		r := newRig(t)
		r.read("ann")
		r.granted()
		r.step(Wanted{Tenure: r.asked})
		r.isWanted(true)
		r.pass(10 * time.Second)
		r.renewed(true)
		r.isWanted(false)
		r.pass(10 * time.Second)
		r.step(Wanted{Tenure: r.asked}) // the answer that is under way may be older
		r.renewed(true)
		r.isWanted(true)
	})
	t.Run("not by those who can read once the writer reads", func(t *testing.T) {
		r := downgrading(t)
		r.isWanted(false)
		r.step(Wanted{Tenure: r.asked})
		r.isWanted(true) // if a reader waits, the renewal that is under way lets it in
		r.renewed(true)
		r.isWanted(true) // but perhaps the message was sent after that
		r = newRig(t)
		r.hold("ann+")
		r.step(Wanted{Tenure: r.asked})
		writes := r.ids["ann+"]
		r.read("ann+")
		r.step(Release{ID: writes})
		r.isWanted(false)
	})
}

func TestAFairLockIsWanted(t *testing.T) {
	r := newFairRig(t)
	wanted := func(want bool) {
		t.Helper()
		if got := r.f.Wanted(); got != want {
			t.Errorf("wanted: %t; want %t", got, want)
		}
	}
	r.acquire("ann+", "bob")
	wanted(false) // nobody holds it
	r.granted(1, 7)
	wanted(true)
	r.step(Cancel{ID: r.ids["bob"]})
	r.acquire("ann+")
	wanted(false)
	r.step(Wanted{Tenure: r.tenures[0]})
	wanted(true)
}

func TestPermitsAreWanted(t *testing.T) {
	r := newFairRig(t)
	cfg := rigConfig()
	p := ResumePermits("orders", &cfg, r.next, Snapshot{}, 0, 0)
	r.f, r.steps = &p.Fair, p.Step
	wanted := func(want bool) {
		t.Helper()
		if got := p.Wanted(); got != want {
			t.Errorf("wanted: %t; want %t", got, want)
		}
	}
	r.wants("ann", 1)
	r.granted(1, 7)
	r.wants("bob", 2)
	wanted(false) // there may be enough for both
	r.lacking(2, true)
	wanted(true)
	r.step(Cancel{ID: r.ids["bob"]})
	wanted(false)
	r.wants("cid", 1)
	r.granted(3, 8)
	r.step(Wanted{Tenure: r.tenures[0]})
	wanted(true)
}

func TestAHoldIsUncertain(t *testing.T) {
	third := Instant(28 * time.Second).add(-28 * time.Second / 3) // is left
	t.Run("when two thirds of the lease are over, if the renewal fails", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.pass(10 * time.Second)
		for r.now < third {
			r.isUncertain("ann", false)
			r.renewFails()
			at, _ := r.s.Alarm()
			r.pass(at.Sub(r.now))
		}
		r.isUncertain("ann", true)
		if r.now != third {
			t.Errorf("at %v", time.Duration(r.now))
		}
		for r.last(Renewing).Now < third {
			at, _ := r.s.Alarm()
			r.pass(at.Sub(r.now))
		}
		r.renewed(true)
		r.isUncertain("ann", false)
	})
	t.Run("also if there is no answer", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.pass(time.Duration(third) - 1)
		r.isUncertain("ann", false)
		r.pass(time.Second)
		r.isUncertain("ann", true)
	})
	t.Run("but not if a fixed lease needs no renewal", func(t *testing.T) {
		r := newRig(t)
		r.holdFixed("ann", 30*time.Second)
		r.pass(27 * time.Second)
		r.isUncertain("ann", false)
	})
	t.Run("nor if a fixed lease ends before the tenure, beside one that is kept", func(t *testing.T) {
		r := newRig(t)
		r.read("ann")
		r.granted()
		r.request(Request{Owner: "bob", Mode: Shared, Lease: 25 * time.Second})
		r.pass(20 * time.Second)
		r.isUncertain("ann", true)
		r.isUncertain("bob", false)
	})
	t.Run("nor if an extension is asked for late", func(t *testing.T) {
		r := newRig(t)
		r.holdFixed("ann", 30*time.Second)
		r.pass(26 * time.Second)
		r.step(Extend{ID: r.ids["ann"], Lease: time.Minute})
		r.isUncertain("ann", false)
		r.pass(time.Second)
		r.isUncertain("ann", true) // half of what was left is over
	})
}
