package lockstate

import (
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestHandOff(t *testing.T) {
	t.Run("is in order of arrival, and costs no call to the store", func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.HandOffGrants = 10 })
		r.hold("ann", "bob", "cid", "dan")
		r.cancel("cid")
		r.acquire("eve")
		r.skip()
		r.release("ann")
		r.want("Ended ann", "Granted bob 102 by hand-off", "Unlocked 1")
		r.release("bob")
		r.want("Ended bob", "Granted dan 103 by hand-off", "Unlocked 2")
		r.release("dan")
		r.want("Ended dan", "Granted eve 104 by hand-off", "Unlocked 3")
	})
	t.Run("is in the same tenure and keeps its deadline", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.pass(5 * time.Second)
		r.release("ann")
		g := r.last(Granted)
		if g.Tenure != r.asked || r.s.tenure.sent != 0 || r.s.tenure.deadline != Instant(28*time.Second) {
			t.Errorf("granted %+v until %v", g, r.s.tenure.deadline)
		}
	})
	t.Run("ends after as many grants as the budget has", func(t *testing.T) {
		r := newRig(t) // 3 grants
		r.hold("ann", "bob", "cid", "dan")
		r.release("ann")
		r.release("bob")
		r.skip()
		r.release("cid")
		r.want("Ended cid", "Returning")
		r.returned(0)
		r.want("Returned", "Unlocked 3", "Attempted 2s")
		r.granted()
		r.want("Began", "Granted dan 104")
	})
	t.Run("ends when its tokens would run ahead of the store's clock", func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.HandOffGrants = 10_000 })
		r.acquire("ann")
		r.passLate(time.Second)
		first := lockagent.Token(storeTime(r.now)) - 3 // which the store's clock showed just now
		r.acquireReplied(lockagent.AcquireReply{Granted: true, Token: first, At: storeTime(r.now)}, nil)
		r.passLate(2 * time.Microsecond)
		for range 1005 { // three, two, and the slack
			r.acquire("bob")
			r.releaseOwner(r.s.requests.oldest().Owner)
		}
		if got, want := r.last(Granted).Token, lockagent.Token(storeTime(r.now))+1000; got != want {
			t.Errorf("the last token is %d, want %d", got, want)
		}
		r.acquire("bob")
		r.skip()
		r.releaseOwner("bob")
		r.want("Ended bob", "Returning")
	})
	t.Run("ends when little of the lease is left", func(t *testing.T) {
		for left, want := range map[time.Duration]string{
			3 * time.Millisecond:   "Granted bob 102",
			3*time.Millisecond - 1: "Returning",
		} {
			r := newRig(t)
			r.acquireFixed("ann", 30*time.Millisecond)
			r.granted()
			r.acquireFixed("bob", 30*time.Millisecond)
			r.passLate(r.s.tenure.deadline.Sub(r.now) - left)
			r.skip()
			r.release("ann")
			if got := r.seen[1]; !strings.HasPrefix(got, want) {
				t.Errorf("with %v left: %s, want %s", left, got, want)
			}
		}
	})
	t.Run("ends, and the store hears with the next attempt that requests still wait", func(t *testing.T) {
		for _, tt := range []struct {
			waiting []lockagent.Owner
			asks    bool
		}{{[]lockagent.Owner{"bob"}, true}, {nil, false}} {
			r := newRig(t, func(c *Config) { c.HandOffGrants = 1 })
			r.hold("ann", tt.waiting...)
			r.release("ann")
			if got := r.s.Listening(); got != tt.asks {
				t.Errorf("with %d requests that wait: listening is %v", len(tt.waiting), got)
			}
		}
	})
	t.Run("ends when its time has passed", func(t *testing.T) {
		for _, tt := range []struct {
			after time.Duration
			want  []string
		}{
			{5*time.Second - 1, []string{"Ended ann", "Granted bob 102 by hand-off", "Unlocked 1"}},
			{5 * time.Second, []string{"Ended ann", "Returning"}},
		} {
			r := newRig(t, func(c *Config) { c.HandOffTime = 5 * time.Second })
			r.hold("ann", "bob")
			r.pass(tt.after)
			r.release("ann")
			r.want(tt.want...)
		}
	})
	t.Run("is not made past the deadline, however late the tick", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.passLate(28 * time.Second)
		r.release("ann")
		r.want("Ended ann: deadline", "Unlocked 1: deadline", "Returning")
	})
	t.Run("is not made while a renewal has failed", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.pass(10 * time.Second)
		r.renewFails()
		r.skip()
		r.release("ann")
		r.want("Ended ann", "Returning")
	})
	t.Run("is made while a renewal is under way", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.pass(10 * time.Second)
		r.skip()
		r.release("ann")
		r.want("Ended ann", "Granted bob 102 by hand-off", "Unlocked 1")
		r.renewed(true)
		r.want("Renewed")
		r.alarmIn(10*time.Second, 10*time.Second)
	})
	t.Run("is not made while the store may have forgotten", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.step(StoreReset{})
		r.want("Doubted", "Renewing 30s")
		r.release("ann")
		r.want("Ended ann")
		r.renewed(true)
		r.want("Renewed", "Granted bob 102 by hand-off", "Unlocked 1")
	})
}

