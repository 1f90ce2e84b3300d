package lockstate

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestReadersRest(t *testing.T) {
	t.Run("in a tenure that others of this agent join", func(t *testing.T) {
		r := restedIn(t, Shared)
		r.skip()
		r.read("bob", "cid")
		r.want("Requested bob", "Granted bob 30102 by rest", "Requested cid", "Granted cid 30103 by hand-off")
		r.release("bob")
		r.skip()
		r.release("cid")
		r.want("Ended cid", "Rested", "Unlocked "+itoa(r.calls))
		r.alarmIn(shortestRest, gapsOfRest*gap)
	})
	t.Run("and any number joins without a look at the state", func(t *testing.T) {
		r := restedIn(t, Shared)
		if _, ok := r.s.Admits(r.now); ok {
			t.Error("readers may join a tenure that nobody holds")
		}
		r.read("bob")
		if _, ok := r.s.Admits(r.now); !ok {
			t.Error("no reader may join")
		}
		r.step(Joined{})
		r.release("bob")
		if !r.s.Resting() {
			t.Error("the tenure does not rest")
		}
		r.read("bob")
		r.step(Wanted{Tenure: r.asked})
		if _, ok := r.s.Admits(r.now); ok {
			t.Error("readers may join while another agent waits")
		}
	})
	t.Run("until another agent wants the lock", func(t *testing.T) {
		r := restedIn(t, Shared)
		r.skip()
		r.step(Wanted{Tenure: r.asked})
		r.want("Contested", "Returning")
	})
	t.Run("and after that, joining needs budget", func(t *testing.T) {
		r := restedIn(t, Shared) // 3 grants and 50 ms
		r.read("bob")
		r.step(Wanted{Tenure: r.asked})
		r.read("cid", "dan", "eve")
		r.skip()
		r.read("fay")
		r.want("Requested fay", "Queued fay")
		for _, o := range []lockagent.Owner{"bob", "cid", "dan"} {
			r.release(o)
		}
		r.skip()
		r.release("eve")
		r.want("Ended eve", "Returning")
	})
	t.Run("until a reader holds the lock for long", func(t *testing.T) {
		r := restedIn(t, Shared)
		r.read("bob")
		r.pass(longestUnaware) // no other agent waits, but outsiders may
		if e := r.last(Renewing); e.Lease != 30*time.Second {
			t.Errorf("renewed for %v, want the lease of the watchdog", e.Lease)
		}
		r.renewed(true)
		r.skip()
		r.release("bob")
		r.want("Ended bob", "Returning")
	})
	t.Run("until a writer of this agent comes, who gets a tenure that rests", func(t *testing.T) {
		r := restedIn(t, Shared)
		r.skip()
		r.acquire("bob")
		r.want("Requested bob", "Queued bob", "Returning")
		r.returned(0)
		if e := r.last(Attempted); e.Request.Mode != Exclusive || !e.Rests {
			t.Errorf("attempted in mode %d, with a rest: %v", e.Request.Mode, e.Rests)
		}
		r.grant()
		r.release("bob")
		if !r.s.Resting() {
			t.Error("the tenure does not rest")
		}
	})
}

// A tenure that writes may rest, and then serves readers of this agent, too.
func TestReadersInARestOfAWriter(t *testing.T) {
	reading := func(t *testing.T) *rig {
		r := rested(t)
		r.skip()
		r.read("bob")
		r.want("Requested bob", "Granted bob 30102 by rest") // and the tenure does not become shared
		return r
	}
	t.Run("leave it to the next writer", func(t *testing.T) {
		r := reading(t)
		r.acquire("cid")
		r.want("Requested cid", "Queued cid")
		r.release("bob")
		r.skip()
		r.release("cid")
		r.want("Ended cid", "Rested", "Unlocked "+itoa(r.calls))
	})
	t.Run("share it as soon as another agent wants the lock", func(t *testing.T) {
		r := reading(t)
		r.step(Wanted{Tenure: r.asked})
		r.want("Contested", "Renewing 30s shared")
		if e := r.last(Renewing); !e.Urgent {
			t.Error("the store may put the downgrade off")
		}
		r.renewed(true)
		r.skip()
		r.release("bob")
		r.want("Ended bob", "Returning")
	})
	t.Run("share it when the time of the rest has passed", func(t *testing.T) {
		r := reading(t)
		r.alarmIn(100*time.Millisecond, 100*time.Millisecond)
		r.pass(100 * time.Millisecond) // outsiders may wait to read
		r.want("Renewing 30s shared")
		if e := r.last(Renewing); !e.Urgent {
			t.Error("the store may put the downgrade off")
		}
	})
	t.Run("share it when a request forbids the rest", func(t *testing.T) {
		r := reading(t)
		r.request(Request{Owner: "cid", Mode: Shared, NoRest: true})
		r.want("Requested cid", "Granted cid 30103 by hand-off", "Renewing 30s shared")
	})
}
