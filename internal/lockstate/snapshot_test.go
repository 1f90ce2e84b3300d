package lockstate

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// resumed is the lock of r in another process, whose clock is ahead.
func resumed(t *testing.T, r *rig, ahead time.Duration) *rig {
	t.Helper()
	data, err := json.Marshal(r.s.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	var n Snapshot
	if err := json.Unmarshal(data, &n); err != nil {
		t.Fatal(err)
	}
	cfg := rigConfig()
	now := r.now.add(ahead)
	next := rigOn(t, Resume("orders", &cfg, n, ahead, now))
	next.now, next.fresh, next.asked, next.token, next.ids = now, r.fresh, 0, r.token, r.ids
	for _, t := range n.Tenures {
		next.asked = t.Number
	}
	return next
}

func TestResume(t *testing.T) {
	const ahead = 1000 * time.Hour
	t.Run("has the holds go on, and checks them before it hands off", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.release("ann")
		r.pass(5 * time.Second)
		n := resumed(t, r, ahead)
		if want := r.s.tenure.deadline.add(ahead); n.s.tenure.deadline != want {
			t.Errorf("trusted until %v, want %v", time.Duration(n.s.tenure.deadline), time.Duration(want))
		}
		n.acquire("cid")
		n.want("Requested cid", "Queued cid", "Renewing 30s")
		n.renewed(true)
		n.want("Renewed")
		n.release("bob")
		n.want("Ended bob", "Granted cid 103 by hand-off", "Unlocked 1")
	})
	t.Run("returns what it may not hand off yet", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		n := resumed(t, r, ahead)
		n.acquire("bob")
		n.skip()
		n.release("ann")
		n.want("Ended ann", "Returning")
		if got := n.last(Returning).Token; got != 101 {
			t.Errorf("tells of token %d, want 101", got)
		}
	})
	t.Run("ends what the store does not have any more", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		r.acquire("ann+")
		n := resumed(t, r, ahead)
		n.step(Tick{})
		n.renewed(false)
		n.want("Renewing 30s", "Ended ann+: denied, 1 left", "Ended ann+: denied", "Denied")
	})
	t.Run("knows how many replicas have the tenure", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann+")
		r.acquireReplied(lockagent.AcquireReply{Granted: true, Token: 101, At: storeTime(r.now), Replicas: 2}, nil)
		n := resumed(t, r, ahead)
		n.acquire("ann+")
		if got := n.last(Reentered).Replicas; got != 2 {
			t.Errorf("%d replicas, want 2", got)
		}
	})
	t.Run("ends what is over", func(t *testing.T) {
		r := newRig(t)
		r.acquireFixed("ann", 5*time.Second)
		r.granted()
		r.passLate(5 * time.Second)
		n := resumed(t, r, ahead)
		n.step(Tick{})
		n.want("Ended ann: expired", "Returning")
	})
	t.Run("keeps in mind what a call without an answer may do", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		r.request(Request{Owner: "ann+", Lease: time.Hour}) // and an hour is asked for
		r.releaseOwner("ann+")
		n := resumed(t, r, ahead)
		n.acquire("bob")
		n.renewed(true)
		n.skip()
		n.releaseOwner("ann+")
		n.want("Ended ann+", "Returning")
	})
	t.Run("withdraws what nobody holds", func(t *testing.T) {
		for name, tt := range map[string]struct {
			start      func(*rig)
			unanswered bool
		}{
			"asking":               {func(r *rig) { r.acquire("ann") }, true},
			"asleep in the queue":  {func(r *rig) { r.acquire("ann"); r.queued(time.Minute) }, false},
			"asleep after failure": {func(r *rig) { r.acquire("ann"); r.attemptFails(errStore) }, true},
			"returning":            {func(r *rig) { r.hold("ann"); r.release("ann") }, false},
			"being checked":        {func(r *rig) { r.acquire("ann"); r.step(StoreReset{}); r.granted() }, false},
		} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t)
				tt.start(r)
				n := resumed(t, r, ahead)
				n.acquire("bob")
				n.want("Requested bob", "Queued bob", "Withdrawing")
				if e := n.last(Withdrawing); e.Tenure != r.asked || e.Unanswered != tt.unanswered || e.Token != r.s.floor {
					t.Errorf("withdraws %+v", e)
				}
				n.returnedLate()
				n.want("Withdrawn", "Attempted 30s")
			})
		}
	})
	t.Run("withdraws for as long as an attempt under way may be good for", func(t *testing.T) {
		r := newRig(t)
		r.acquireFixed("ann", time.Hour)
		n := resumed(t, r, ahead)
		if left := n.s.leaving.dropAt.Sub(n.now); left != time.Hour {
			t.Errorf("for %v", left)
		}
	})
	t.Run("has nothing to do if there was nothing", func(t *testing.T) {
		for _, start := range []func(*rig){
			func(*rig) {},
			func(r *rig) { r.acquire("ann"); r.busy(time.Minute) },
		} {
			r := newRig(t)
			start(r)
			n := resumed(t, r, ahead)
			n.idle(true)
			n.noAlarm()
		}
	})
	t.Run("tells stores of the floor", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.returned(0)
		n := resumed(t, r, ahead)
		n.acquire("bob")
		if got := n.last(Attempted).Token; got != 101 {
			t.Errorf("asks for tokens above %d, want 101", got)
		}
	})
	t.Run("is the same at once and again", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		r.acquireFixed("ann+", 5*time.Second)
		n := resumed(t, r, 0)
		if got, want := n.s.Snapshot(), r.s.Snapshot(); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestDetach(t *testing.T) {
	t.Run("gives nothing back and ends no hold", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.step(Detach{})
		r.want("Detached", "Answered bob: closed")
		r.idle(true)
		r.noAlarm()
		r.acquire("cid")
		r.want("Requested cid", "Answered cid: closed")
	})
	t.Run("answers a call under way", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.skip()
		r.step(Detach{})
		r.want("Unlocked 1: unconfirmed", "Detached")
		r.returned(0)
		r.want()
	})
	t.Run("lets the subscription go", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.queued(time.Minute)
		r.skip()
		r.step(Detach{})
		r.want("Detached", "Answered ann: closed", "Quieted")
	})
}