func TestHandOffToALongerFixedLease(t *testing.T) {
	start := func(t *testing.T) *rig {
		r := newRig(t)
		r.hold("ann")
		r.acquireFixed("bob", time.Minute)
		r.pass(5 * time.Second)
		r.skip()
		r.release("ann")
		// Bob's lease is trusted for 58 s from now, the tenure for 23 s.
		r.want("Ended ann", "Granted bob 102 by hand-off until 1m3s", "Unlocked 1", "Renewing 1m0s")
		return r
	}
	t.Run("extends the tenure in the background", func(t *testing.T) {
		r := start(t)
		r.pass(time.Second)
		r.renewed(true)
		r.want("Renewed")
		if r.s.tenure.deadline < Instant(63*time.Second) {
			t.Errorf("the tenure is trusted until %v, the hold needs 1m3s", time.Duration(r.s.tenure.deadline))
		}
		r.pass(56 * time.Second)
		r.want()
		r.pass(time.Second)
		r.want("Ended bob: expired", "Returning")
	})
	t.Run("is lost at the old deadline if there is no answer", func(t *testing.T) {
		r := start(t)
		r.pass(23*time.Second - 1)
		r.want("BecameUncertain")
		r.pass(1)
		r.want("Ended bob: deadline", "Returning")
	})
}

// If this process died, the store would keep others out for no longer than the lease of
// who holds the lock.
func TestHandOffIntoALongerLease(t *testing.T) {
	t.Run("is not made", func(t *testing.T) {
		r := newRig(t)
		r.acquireFixed("ann", time.Hour)
		r.granted()
		r.acquire("bob")
		r.skip()
		r.release("ann")
		r.want("Ended ann", "Returning")
		r.returned(0)
		r.want("Returned", "Unlocked 1", "Attempted 2s")
	})
	t.Run("is made when no more of it is left than the request needs", func(t *testing.T) {
		for _, tt := range []struct {
			after time.Duration
			want  []string
		}{
			{30*time.Second - rounding, []string{"Ended ann", "Granted bob 102 by hand-off", "Unlocked 1"}},
			{30*time.Second - rounding - 1, []string{"Ended ann", "Returning"}},
		} {
			r := newRig(t)
			r.acquireFixed("ann", time.Minute)
			r.granted()
			r.acquire("bob")
			r.pass(tt.after)
			r.skip()
			r.release("ann")
			r.want(tt.want...)
		}
	})
	t.Run("is not made to a fixed lease that is shorter", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.acquireFixed("bob", 10*time.Second)
		r.pass(9 * time.Second)
		r.skip()
		r.release("ann")
		r.want("Ended ann", "Returning")
	})
	t.Run("is not made while a renewal may make it longer", func(t *testing.T) {
		for _, failed := range []bool{false, true} {
			r := newRig(t)
			r.holdFixed("ann+", 10*time.Second)
			r.request(Request{Owner: "ann+", Lease: time.Hour})
			r.acquire("bob")
			if failed {
				r.renewFails()
			}
			r.releaseOwner("ann+")
			r.skip()
			r.releaseOwner("ann+")
			r.want("Ended ann+", "Returning")
		}
	})
	t.Run("goes on for the owner who asked for it", func(t *testing.T) {
		r := newRig(t)
		r.holdFixed("ann+", 10*time.Second)
		r.request(Request{Owner: "ann+", Lease: time.Hour})
		r.renewed(true)
		r.releaseOwner("ann+")
		r.skip()
		r.acquire("ann+")
		r.want("Requested ann+", "Extended ann+, kept", "Reentered ann+ 101 x2")
	})
}

func TestHandOffBesideOutsidersEndsEarlier(t *testing.T) {
	handedOff := []string{"Ended ann", "Granted bob 102 by hand-off", "Unlocked 1"}
	returned := []string{"Ended ann", "Returning"}
	for _, tt := range []struct {
		title  string
		grants int
		after  time.Duration
		want   []string
	}{
		{"before a tenth of the time", 100, time.Second - 1, handedOff},
		{"after a tenth of the time", 100, time.Second, returned},
		{"before a twentieth of the grants", 40, 0, handedOff},
		{"after a twentieth of the grants", 39, 0, returned},
		{"there is at least one grant", 1, 0, returned},
	} {
		t.Run(tt.title, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.HandOffTime, c.HandOffGrants = 10*time.Second, tt.grants })
			r.acquire("ann", "bob")
			r.acquireReplied(lockagent.AcquireReply{Granted: true, Token: 101, At: storeTime(r.now), Outsiders: 1}, nil)
			r.pass(tt.after)
			r.skip()
			r.release("ann")
			r.want(tt.want...)
		})
	}
}

func TestYield(t *testing.T) {
	t.Run("after a return that woke others the agent keeps away for a while", func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.HandOffGrants = 1 })
		r.hold("ann", "bob")
		r.release("ann")
		r.skip()
		r.returned(1)
		r.want("Returned", "Unlocked 1")
		r.alarmIn(time.Second, time.Second)
		r.acquire("cid")
		r.want("Requested cid", "Queued cid")
		r.pass(time.Second)
		r.want("Attempted 2s")
	})
	t.Run("also if the store cannot tell whether it woke others", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.returned(-1)
		r.skip()
		r.acquire("bob")
		r.want("Requested bob", "Queued bob")
	})
	t.Run("but not if it woke nobody", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.returned(0)
		r.skip()
		r.acquire("bob")
		r.want("Requested bob", "Attempted 2s")
	})
}
