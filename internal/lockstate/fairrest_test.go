package lockstate

import (
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// newFairRest is a fair lock that one agent has used often enough. Its next tenure may rest.
func newFairRest(t *testing.T) *fairRig {
	r := newFairRig(t)
	r.f.cfg.Rest = 100 * time.Millisecond
	r.now = Instant(time.Second)
	for range 3 {
		r.acquire("ann")
		r.grant()
		r.release("ann")
		r.returned()
		r.now = r.now.add(gap)
	}
	r.seen = nil
	return r
}

// grant answers the last attempt as a store that lets tenures rest.
func (r *fairRig) grant() {
	e := r.last(Attempted)
	r.step(AcquireReplied{Tenure: e.Tenure, Reply: lockagent.AcquireReply{
		Granted: true, Token: 100 * lockagent.Token(len(r.tenures)), At: storeTime(r.now), Rests: e.Rests,
	}})
}

// returned answers the last release.
func (r *fairRig) returned() {
	r.step(ReleaseReplied{Tenure: r.last(Returning).Tenure, Reply: lockagent.ReleaseReply{Released: true, At: storeTime(r.now)}})
}

// fairRested is newFairRest with a tenure that rests. It is the fourth, and its first token is 400.
func fairRested(t *testing.T) *fairRig {
	r := newFairRest(t)
	r.acquire("ann")
	r.grant()
	r.release("ann")
	r.want("Requested ann", "Attempted 2s", "Began", "Granted ann 400", "Ended ann", "Rested", "Unlocked 4")
	return r
}

func TestFairRest(t *testing.T) {
	t.Run("grants without the store", func(t *testing.T) {
		r := fairRested(t)
		r.acquire("bob")
		r.want("Requested bob", "Granted bob 401 by rest")
		r.release("bob")
		r.want("Ended bob", "Rested", "Unlocked 5")
		r.acquire("cid")
		r.want("Requested cid", "Granted cid 402 by rest")
		if len(r.f.parts) != 1 {
			t.Errorf("%d parts, want the one that rests", len(r.f.parts))
		}
	})
	t.Run("ends when another agent wants the lock", func(t *testing.T) {
		r := fairRested(t)
		r.step(Wanted{Tenure: r.tenures[3]})
		r.want("Contested", "Returning")
		r.acquire("bob")
		r.want("Requested bob", "Attempted 2s")
	})
	t.Run("does not begin again when another request waits", func(t *testing.T) {
		r := fairRested(t)
		r.acquire("bob", "cid")
		r.want("Requested bob", "Granted bob 401 by rest", "Contested", "Requested cid", "Attempted 2s")
		r.release("bob")
		r.want("Ended bob", "Returning")
		r.acquire("dan")
		r.want("Requested dan", "Attempted 2s")
	})
	t.Run("does not begin when another request came before the answer", func(t *testing.T) {
		r := newFairRest(t)
		r.acquire("ann")
		asked := r.last(Attempted)
		r.acquire("bob")
		r.step(AcquireReplied{Tenure: asked.Tenure, Reply: lockagent.AcquireReply{Granted: true, Token: 400, At: storeTime(r.now), Rests: asked.Rests}})
		r.release("ann")
		r.want("Requested ann", "Attempted 2s", "Contested", "Requested bob", "Attempted 2s", "Contested", "Began", "Granted ann 400", "Ended ann", "Returning")
	})
	t.Run("lets a session in again", func(t *testing.T) {
		r := fairRested(t)
		r.acquire("ann+", "ann+")
		r.want("Requested ann+", "Granted ann+ 401 by rest", "Requested ann+", "Reentered ann+ 401 x2")
	})
	t.Run("goes back before another tenure is asked for, if its tick is late", func(t *testing.T) {
		r := fairRested(t)
		r.now = r.now.add(r.f.cfg.Rest)
		r.acquire("bob")
		r.want("Contested", "Returning", "Requested bob", "Attempted 2s")
		if parts := len(r.f.parts); parts != 2 {
			t.Errorf("%d parts, want one for each tenure", parts)
		}
	})
	t.Run("is put off for all parts", func(t *testing.T) {
		r := fairRested(t)
		r.acquire("bob", "cid")
		r.release("bob")
		r.returned()
		r.grant()
		r.release("cid")
		r.returned()
		for n, want := range []bool{false, false, false, true} {
			r.now = r.now.add(gap)
			r.acquire("dan")
			if got := r.last(Attempted).Rests; got != want {
				t.Errorf("attempt %d asks for a tenure that may rest: %t", n+1, got)
			}
			r.grant()
			r.release("dan")
			if !want {
				r.returned()
			}
		}
	})
	t.Run("ends when the name is wanted as another kind", func(t *testing.T) {
		r := fairRested(t)
		r.step(Vacate{})
		r.want("Contested", "Returning")
	})
	t.Run("ends when an operator breaks the lock, whatever part comes first", func(t *testing.T) {
		r := fairRested(t)
		r.f.parts = slices.Insert(r.f.parts, 0, New("orders", r.f.cfg))
		r.calls++
		r.step(Break{Call: r.calls})
		r.want("Contested", "AskBreak 5", "Returning")
	})
	t.Run("does not begin after a break of its hold", func(t *testing.T) {
		r := fairRested(t)
		r.acquire("bob")
		r.calls++
		r.step(Break{Call: r.calls, Token: 401})
		r.want("Requested bob", "Granted bob 401 by rest", "Contested", "Ended bob: broken", "Returning")
	})
	t.Run("ends with the tick, and on closing", func(t *testing.T) {
		r := fairRested(t)
		at, ok := r.f.Alarm()
		if !ok || at > r.now.add(gapsOfRest*gap) || !r.f.Resting() {
			t.Errorf("rests until %v", time.Duration(at))
		}
		r.now = at
		r.step(Tick{})
		r.want("Returning")
		r = fairRested(t)
		r.step(Close{})
		r.want("Closed", "Returning")
	})
}
