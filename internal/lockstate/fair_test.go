package lockstate

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// fairRig is a fair lock with a very simple shell. Its tenures have numbers in the order in which
// they were asked for: 1, 2, and so on.
type fairRig struct {
	t       *testing.T
	f       *Fair
	steps   func(Command, Moment, func(*Event))
	now     Instant
	fresh   uint64
	events  []Event
	seen    []string
	ids     map[lockagent.Owner]RequestID
	tenures []uint64
	calls   CallID
}

func newFairRig(t *testing.T) *fairRig {
	r := &fairRig{t: t, ids: make(map[lockagent.Owner]RequestID)}
	cfg := rigConfig()
	r.f = NewFair("orders", &cfg, r.next)
	r.steps = r.f.Step
	return r
}

func (r *fairRig) next() uint64 {
	r.fresh++
	return r.fresh
}

func (r *fairRig) step(c Command) {
	r.steps(c, Moment{Now: r.now, Fresh: r.next()}, func(e *Event) {
		r.events = append(r.events, *e)
		r.seen = append(r.seen, text(e))
		switch e.Kind {
		case Requested:
			r.ids[e.Request.Owner] = e.Request.ID
		case Attempted:
			if !slices.Contains(r.tenures, e.Tenure) {
				r.tenures = append(r.tenures, e.Tenure)
			}
		}
	})
}

func (r *fairRig) want(lines ...string) {
	r.t.Helper()
	if !slices.Equal(r.seen, lines) {
		r.t.Fatalf("got %q, want %q", r.seen, lines)
	}
	r.seen = nil
}

func (r *fairRig) last(k Kind) Event {
	r.t.Helper()
	for _, e := range slices.Backward(r.events) {
		if e.Kind == k {
			return e
		}
	}
	r.t.Fatalf("there was no %s", kindNames[k])
	return Event{}
}

func (r *fairRig) acquire(owners ...lockagent.Owner) {
	for _, o := range owners {
		r.step(Acquire{Request{Owner: o, Session: o[len(o)-1] == '+'}})
	}
}

func (r *fairRig) replied(tenure int, reply lockagent.AcquireReply) {
	reply.At = storeTime(r.now)
	r.step(AcquireReplied{Tenure: r.tenures[tenure-1], Reply: reply})
}

// failed has the store not answer.
func (r *fairRig) failed(tenure int) {
	r.step(AcquireReplied{Tenure: r.tenures[tenure-1], Err: lockagent.ErrStoreUnavailable})
}

func (r *fairRig) granted(tenure int, token lockagent.Token) {
	r.replied(tenure, lockagent.AcquireReply{Granted: true, Token: token})
}

// busy is the store's answer that a tenure of this agent has the lock.
func (r *fairRig) busy(tenure, holder int) {
	r.replied(tenure, lockagent.AcquireReply{
		Holder: "this:" + lockagent.Tenure{Number: r.tenures[holder-1]}.String()[1:], Remaining: 30 * time.Second,
		Queued: r.last(Attempted).Queue,
	})
}

func (r *fairRig) release(o lockagent.Owner) {
	r.calls++
	r.step(Release{ID: r.ids[o], Call: r.calls})
}

