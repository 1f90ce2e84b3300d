package lockstate

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// latchRig drives a Latch and remembers its events.
type latchRig struct {
	t      *testing.T
	latch  *Latch
	now    Instant
	fresh  uint64
	events []Event
}

func newLatchRig(t *testing.T) *latchRig {
	cfg := rigConfig()
	return &latchRig{t: t, latch: NewLatch("ready", &cfg), now: 1}
}

// step takes a step, and returns the kinds of its events.
func (r *latchRig) step(c Command) (kinds []Kind) {
	r.t.Helper()
	r.fresh++
	r.events = nil
	r.latch.Step(c, Moment{Now: r.now, Fresh: r.fresh}, func(e *Event) {
		r.events = append(r.events, *e)
		kinds = append(kinds, e.Kind)
	})
	return kinds
}

// expect takes a step that leads to events of these kinds.
func (r *latchRig) expect(c Command, want ...Kind) {
	r.t.Helper()
	if got := r.step(c); !slices.Equal(got, want) {
		r.t.Fatalf("%T led to %v, want %v", c, got, want)
	}
}

// answers are the errors of the last step, by request.
func (r *latchRig) answers() map[lockagent.Owner]error {
	errs := make(map[lockagent.Owner]error)
	for _, e := range r.events {
		if e.Kind == Answered {
			errs[e.Request.Owner] = e.Err
		}
	}
	return errs
}

func (r *latchRig) asks(o lockagent.Owner) Acquire { return Acquire{Request: Request{Owner: o}} }

// replied is the reply to the attempt under way.
func (r *latchRig) replied(reply lockagent.AcquireReply, err error) AcquireReplied {
	return AcquireReplied{Tenure: r.latch.asking, Reply: reply, Err: err}
}

var (
	isOpen   = lockagent.AcquireReply{Granted: true}
	isClosed = lockagent.AcquireReply{Remaining: -1}
)

// One attempt serves all who asked before it was sent. Those who come later need another.
func TestLatchAttemptsAreShared(t *testing.T) {
	r := newLatchRig(t)
	r.expect(r.asks("ann"), Requested, Attempted)
	r.expect(r.asks("bob"), Requested)
	r.expect(r.replied(isOpen, nil), Forgot, Answered, Attempted)
	if got := r.answers(); len(got) != 1 || !errors.Is(got["ann"], ErrOpen) {
		t.Errorf("answered %v", got)
	}
	r.expect(r.asks("cid"), Requested)
	r.expect(r.replied(isClosed, nil), FoundBusy, Queued, Queued)
	// A message may have been lost before the subscription stood.
	r.expect(Woken{}, Woke, Attempted)
	if r.events[1].FoundClosed {
		t.Error("the attempt says that a waiter has waited, and heard all messages")
	}
	r.expect(r.replied(isClosed, nil), FoundBusy)
	r.expect(Woken{}, Woke, Attempted)
	if !r.events[1].FoundClosed {
		t.Error("the attempt does not say that a waiter has waited")
	}
	r.expect(r.replied(isOpen, nil), Forgot, Answered, Answered)
	if !r.latch.Listening() || r.latch.Idle() {
		t.Error("the subscription ends at once")
	}
	at, ok := r.latch.Alarm()
	if !ok {
		t.Fatal("the subscription never ends")
	}
	r.now = at
	r.expect(Tick{}, Quieted)
	if r.latch.Listening() || !r.latch.Idle() {
		t.Error("it is not idle")
	}
}

// A wake-up during an attempt makes the latch ask again: the answer may be older.
func TestLatchWokenWhileAsking(t *testing.T) {
	r := newLatchRig(t)
	r.step(r.asks("ann"))
	r.expect(Woken{}, Woke)
	r.expect(r.replied(isClosed, nil), FoundBusy, Queued, Attempted)
}

// A waiter relies on messages for a while only.
func TestLatchLooksAgain(t *testing.T) {
	r := newLatchRig(t)
	r.step(r.asks("ann"))
	r.step(r.replied(isClosed, nil))
	at, ok := r.latch.Alarm()
	if !ok || at.Sub(r.now) > queuedSleep+time.Second {
		t.Fatalf("the next look is in %v, %t", at.Sub(r.now), ok)
	}
	r.now = at - 1
	r.expect(Tick{})
	r.now = at
	r.expect(Tick{}, Attempted)
}

