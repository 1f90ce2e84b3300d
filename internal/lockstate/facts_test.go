package lockstate

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// An end tells what the store last confirmed and since when the hold lasted, and bounds the store's clock.
func TestFactsOfAnEnd(t *testing.T) {
	r := newRig(t)
	r.acquireFixed("ann", 40*time.Second)
	r.passLate(time.Second) // the answer takes a second
	r.acquireReplied(lockagent.AcquireReply{Granted: true, Token: 101, At: storeTime(r.now)}, nil)
	granted := storeTime(r.now)
	r.passLate(2 * time.Second)
	r.release("ann")
	e := r.last(Ended)
	if e.StoreTime != granted || e.Lease != 40*time.Second || e.Since != Instant(time.Second) {
		t.Errorf("confirmed at %d for %v, held since %d; want %d for 40s, since 1s", e.StoreTime, e.Lease, e.Since, granted)
	}
	if want := granted.Add(3*time.Second) + 1; e.Until != want {
		t.Errorf("Until is %d, want %d", e.Until, want)
	}
}

// The first grant of a tenure tells when the tenure began, because its token is of that time, also if it had to wait
// for a renewal. A later grant tells when the tenure was confirmed last.
func TestTimeOfTheFirstGrant(t *testing.T) {
	r := newRig(t)
	r.acquire("ann", "bob")
	r.step(StoreReset{}) // the attempt is under way, so nobody knows whether its answer is true
	r.passLate(time.Second)
	r.granted()
	began := storeTime(r.now)
	r.passLate(time.Second)
	confirmed := storeTime(r.now)
	r.renewed(true)
	if r.last(Renewed).Served {
		t.Error("the renewal says that the tenure has served a hold")
	}
	if e := r.last(Granted); e.StoreTime != began || e.Again != confirmed || e.How != lockagent.ByStore {
		t.Errorf("the first grant tells %d, and %d of the renewal; want %d and %d", e.StoreTime, e.Again, began, confirmed)
	}
	r.release("ann")
	if e := r.last(Granted); e.Request.Owner != "bob" || e.StoreTime != confirmed || e.Again != 0 {
		t.Errorf("the grant of %s tells %d, and %d of a renewal; want %d", e.Request.Owner, e.StoreTime, e.Again, confirmed)
	}
}

// The time of a denial bounds an end better than the last confirmation, which knows nothing of a
// clock that was set meanwhile.
func TestUntilOfADenial(t *testing.T) {
	for name, c := range map[string]struct {
		at   func(now lockagent.StoreTime) lockagent.StoreTime
		want func(now lockagent.StoreTime) lockagent.StoreTime // the denial was asked for a second ago
	}{
		"as usual": {
			func(now lockagent.StoreTime) lockagent.StoreTime { return now },
			func(now lockagent.StoreTime) lockagent.StoreTime { return now.Add(time.Second) + 1 },
		},
		"the clock was set forward": {
			func(now lockagent.StoreTime) lockagent.StoreTime { return now.Add(time.Hour) },
			func(now lockagent.StoreTime) lockagent.StoreTime { return now.Add(time.Hour+time.Second) + 1 },
		},
		"another clock": {
			func(lockagent.StoreTime) lockagent.StoreTime { return 5 },
			func(now lockagent.StoreTime) lockagent.StoreTime { return now.Add(2*time.Second) + 1 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.acquire("ann")
			r.passLate(2 * time.Second) // the grant is less exact than the denial
			r.acquireReplied(lockagent.AcquireReply{Granted: true, Token: 101, At: storeTime(r.now)}, nil)
			r.step(StoreReset{}) // the tenure is renewed at once
			r.passLate(time.Second)
			now := storeTime(r.now)
			r.step(RenewReplied{Tenure: r.asked, Reply: lockagent.RenewReply{At: c.at(now)}})
			if got, want := r.last(Ended).Until, c.want(now); got != want {
				t.Errorf("Until is %d, want %d: %d too much", got, want, got-want)
			}
			if e := r.last(Denied); e.Mode != Exclusive || e.StoreTime != c.at(now) {
				t.Errorf("denied %+v", e)
			}
		})
	}
}

// A part that is granted the lock bounds the end of the holds in another part.
func TestUntilOfADisplacement(t *testing.T) {
	r := newFairRig(t)
	r.acquire("ann", "bob")
	r.granted(1, 7)
	r.now = r.now.add(time.Second)
	at := storeTime(r.now).Add(time.Hour) // somebody set the clock
	r.step(AcquireReplied{Tenure: r.tenures[1], Reply: lockagent.AcquireReply{Granted: true, Token: 9, At: at}})
	if got, want := r.last(Ended).Until, at.Add(time.Second)+1; got != want {
		t.Errorf("Until is %d, want %d", got, want)
	}
}

func TestABreakNamesItsOperator(t *testing.T) {
	for name, command := range map[string]func(*rig) Command{
		"here":      func(*rig) Command { return Break{Call: 1, Operator: "olga"} },
		"elsewhere": func(r *rig) Command { return Broken{Tenure: r.asked, At: storeTime(r.now) + 1, Operator: "olga"} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.hold("ann")
			r.step(command(r))
			if e := r.last(Ended); e.Reason != lockagent.LostBroken || e.Operator != "olga" {
				t.Errorf("ended %+v", e)
			}
		})
	}
}

// What happens to a tenure tells its mode.
func TestModeOfATenure(t *testing.T) {
	r := newRig(t)
	r.request(Request{Owner: "ann", Mode: Shared})
	r.granted()
	r.pass(10 * time.Second)
	r.renewFails()
	r.pass(time.Second)
	r.renewed(true)
	r.release("ann")
	r.returned(0)
	for _, k := range []Kind{RenewFailed, Renewed, Returned} {
		if e := r.last(k); e.Mode != Shared {
			t.Errorf("%s: not shared", kindNames[k])
		}
	}
}