func TestFair(t *testing.T) {
	t.Run("asks for each waiter, and hands nothing off", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann", "bob")
		r.granted(1, 7)
		r.busy(2, 1)
		r.want(
			"Requested ann", "Attempted 30s", "Requested bob", "Attempted 30s", "Began", "Granted ann 7", "FoundBusy",
			"Queued bob",
		)
		r.release("ann")
		r.want("Ended ann", "Returning")
		r.step(ReleaseReplied{Tenure: r.tenures[0], Reply: lockagent.ReleaseReply{Released: true, Passed: true}})
		r.want("Returned", "Unlocked 1")
	})
	t.Run("asks for a place at once when the subscription is there", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann")
		r.replied(1, lockagent.AcquireReply{Holder: "other:7"})
		r.step(Woken{})
		r.acquire("bob")
		if e := r.last(Attempted); !e.Queue || e.Request.Owner != "bob" {
			t.Errorf("attempted %+v", e)
		}
	})
	t.Run("does not let a request overtake one that waits for the subscription", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann")
		r.replied(1, lockagent.AcquireReply{Holder: "other:7"})
		r.seen = nil
		r.acquire("bob")
		r.want("Woke", "Attempted 30s", "Requested bob", "Attempted 30s")
		if e := r.events[len(r.events)-3]; e.Request.Owner != "ann" || !e.Queue {
			t.Errorf("first attempted %+v", e)
		}
	})
	t.Run("uses a part again, with the floor of all", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann", "bob")
		r.granted(1, 7)
		r.release("ann")
		r.step(ReleaseReplied{Tenure: r.tenures[0], Reply: lockagent.ReleaseReply{Released: true}})
		r.granted(2, 9)
		for range 10 {
			r.acquire("cid")
			r.step(Cancel{ID: r.ids["cid"], Err: lockagent.ErrTimeout})
			r.busy(len(r.tenures), 2)
			r.step(ReleaseReplied{Tenure: r.tenures[len(r.tenures)-1]}) // if it is withdrawn
			if got := r.last(Attempted).Floor; got != 9 {
				t.Errorf("asks for tokens above %d, want 9", got)
			}
		}
		if len(r.f.parts) != 2 {
			t.Errorf("%d parts, want 2", len(r.f.parts))
		}
	})
	t.Run("asks in the order in which the waiters came", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann", "bob")
		r.replied(1, lockagent.AcquireReply{Holder: "other:7"})
		r.replied(2, lockagent.AcquireReply{Holder: "other:7"})
		r.step(Woken{})
		r.granted(1, 7)
		r.release("ann")
		r.step(ReleaseReplied{Tenure: r.tenures[0], Reply: lockagent.ReleaseReply{Released: true}})
		r.acquire("cid") // in the part that was ann's
		r.replied(2, lockagent.AcquireReply{Holder: "other:7"})
		r.replied(3, lockagent.AcquireReply{Holder: "other:7"})
		r.step(Missed{})
		if got := r.tenures[1:]; r.events[len(r.events)-3].Tenure != got[0] || r.last(Attempted).Tenure != got[1] {
			t.Errorf("asks for %d after %d, want %d", r.last(Attempted).Tenure, r.events[len(r.events)-3].Tenure, got)
		}
	})
	t.Run("is small again when all have gone", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann", "bob", "cid")
		for i, o := range []lockagent.Owner{"ann", "bob", "cid"} {
			r.replied(i+1, lockagent.AcquireReply{Holder: "other:7"})
			r.step(Cancel{ID: r.ids[o], Err: lockagent.ErrTimeout})
		}
		if r.f.Idle() || !r.f.Listening() {
			t.Error("nothing is expected any more")
		}
		at, _ := r.f.Alarm()
		r.now = at
		r.step(Tick{})
		if !r.f.Idle() || r.f.Listening() || len(r.f.parts) != 1 {
			t.Errorf("idle %t, listening %t, %d parts", r.f.Idle(), r.f.Listening(), len(r.f.parts))
		}
	})
	t.Run("lets a session in again", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann+", "ann+", "bob")
		r.granted(1, 7)
		r.busy(2, 1)
		r.acquire("ann+")
		if owner, _, count, _ := r.f.Hold(); owner != "ann+" || count != 3 {
			t.Errorf("%s holds %d times, want 3", owner, count)
		}
		if len(r.tenures) != 2 || r.f.Waiters() != 1 {
			t.Errorf("%d attempts, %d wait", len(r.tenures), r.f.Waiters())
		}
	})
	t.Run("names the holder, and counts who waits", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann")
		r.granted(1, 7)
		r.acquire("bob")
		r.busy(2, 1)
		r.acquire("cid")
		r.busy(3, 1)
		if got := r.last(Queued).Waiters; got != 2 {
			t.Errorf("%d wait, want 2", got)
		}
		r.seen = nil
		r.step(Acquire{Request{Owner: "dan", Try: true}})
		r.busy(4, 1)
		want := "Answered dan: held by ann for 28s"
		if !slices.Contains(r.seen, want) {
			t.Errorf("got %q, want %q", r.seen, want)
		}
	})
	t.Run("tells who does not hold the lock", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("bob", "ann")
		r.granted(2, 7)
		r.seen = nil
		r.step(Release{Owner: "bob", Call: 1})
		r.step(Release{ID: 1 << 40, Call: 2})
		r.want("Unlocked 1: not owner", "Unlocked 2: not held")
	})
	t.Run("does not grant by an answer that is older than another hold", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann", "bob")
		r.granted(2, 9)
		r.seen = nil
		r.granted(1, 7) // the lock was broken in between
		r.want("AttemptFailed")
	})
	t.Run("ends a hold when the store grants the lock to another part", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann", "bob")
		r.granted(1, 7)
		r.seen = nil
		r.granted(2, 9)
		r.want("Ended ann: denied", "Denied", "Withdrawing", "Began", "Granted bob 9")
	})
	t.Run("has the store end a ghost, but no part's tenure", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann", "bob")
		r.granted(1, 7)
		r.seen = nil
		r.step(Wanted{Tenure: r.tenures[0]})
		r.step(Wanted{Tenure: 1 << 40})
		r.step(Wanted{Tenure: 1 << 40}) // once more, while the store is being asked
		r.want("Contested", "Disowning 1099511627776")
		r.step(DisownReplied{Tenure: 1 << 40})
		r.step(Wanted{Tenure: 1 << 40})
		r.want("Disowning 1099511627776")
	})
	t.Run("neither ends nor keeps what is of another agent with the same identity", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann")
		r.f.cfg.Used = func(number uint64) bool { return number < 1<<40 }
		r.seen = nil
		r.step(Wanted{Tenure: 1 << 40})
		r.step(Passed{Tenure: 1 << 40})
		r.replied(1, lockagent.AcquireReply{
			Holder: lockagent.Tenure{Agent: r.f.cfg.Agent, Number: 1 << 40}.String(), Remaining: time.Hour,
		})
		if i := slices.IndexFunc(r.events, func(e Event) bool { return e.Kind == Disowning }); i >= 0 || len(r.f.ghosts) > 0 {
			t.Errorf("%q, and %v is kept", r.seen, r.f.ghosts)
		}
	})
	t.Run("asks for the first place alone when it is woken", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann")
		r.replied(1, lockagent.AcquireReply{Holder: "other:7", Remaining: 30 * time.Second})
		r.acquire("bob", "cid")
		for tenure := range 3 {
			r.replied(tenure+1, lockagent.AcquireReply{Holder: "other:7", Remaining: 30 * time.Second, Queued: tenure < 2})
		}
		r.seen = nil
		r.step(Woken{})
		r.want("Woke", "Attempted 30s", "Woke", "Attempted 30s") // cid has no place yet
		if e := r.events[len(r.events)-3]; e.Request.Owner != "ann" {
			t.Errorf("attempted %+v", e)
		}
	})
	t.Run("asks for all who may have lost their places", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann")
		r.replied(1, lockagent.AcquireReply{Holder: "other:7", Remaining: 30 * time.Second})
		r.acquire("bob")
		for tenure := range 2 {
			r.replied(tenure+1, lockagent.AcquireReply{Holder: "other:7", Remaining: 30 * time.Second, Queued: true})
		}
		r.seen = nil
		r.step(Woken{All: true})
		r.want("Woke", "Attempted 30s", "Woke", "Attempted 30s")
	})
	t.Run("tells the store in which order the places were", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann")
		r.replied(1, lockagent.AcquireReply{Holder: "other:7"})
		r.acquire("bob")
		r.step(Woken{All: true})
		first := storeTime(r.now)
		want := []lockagent.StoreTime{first, first + 1}
		told := func() (arrived []lockagent.StoreTime) {
			for _, e := range r.events {
				if e.Kind == Attempted {
					arrived = append(arrived, e.Arrived)
				}
			}
			r.events = nil
			return arrived
		}
		if got := told(); !slices.Equal(got, []lockagent.StoreTime{0, 0, 0}) {
			t.Errorf("told %v before there were places", got)
		}
		for range 2 { // the first answers count, though both have one time
			r.replied(1, lockagent.AcquireReply{Holder: "other:7", Queued: true})
			r.replied(2, lockagent.AcquireReply{Holder: "other:7", Queued: true})
			r.step(StoreReset{})
			if got := told(); !slices.Equal(got, want) {
				t.Errorf("told %v, want %v", got, want)
			}
			r.now = r.now.add(time.Second)
		}
		resumed := ResumeFair("orders", r.f.cfg, r.f.fresh, r.f.Snapshot(), 0, r.now)
		got := []lockagent.StoreTime{resumed.parts[0].attempt.arrived, resumed.parts[1].attempt.arrived}
		if !slices.Equal(got, want) {
			t.Errorf("the next process knows of %v, want %v", got, want)
		}
	})
	t.Run("asks again to keep a place", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann")
		r.replied(1, lockagent.AcquireReply{Holder: "other:7"})
		r.step(Woken{})
		r.replied(1, lockagent.AcquireReply{
			Holder: "other:7", Remaining: 30 * time.Second, Queued: true, AskWithin: 2 * time.Second,
		})
		if at, _ := r.f.Alarm(); at < r.now.add(2*time.Second) || at > r.now.add(2200*time.Millisecond) {
			t.Errorf("asks again at %v", time.Duration(at))
		}
		r.seen = nil
		r.step(Standby{Tenure: r.tenures[0]})
		r.want("Woke", "Attempted 30s")
	})
	t.Run("can be closed", func(t *testing.T) {
		r := newFairRig(t)
		r.acquire("ann", "bob")
		r.granted(1, 7)
		r.busy(2, 1)
		r.seen = nil
		r.step(Close{})
		r.acquire("cid")
		r.want(
			"Closed", "Ended ann: closed", "Returning", "Closed", "Answered bob: closed", "Forgot", "Quieted", "Requested cid",
			"Answered cid: closed",
		)
	})
}

