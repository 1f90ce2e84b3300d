package lockstate

import (
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// newPermitsRig is a fairRig with a semaphore in place of the lock.
func newPermitsRig(t *testing.T) *fairRig {
	r := newFairRig(t)
	cfg := rigConfig()
	p := ResumePermits("orders", &cfg, r.next, Snapshot{}, 0, 0)
	r.f, r.steps = &p.Fair, p.Step
	return r
}

// wants asks for n permits.
func (r *fairRig) wants(o lockagent.Owner, n int) {
	r.step(Acquire{Request{Owner: o, Permits: n}})
}

// lacking is the store's answer that too few permits are free.
func (r *fairRig) lacking(tenure int, queued bool) {
	r.replied(tenure, lockagent.AcquireReply{Holder: "others", Remaining: -1, Queued: queued})
}

func TestPermits(t *testing.T) {
	t.Run("asks for each waiter, with its number", func(t *testing.T) {
		r := newPermitsRig(t)
		r.wants("ann", 2)
		r.wants("bob", 3)
		if e := r.last(Attempted); e.Request.Permits != 3 {
			t.Errorf("attempted %+v", e)
		}
		r.granted(2, 8)
		r.granted(1, 7) // it was granted before, and its answer comes late
		r.want(
			"Requested ann", "Attempted 30s", "Requested bob", "Attempted 30s", "Began", "Granted bob 8", "Began",
			"Granted ann 7",
		)
		r.release("bob")
		r.want("Ended bob", "Returning")
		if n := len(r.f.Snapshot().Tenures); n != 2 {
			t.Errorf("%d tenures", n)
		}
	})
	t.Run("begins above the tokens of other tenures", func(t *testing.T) {
		r := newPermitsRig(t)
		r.wants("ann", 1)
		r.granted(1, 7)
		r.wants("bob", 1)
		if e := r.last(Attempted); e.Floor != 7 {
			t.Errorf("attempted %+v", e)
		}
	})
	t.Run("asks the store to break it, for other agents may have permits", func(t *testing.T) {
		r := newPermitsRig(t)
		r.wants("ann", 1)
		r.granted(1, 7)
		r.seen = nil
		r.step(Break{Call: 1})
		r.want("AskBreak 1")
	})
	t.Run("lists grants until told to stop", func(t *testing.T) {
		r := newPermitsRig(t)
		for i := range 3 {
			r.wants("ann", 1)
			r.granted(i+1, lockagent.Token(i+7))
		}
		for _, want := range []int{1, 2, 3} {
			got := 0
			r.f.Grants("ann", func(RequestID) bool {
				got++
				return got < want
			})
			if got != want {
				t.Errorf("got %d grants, want %d", got, want)
			}
		}
	})
	t.Run("makes one attempt for a wake-up", func(t *testing.T) {
		r := newPermitsRig(t)
		for i, o := range []lockagent.Owner{"ann", "bob", "eve"} {
			r.wants(o, 1)
			r.lacking(i+1, i > 0)
		}
		r.lacking(1, true) // seated by the second request
		r.seen = nil
		r.step(Woken{})
		r.want("Woke", "Attempted 30s")
		r.granted(1, 7)
		r.want("Began", "Granted ann 7") // the store passes to those with a place
	})
	t.Run("has all ask who may have lost their places", func(t *testing.T) {
		r := newPermitsRig(t)
		for i, o := range []lockagent.Owner{"ann", "bob", "eve"} {
			r.wants(o, 1)
			r.lacking(i+1, i > 0)
		}
		r.seen = nil
		r.step(Woken{All: true})
		r.want("Woke", "Woke", "Attempted 30s", "Woke", "Attempted 30s")
		r.lacking(1, true) // an answer from before
		r.want("FoundBusy", "Attempted 30s")
	})
	t.Run("asks for one after the other without places", func(t *testing.T) {
		r := newPermitsRig(t)
		for i, o := range []lockagent.Owner{"ann", "bob", "eve", "joe"} {
			r.wants(o, []int{5, 5, 2, 1}[i])
			r.lacking(i+1, false)
		}
		for _, tenure := range []int{1, 3, 4} { // the second request seated the first, which woke the others
			r.lacking(tenure, false)
		}
		r.now += Instant(time.Second)
		r.seen = nil
		r.step(Woken{})
		r.want("Woke", "Attempted 30s")
		r.lacking(1, false) // too few for ann and bob, but perhaps enough for eve
		r.want("FoundBusy", "Woke", "Attempted 30s")
		if e := r.last(Attempted); e.Request.Owner != "eve" {
			t.Errorf("attempted %+v", e)
		}
		r.granted(3, 7)
		r.want("Began", "Granted eve 7", "Woke", "Attempted 30s")
	})
	t.Run("has the next one ask if the one that was woken gives up", func(t *testing.T) {
		r := newPermitsRig(t)
		for i, o := range []lockagent.Owner{"ann", "bob"} {
			r.wants(o, 1)
			r.lacking(i+1, false)
		}
		r.lacking(1, false) // the second request seated the first
		ann := r.f.parts[0].requests.head().ID
		r.step(Woken{})
		r.step(AcquireReplied{Tenure: r.tenures[0], Err: lockagent.ErrStoreUnavailable})
		r.seen = nil
		r.step(Cancel{ID: ann, Err: lockagent.ErrTimeout, TimedOut: true})
		r.want("Answered ann: timeout", "Withdrawing", "Woke", "Attempted 30s")
		if e := r.last(Attempted); e.Request.Owner != "bob" {
			t.Errorf("attempted %+v", e)
		}
	})
	t.Run("has the next one ask if the one that was woken gives up before the answer", func(t *testing.T) {
		r := newPermitsRig(t)
		for i, o := range []lockagent.Owner{"ann", "bob"} {
			r.wants(o, 2-i)
			r.lacking(i+1, false)
		}
		r.lacking(1, false) // the second request seated the first
		r.lacking(2, false) // which woke it
		ann := r.f.parts[0].requests.head().ID
		r.step(Woken{})
		r.step(Cancel{ID: ann, Err: lockagent.ErrTimeout, TimedOut: true})
		r.seen = nil
		r.lacking(1, false)
		r.want("FoundBusy", "Forgot", "Woke", "Attempted 30s")
		if e := r.last(Attempted); e.Request.Owner != "bob" {
			t.Errorf("attempted %+v", e)
		}
	})
	t.Run("tells all waiters of an error", func(t *testing.T) {
		r := newPermitsRig(t)
		r.wants("ann", 1)
		r.lacking(1, false)
		r.wants("bob", 1)
		r.lacking(2, true)
		r.lacking(1, true)
		r.seen = nil
		r.step(Woken{})
		r.step(AcquireReplied{Tenure: r.tenures[0], Err: lockagent.ErrDeleted})
		r.want(
			"Woke", "Attempted 30s", "Answered ann: "+lockagent.ErrDeleted.Error(), "AttemptRefused", "Withdrawing", "Woke",
			"Attempted 30s",
		)
	})
	t.Run("takes a number that is gone for a deletion, if the waiter has met it", func(t *testing.T) {
		r := newPermitsRig(t)
		unset := lockagent.AcquireReply{NotSet: true, Remaining: -1}
		r.wants("ann", 1)
		r.lacking(1, false)
		r.wants("bob", 1)
		r.replied(2, unset)
		r.replied(1, lockagent.AcquireReply{}) // the permits are kept for outsiders
		r.step(Woken{All: true})
		r.seen = nil
		r.replied(2, unset)
		r.want("FoundBusy")
		r.replied(1, unset)
		r.want("Answered ann: "+lockagent.ErrDeleted.Error(), "AttemptRefused", "Forgot", "Woke", "Attempted 30s")
		r.replied(2, unset)
		r.want("FoundBusy")
	})
	t.Run("takes a number that is not set for none, if a grace period has refused the waiter", func(t *testing.T) {
		r := newPermitsRig(t)
		r.wants("ann", 1)
		r.step(AcquireReplied{Tenure: r.tenures[0], Err: &lockagent.GraceError{Name: "orders", Left: time.Second}})
		r.step(Woken{All: true})
		r.seen = nil
		r.replied(1, lockagent.AcquireReply{NotSet: true, Remaining: -1})
		r.want("FoundBusy")
	})
	t.Run("takes a number that is gone for a deletion, if the waiter had a place before a restart", func(t *testing.T) {
		r := newPermitsRig(t)
		r.wants("ann", 1)
		r.lacking(1, false)
		r.wants("bob", 1)
		r.lacking(2, true)
		r.lacking(1, true)
		cfg := rigConfig()
		p := ResumePermits("orders", &cfg, r.next, r.f.Snapshot(), 0, r.now)
		r.f, r.steps, r.seen = &p.Fair, p.Step, nil
		r.step(Woken{All: true})
		for number := range 2 {
			r.replied(number+1, lockagent.AcquireReply{NotSet: true, Remaining: -1})
		}
		for _, o := range []lockagent.Owner{"ann", "bob"} {
			if want := "Answered " + string(o) + ": " + lockagent.ErrDeleted.Error(); !slices.Contains(r.seen, want) {
				t.Errorf("saw %q; want %q", r.seen, want)
			}
		}
	})
	t.Run("is passed permits beside other tenures", func(t *testing.T) {
		r := newPermitsRig(t)
		r.wants("ann", 1)
		r.granted(1, 7)
		r.wants("bob", 1)
		r.lacking(2, true)
		r.seen = nil
		at := storeTime(r.now)
		r.step(Passed{Tenure: r.tenures[1], Token: 9, At: at, Clock: ""})
		if e := r.last(Granted); e.Request.Owner != "bob" {
			t.Errorf("granted %+v, after %q", e, r.seen)
		}
		if n := r.f.Waiters(); n != 0 || len(r.f.parts) != 2 || r.f.parts[0].phase != held || r.f.parts[1].phase != held {
			t.Errorf("%d wait", n)
		}
	})
}
