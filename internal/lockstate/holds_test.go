package lockstate

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// acquireHolds asks for a grant of which the owner makes several holds.
func (r *rig) acquireHolds(o lockagent.Owner, holds uint16) {
	r.request(Request{Owner: o, Holds: holds})
}

func TestSeveralHoldsOfAGrant(t *testing.T) {
	roomy := func(c *Config) { c.HandOffGrants = 10 }
	t.Run("have tokens that nobody else gets", func(t *testing.T) {
		r := newRig(t, roomy)
		r.acquireHolds("ann", 4)
		r.acquire("bob")
		r.granted()
		if e := r.last(Granted); e.Token != 101 || e.Holds != 4 {
			t.Errorf("granted token %d for %d holds, want 101 for 4", e.Token, e.Holds)
		}
		r.skip()
		r.release("ann")
		r.want("Ended ann", "Granted bob 105 by hand-off", "Unlocked 1")
		r.release("bob")
		if got := r.last(Returning).Floor; got != 105 {
			t.Errorf("the store learns of token %d, want 105", got)
		}
	})
	t.Run("are told to the store as if all were made", func(t *testing.T) {
		r := newRig(t, roomy)
		r.acquireHolds("ann", 4)
		r.granted()
		r.release("ann")
		if got := r.last(Returning).Floor; got != 104 || r.s.floor != 104 {
			t.Errorf("the store learns of token %d and the floor is %d, want 104", got, r.s.floor)
		}
	})
	t.Run("are a part of the budget", func(t *testing.T) {
		r := newRig(t, roomy)
		r.acquireHolds("ann", 8)
		r.acquireHolds("bob", 8)
		r.acquire("cid")
		r.granted()
		r.release("ann")
		if e := r.last(Granted); e.Token != 109 || e.Holds != 2 {
			t.Errorf("granted token %d for %d holds, want 109 for the 2 that are left", e.Token, e.Holds)
		}
		r.skip()
		r.release("bob")
		r.want("Ended bob", "Returning")
	})
	t.Run("do not run ahead of the store's clock", func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.HandOffGrants = 10_000 })
		first := lockagent.Token(storeTime(r.now))
		r.acquireHolds("ann", 990)
		r.acquireReplied(lockagent.AcquireReply{Granted: true, Token: first, At: storeTime(r.now)}, nil)
		r.acquireHolds("bob", 64)
		r.releaseOwner("ann")
		slack := uint16(tokenSlack / time.Microsecond)
		if e := r.last(Granted); e.Request.Owner != "bob" || e.Holds != slack+1-990 {
			t.Errorf("granted %s %d holds, want bob %d", e.Request.Owner, e.Holds, slack+1-990)
		}
		r.acquire("cid")
		r.skip()
		r.releaseOwner("bob")
		r.want("Ended bob", "Returning")
	})
	t.Run("go on in another process", func(t *testing.T) {
		r := newRig(t) // 3 grants
		r.acquireHolds("ann", 2)
		r.acquireHolds("bob", 3)
		r.granted()
		n := recovered(t, r, time.Hour)
		n.step(Tick{})
		n.renewed(true)
		n.skip()
		n.release("ann")
		n.want("Ended ann", "Granted bob 103 by hand-off", "Unlocked 1")
		if e := n.last(Granted); e.Holds != 1 {
			t.Errorf("bob may make %d holds, want the one that is left", e.Holds)
		}
	})
}