func TestResumeFair(t *testing.T) {
	r := newFairRig(t)
	r.acquire("ann", "bob")
	r.granted(1, 7)
	n := r.f.Snapshot().withoutWaiting()
	if len(n.Tenures) != 2 || n.Floor != 7 {
		t.Fatalf("took %+v", n)
	}
	cfg := rigConfig()
	r.f = ResumeFair("orders", &cfg, r.next, n, 0, r.now)
	r.steps = r.f.Step
	if owner, token, _, tenure := r.f.Hold(); owner != "ann" || token != 7 || tenure != r.tenures[0] {
		t.Errorf("%s holds the lock with token %d in tenure %d", owner, token, tenure)
	}
	if got := r.f.Deadline(r.tenures[0]); got != Instant(28*time.Second) {
		t.Errorf("trusted until %v", time.Duration(got))
	}
	r.seen = nil
	r.step(Tick{})
	r.want("Renewing 30s", "Withdrawing")
	if got := r.last(Withdrawing); got.Tenure != r.tenures[1] || !got.Unanswered {
		t.Errorf("withdraws %+v", got)
	}
}

// Every waiter keeps its place, and the requests of a session stay together.
func TestResumeFairWithWaiting(t *testing.T) {
	r := newFairRig(t)
	r.acquire("ann", "bob", "eve+", "cid")
	r.step(Acquire{Request: Request{Owner: "eve+", Session: true}})
	r.granted(1, 7)
	n := r.f.Snapshot()
	if len(n.Tenures) != 4 || len(n.Requests) != 5 {
		t.Fatalf("took %+v", n)
	}
	cfg := rigConfig()
	r.f = ResumeFair("orders", &cfg, r.next, n, 0, r.now)
	r.steps = r.f.Step
	if again := r.f.Snapshot(); !reflect.DeepEqual(again.Requests, n.Requests) {
		t.Errorf("%+v go on, want %+v", again.Requests, n.Requests)
	}
	r.seen = nil
	r.step(Tick{})
	r.want("Renewing 30s", "Attempted 30s", "Attempted 30s", "Attempted 30s")
	for i := range 3 { // the second request of the session has no tenure of its own
		p := r.f.part(func(p *State) bool { return p.has(n.Tenures[i+1].Number) })
		if p == nil || p.phase != asking || p.requests.head().ID != n.Requests[i+1].ID {
			t.Errorf("tenure %d is asked for by %+v", n.Tenures[i+1].Number, p)
		}
		if saved, ok := r.f.Tenure(n.Tenures[i+1].Number); !ok || !saved.Asks || saved.Part != n.Tenures[i+1].Part {
			t.Errorf("saved as %+v", saved)
		}
	}
	if _, ok := r.f.Tenure(n.Tenures[3].Number + 1); ok {
		t.Error("there is a tenure that nobody asked for")
	}
	session := r.f.part(func(p *State) bool { return p.requests.waits("eve+") })
	if session.requests.waiting.len() != 2 {
		t.Errorf("the part of the session serves %d requests", session.requests.waiting.len())
	}
}
