package lockstate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// resumed is the lock of r in another process, whose clock is ahead. Nobody waits there.
func resumed(t *testing.T, r *rig, ahead time.Duration) *rig {
	t.Helper()
	return carried(t, r, r.s.Snapshot().withoutWaiting(), ahead)
}

// recovered is resumed, with the requests that wait.
func recovered(t *testing.T, r *rig, ahead time.Duration) *rig {
	t.Helper()
	return carried(t, r, r.s.Snapshot(), ahead)
}

func carried(t *testing.T, r *rig, from Snapshot, ahead time.Duration) *rig {
	t.Helper()
	data, err := json.Marshal(from)
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
	t.Run("hands off when the store has confirmed the tenure, or else returns it", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		n := resumed(t, r, ahead)
		n.acquire("bob")
		n.skip()
		n.release("ann")
		n.want("Ended ann")
		n.renewed(true)
		n.want("Renewed", "Granted bob 102 by hand-off", "Unlocked 1")

		n = resumed(t, r, ahead)
		n.acquire("bob")
		n.skip()
		n.release("ann")
		n.renewFails()
		n.want("Ended ann", "RenewFailed", "Returning")
		if got := n.last(Returning).Floor; got != 101 {
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
	t.Run("takes no hold in another tenure for one of its own", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		from := r.s.Snapshot()
		other := from.Requests[0]
		other.ID, other.Tenure = 50, from.Tenures[0].Number+1
		from.Requests = append(from.Requests, other)
		n := carried(t, r, from, ahead)
		if _, ok := n.s.Request(50); ok {
			t.Error("a hold in another tenure goes on")
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
		r.holdFixed("ann+", 10*time.Second)
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
				if e := n.last(Withdrawing); e.Tenure != r.asked || e.Unanswered != tt.unanswered || e.Floor != r.s.floor {
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

func TestResumeWithWaiting(t *testing.T) {
	const ahead = 1000 * time.Hour
	t.Run("asks again with the same number, for the same request", func(t *testing.T) {
		for name, start := range map[string]func(*rig){
			"asking":               func(r *rig) { r.acquire("ann") },
			"asleep":               func(r *rig) { r.acquire("ann"); r.busy(time.Minute) },
			"asleep in the queue":  func(r *rig) { r.acquire("ann"); r.queued(time.Minute) },
			"asleep after failure": func(r *rig) { r.acquire("ann"); r.attemptFails(errStore) },
			"being checked":        func(r *rig) { r.acquire("ann"); r.step(StoreReset{}); r.granted() },
		} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t)
				start(r)
				r.acquire("bob")
				n := recovered(t, r, ahead)
				n.step(Tick{})
				n.want("Attempted 30s")
				if e := n.last(Attempted); e.Tenure != r.asked || !e.Queue || e.Request.ID != r.ids["ann"] ||
					e.Request.Arrived != Instant(ahead) {
					t.Errorf("attempts %+v", e)
				}
				n.granted()
				first := n.s.tenure.first
				n.want("Began", fmt.Sprintf("Granted ann %d", first))
				n.release("ann")
				n.want("Ended ann", fmt.Sprintf("Granted bob %d by hand-off", first+1), "Unlocked 1")
				n.release("bob")
				if e := n.last(Returning); !e.Unanswered {
					t.Error("it forgets that the call before may still arrive")
				}
			})
		}
	})
	t.Run("does not take a pass for granted", func(t *testing.T) {
		for _, shift := range []time.Duration{0, ahead} {
			r := newRig(t)
			r.acquire("ann")
			r.queued(time.Minute)
			n := recovered(t, r, shift)
			n.step(Passed{Tenure: r.asked, Token: 200, At: storeTime(r.now)})
			n.want("Woke", "Attempted 30s")
		}
	})
	t.Run("withdraws what nobody wants any more", func(t *testing.T) {
		r := newRig(t)
		r.acquireFixed("ann", time.Hour)
		n := recovered(t, r, ahead)
		n.step(Cancel{ID: r.ids["ann"], Err: lockagent.ErrTimeout})
		n.want("Answered ann: timeout", "Withdrawing")
		if left := n.s.leaving.dropAt.Sub(n.now); left != time.Hour {
			t.Errorf("for %v", left)
		}
	})
	t.Run("has the holds go on before those that wait", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob", "cid")
		n := recovered(t, r, ahead)
		n.step(Tick{})
		n.renewed(true)
		n.skip()
		n.release("ann")
		n.want("Ended ann", "Granted bob 102 by hand-off", "Unlocked 1")
		n.release("bob")
		n.want("Ended bob", "Granted cid 103 by hand-off", "Unlocked 2")
	})
	t.Run("asks anew when the old tenure has gone", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.step(Break{Call: 9})
		r.acquire("bob")
		n := recovered(t, r, ahead)
		n.step(Tick{})
		n.want("Withdrawing")
		n.returnedLate()
		n.want("Withdrawn", "Attempted 30s")
	})
	t.Run("forgets that it yields", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.returned(1)
		r.acquire("bob")
		n := recovered(t, r, ahead)
		n.step(Tick{})
		n.want("Attempted 30s")
	})
	t.Run("lets a session in again that waits for itself", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		from := r.s.Snapshot() // as if the process had ended before the second request was granted
		from.Requests = append(from.Requests, SavedRequest{Request: Request{ID: 50, Owner: "ann+", Session: true}})
		n := carried(t, r, from, ahead)
		n.step(Tick{})
		if e := n.last(Reentered); e.Request.ID != 50 || e.Token != 101 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("is the same at once and again", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+", "bob")
		r.acquireFixed("cid", 5*time.Second)
		n := recovered(t, r, 0)
		if got, want := n.s.Snapshot(), r.s.Snapshot(); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

// Tenures and requests are, one by one, as the snapshot has them.
func TestTenureAndRequest(t *testing.T) {
	r := newRig(t)
	for _, next := range []func(){
		func() { r.acquire("ann") }, func() { r.queued(time.Minute) }, func() { r.step(Woken{}) }, func() { r.granted() },
		func() { r.acquire("bob") },
		func() { r.pass(10 * time.Second) }, func() { r.release("ann") }, func() { r.release("bob") },
	} {
		next()
		n := r.s.Snapshot()
		if len(n.Tenures) == 0 {
			t.Fatalf("%+v", n)
		}
		want := n.Tenures[0]
		if got, ok := r.s.Tenure(want.Number); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if _, ok := r.s.Tenure(want.Number + 1); ok {
			t.Error("there is another tenure")
		}
		for _, want := range n.Requests {
			if got, ok := r.s.Request(want.ID); !ok || !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		}
		if _, ok := r.s.Request(1 << 40); ok {
			t.Error("there is a request that nobody made")
		}
	}
	r.returned(0)
	if _, ok := r.s.Tenure(r.asked); ok {
		t.Error("a tenure that was returned is there")
	}
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

// The process before ended while it began the lease of a session anew, so its snapshot tells only of some holds. The
// holds have one lease again.
func TestResumedSessionHasOneLease(t *testing.T) {
	cfg := rigConfig()
	for what, c := range map[string]struct{ saved, want, own [2]Instant }{
		"two ends":           {saved: [2]Instant{3, 7}, want: [2]Instant{7, 7}},
		"two ends, reversed": {saved: [2]Instant{7, 3}, want: [2]Instant{7, 7}},
		"an end, and kept":   {saved: [2]Instant{7, 0}, own: [2]Instant{7, 0}},
		"kept, and an end":   {saved: [2]Instant{0, 7}, own: [2]Instant{0, 7}},
	} {
		n := Snapshot{Tenures: []SavedTenure{{Number: 1, Deadline: 100}}}
		for i, fixed := range c.saved {
			r := Request{ID: RequestID(i + 1), Owner: "ann", Session: true, Lease: 10}
			n.Requests = append(n.Requests, SavedRequest{Request: r, Tenure: 1, Token: 1, Fixed: fixed})
		}
		s := Resume("orders", &cfg, n, 0, 0)
		i := 0
		for g := range s.requests.grants {
			if g.fixed != c.want[i] || g.own != c.own[i] {
				t.Errorf("%s: hold %d ends at %d, its own lease at %d; want %d, %d", what, i, g.fixed, g.own, c.want[i], c.own[i])
			}
			i++
		}
		if i != 2 {
			t.Errorf("%s: %d holds", what, i)
		}
	}
}