func TestLatchErrors(t *testing.T) {
	r := newLatchRig(t)
	r.step(r.asks("ann"))
	for range 3 {
		r.expect(r.replied(lockagent.AcquireReply{}, lockagent.ErrStoreUnavailable), AttemptFailed)
		r.now, _ = r.latch.Alarm()
		r.expect(Tick{}, Attempted)
	}
	r.expect(AcquireReplied{Tenure: r.latch.asking - 1, Reply: isOpen}) // of an earlier attempt
	// The first of these before the subscription stood.
	for range 2 {
		r.step(r.replied(isClosed, nil))
		r.expect(Woken{}, Woke, Attempted)
	}
	r.expect(r.asks("cid"), Requested)
	// It is gone for those who have found it closed. The others ask.
	r.expect(r.replied(lockagent.AcquireReply{}, lockagent.ErrLatchGone), Forgot, Answered, Attempted)
	if got := r.answers(); len(got) != 1 || !errors.Is(got["ann"], lockagent.ErrLatchGone) {
		t.Errorf("answered %v", got)
	}
	r.expect(r.replied(isOpen, nil), Forgot, Answered)
	// What was found does not concern those who come later.
	r.expect(r.asks("bob"), Requested, Attempted)
	if r.events[1].FoundClosed {
		t.Error("the attempt says that a waiter has waited")
	}
}

func TestLatchWaitsEnd(t *testing.T) {
	r := newLatchRig(t)
	r.step(r.asks("ann"))
	ann := r.events[0].Request.ID
	r.step(r.asks("bob"))
	r.step(r.asks("cid"))
	r.step(r.replied(isClosed, nil))
	r.expect(Cancel{ID: ann, TimedOut: true, Err: lockagent.ErrTimeout}, Answered)
	if e := r.events[0]; !e.TimedOut || e.Cancelled || !errors.Is(e.Err, lockagent.ErrTimeout) {
		t.Errorf("answered %+v", e)
	}
	r.expect(OwnerGone{Owner: "bob", Call: 7}, Answered, Unlocked)
	r.expect(Release{ID: ann, Call: 8}, Unlocked)
	r.expect(Break{Call: 9}, AskBreak)
	r.expect(Missed{}, Woke, Attempted)
	r.expect(Close{}, Closed, Answered, Quieted)
	r.expect(r.asks("dan"), Requested, Answered)
	if got := r.answers(); !errors.Is(got["dan"], lockagent.ErrClosed) {
		t.Errorf("answered %v", got)
	}
	r.expect(r.replied(isClosed, nil), FoundBusy, Quieted)
	if !r.latch.Idle() {
		t.Error("it is not idle")
	}
}

// A request whose context ends during the first attempt leaves nothing behind that keeps the next one
// from asking.
func TestLatchForgetsThoseWhoLeft(t *testing.T) {
	r := newLatchRig(t)
	r.step(r.asks("ann"))
	r.step(Cancel{ID: r.events[0].Request.ID, Err: lockagent.ErrTimeout})
	r.expect(r.replied(isClosed, nil), FoundBusy)
	r.expect(r.asks("bob"), Requested, Attempted)
}

// News of the connection may come before the subscription stands. A message may be lost until then, so the latch is not
// known to be gone.
func TestLatchNewsBeforeTheSubscriptionStands(t *testing.T) {
	for _, news := range []Command{Missed{}, StoreReset{}} {
		r := newLatchRig(t)
		r.step(r.asks("ann"))
		r.step(r.replied(isClosed, nil))
		r.expect(news, Woke, Attempted)
		r.step(r.replied(isClosed, nil))
		r.expect(Woken{}, Woke, Attempted)
		if r.events[1].FoundClosed {
			t.Errorf("after %T the attempt says that a waiter has waited", news)
		}
		r.step(r.replied(isClosed, nil))
		r.expect(news, Woke, Attempted)
		if !r.events[1].FoundClosed {
			t.Errorf("%T when the subscription stands: the attempt does not say that a waiter has waited", news)
		}
	}
}
