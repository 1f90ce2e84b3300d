package lockstate

import (
	"fmt"
	"testing"

	"github.com/lockagent/lockagent"
)

// Many requests come at once, and most of them give up before the store has answered. The store is asked for a few at a
// time. So it is not asked for those that have given up, and whoever has patience does not wait behind them.
func TestFewPartsAskAtATime(t *testing.T) {
	for name, rig := range map[string]func(*testing.T) *fairRig{"fair": newFairRig, "permits": newPermitsRig} {
		t.Run(name, func(t *testing.T) {
			r := rig(t)
			owner := func(n int) lockagent.Owner { return lockagent.Owner(fmt.Sprintf("owner %d", n)) }
			const crowd, patient = 5 * mostCalls, 4 * mostCalls
			for n := range crowd {
				r.acquire(owner(n))
			}
			asked := func(want int) {
				t.Helper()
				if len(r.tenures) != want {
					t.Fatalf("%d tenures were asked for, want %d", len(r.tenures), want)
				}
			}
			asked(mostCalls)
			if at, ok := r.f.Alarm(); ok {
				t.Errorf("wants a tick at %v", at)
			}
			for n := range crowd {
				if n != patient {
					r.step(Cancel{ID: r.ids[owner(n)], Err: lockagent.ErrTimeout})
				}
			}
			asked(mostCalls)
			r.replied(1, lockagent.AcquireReply{Holder: "other:7", Remaining: -1}) // the part asks no more
			asked(mostCalls + 1)
			if e := r.last(Attempted); e.Request.Owner != owner(patient) {
				t.Errorf("asks for %s", e.Request.Owner)
			}
			for n := 2; n <= mostCalls; n++ {
				r.replied(n, lockagent.AcquireReply{Holder: "other:7", Remaining: -1})
			}
			asked(mostCalls + 1)
			r.granted(mostCalls+1, 7)
			if e := r.last(Granted); e.Request.Owner != owner(patient) {
				t.Errorf("granted %s", e.Request.Owner)
			}
		})
	}
}

// The store is silent, and many wait for its answers. Nobody who comes is held back by calls that fail again and again,
// and a request that does not wait is not held back at all.
func TestACrowdBesideASilentStore(t *testing.T) {
	for name, rig := range map[string]func(*testing.T) *fairRig{"fair": newFairRig, "permits": newPermitsRig} {
		t.Run(name, func(t *testing.T) {
			r := rig(t)
			for n := range 2 * mostCalls {
				r.acquire(lockagent.Owner(fmt.Sprintf("owner %d", n)))
			}
			asked := func(want int) {
				t.Helper()
				if len(r.tenures) != want {
					t.Fatalf("%d tenures were asked for, want %d", len(r.tenures), want)
				}
			}
			asked(mostCalls)
			r.step(Acquire{Request: Request{Owner: "try", Permits: 1, Try: true}})
			asked(mostCalls + 1)
			for n := range mostCalls {
				r.failed(n + 1)
			}
			asked(2 * mostCalls) // the call of the request that does not wait is one of those under way
			for range mostCalls {
				at, ok := r.f.Alarm()
				if !ok {
					t.Fatal("nobody asks again")
				}
				r.now = at
				r.step(Tick{})
			}
			r.acquire("late")
			for n := mostCalls; n < 2*mostCalls; n++ {
				r.failed(n + 1)
			}
			if e := r.last(Attempted); e.Request.Owner != "late" {
				t.Errorf("asks for %s", e.Request.Owner)
			}
		})
	}
}
