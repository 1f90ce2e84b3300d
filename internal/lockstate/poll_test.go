package lockstate

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// found answers that a holder has the lock, with a lease that ends at an instant.
func (r *rig) found(holder string, ends Instant) {
	r.t.Helper()
	r.acquireReplied(
		lockagent.AcquireReply{Holder: holder, Remaining: ends.Sub(r.now), At: storeTime(r.now), Clock: "one"}, nil,
	)
}

// asks compares whether the attempt under way says that the agent contends for the lock.
func (r *rig) asks(contends bool) {
	r.t.Helper()
	if r.s.phase != asking || r.last(Attempted).Contends != contends {
		r.t.Fatalf(
			"at %v it asks: %t, and contends: %t; want %t", time.Duration(r.now), r.s.phase == asking,
			r.last(Attempted).Contends, contends,
		)
	}
}

// polling is a rig whose store wakes nobody, and a request of ann.
func polling(t *testing.T) *rig {
	r := newRig(t, func(c *Config) { c.Polls, c.Linger, c.HandOffGrants = true, 10*time.Millisecond, 1 })
	r.acquire("ann")
	return r
}

// Where nobody is woken, a tenure asks after 1 ms, 2 ms and so on. Each pause is a little random.
func TestPolls(t *testing.T) {
	r := polling(t)
	r.asks(false)
	for pause := time.Millisecond; pause <= 4*mostPoll; pause *= 2 {
		r.found("other:7", Instant(time.Minute))
		if r.s.Listening() {
			t.Error("it wants wake-ups")
		}
		r.alarmIn(min(pause, mostPoll)/2, min(pause, mostPoll))
		r.pass(mostPoll)
		r.asks(true)
	}
	r.granted()
	r.release("ann")
	r.returned(0)
	r.pass(10 * time.Millisecond)
	r.idle(true)
	r.acquire("bob")
	r.found("other:7", Instant(time.Minute))
	r.alarmIn(0, time.Millisecond) // the pauses begin anew
}

// If the lock has changed hands, somebody else came first. So the tenure asks soon, and then more often than before.
func TestPollsOfALockThatChangesHands(t *testing.T) {
	const minute = Instant(time.Minute)
	// Pauses that grow until they are the longest, and those of a waiter who came too late.
	long, short := make([]time.Duration, 20), make([]time.Duration, 20)
	for i := range long {
		long[i] = min(time.Millisecond<<i, mostPoll)
		short[i] = leastPoll
		if i > 0 {
			short[i] = min(short[i-1]*5/4, mostPoll)
		}
	}
	pauses := func(r *rig, holder string, ends Instant, want []time.Duration) {
		r.t.Helper()
		for _, pause := range want {
			r.found(holder, ends)
			r.alarmIn(pause/2, pause)
			r.pass(mostPoll)
		}
	}
	t.Run("to another holder", func(t *testing.T) {
		r := polling(t)
		pauses(r, "other:7", minute, long[:6])
		pauses(r, "other:8", minute, []time.Duration{
			time.Millisecond, 1500 * time.Microsecond, 2250 * time.Microsecond,
		})
		pauses(r, "other:9", minute, long[:1])
		pauses(r, "other:8", minute, short)
	})
	t.Run("and back to the same holder", func(t *testing.T) {
		r := polling(t)
		pauses(r, "other:7", minute, long[:6])
		pauses(r, "other:7", minute.add(11*time.Millisecond), []time.Duration{
			time.Millisecond, 1500 * time.Microsecond,
		})
	})
	t.Run("after it was held for long", func(t *testing.T) {
		r := polling(t)
		pauses(r, "other:7", minute, long)
		pauses(r, "other:8", minute, long)
	})
	t.Run("or whose lease was renewed", func(t *testing.T) {
		r := polling(t)
		for i, pause := range long {
			pauses(r, "other:7", Instant(30+10*(i/5))*Instant(time.Second), []time.Duration{pause})
		}
		pauses(r, "other:7", Instant(61*time.Second), []time.Duration{time.Millisecond}) // but now it was released
	})
	t.Run("as far as a slow script tells", func(t *testing.T) {
		r := polling(t)
		for i, pause := range long {
			r.found("other:7", minute.add(time.Duration(i%3-1)*5*time.Millisecond))
			r.alarmIn(pause/2, pause)
			r.pass(mostPoll)
		}
	})
	t.Run("and the lease has no end", func(t *testing.T) {
		r := polling(t)
		for _, pause := range long {
			r.acquireReplied(
				lockagent.AcquireReply{Holder: "other:7", Remaining: -1, At: storeTime(r.now), Clock: "one"}, nil,
			)
			r.alarmIn(pause/2, pause)
			r.pass(mostPoll)
		}
	})
	t.Run("in a store without a clock", func(t *testing.T) {
		r := polling(t)
		for _, pause := range long {
			r.acquireReplied(
				lockagent.AcquireReply{Holder: "other:7", Remaining: 10 * time.Second, At: storeTime(r.now)}, nil,
			)
			r.alarmIn(pause/2, pause)
			r.pass(mostPoll)
		}
	})
}

// While the store keeps the free lock for others, nobody asks. What is known of the last holder stays.
func TestPollsOfALockThatIsKeptForOthers(t *testing.T) {
	r := polling(t)
	r.found("other:7", Instant(time.Minute))
	r.pass(mostPoll)
	r.found("", r.now.add(150*time.Millisecond))
	r.alarmIn(151*time.Millisecond, 168*time.Millisecond)
	r.pass(168 * time.Millisecond)
	r.found("other:7", Instant(time.Minute))
	r.alarmIn(time.Millisecond, 2*time.Millisecond)
}

// The end of a lease may come before the next poll.
func TestPollsWhenTheLeaseIsOver(t *testing.T) {
	r := polling(t)
	ends := Instant(10*mostPoll + 2*time.Millisecond)
	for range 10 {
		r.found("other:7", ends)
		r.pass(mostPoll)
	}
	r.found("other:7", ends)
	r.alarmIn(2*time.Millisecond, 6*time.Millisecond)
}

// A store that wakes those who wait may still name a time within which a waiter has to ask again, whatever it waits
// for. That waiter asks then, once, and no other does.
func TestAsksWithinTheTimeThatTheStoreNames(t *testing.T) {
	const within, late = time.Second, 102 * time.Millisecond
	placed := lockagent.AcquireReply{Holder: "other:7", Remaining: 30 * time.Second, Queued: true}
	asks := placed
	asks.AskWithin = within
	for waiter, mode := range map[string]Mode{"for a plain lock or as a writer": Exclusive, "as a reader": Shared} {
		t.Run(waiter, func(t *testing.T) {
			r := newRig(t)
			r.request(Request{Owner: "ann", Mode: mode})
			for range 3 {
				r.acquireReplied(asks, nil)
				r.alarmIn(within, within+late)
				r.skip()
				r.pass(within + late)
				r.want("Attempted 30s")
				if e := r.last(Attempted); e.Request.Mode != mode {
					t.Errorf("attempted %+v", e)
				}
			}
		})
	}
	for waiter, newRig := range map[string]func(*testing.T) *fairRig{
		"for a fair lock": newFairRig, "for permits": newPermitsRig,
	} {
		t.Run(waiter, func(t *testing.T) {
			r := newRig(t)
			r.wants("ann", 1)
			r.wants("bob", 1)
			r.replied(2, placed)
			for range 3 {
				r.replied(1, asks)
				at, _ := r.f.Alarm()
				if left := at.Sub(r.now); left < within || left > within+late {
					t.Errorf("asks again in %v", left)
				}
				r.now, r.seen = at, nil
				r.step(Tick{})
				r.want("Attempted 30s")
				if e := r.last(Attempted); e.Request.Owner != "ann" {
					t.Errorf("attempted %+v", e)
				}
			}
		})
	}
}

// While the store leaves a free fair lock to another program, which may be dead, each waiter asks only to keep its
// place.
func TestFairWaitersAskSeldomWhileTheLockIsLeftToOthers(t *testing.T) {
	const kept, within = 6 * time.Second, 2 * time.Second
	r := newFairRig(t)
	r.acquire("ann", "bob", "cid")
	asked := make(map[lockagent.Owner][]time.Duration)
	for r.now < Instant(kept) {
		events := r.events
		r.events = nil
		for _, e := range events {
			if e.Kind == Attempted {
				asked[e.Request.Owner] = append(asked[e.Request.Owner], time.Duration(r.now))
				left := Instant(kept).Sub(r.now)
				r.step(AcquireReplied{Tenure: e.Tenure, Reply: lockagent.AcquireReply{
					Remaining: left, At: storeTime(r.now), Queued: true, AskWithin: within, Outsiders: 1,
				}})
			}
		}
		r.now, _ = r.f.Alarm()
		r.step(Tick{})
	}
	for _, owner := range []lockagent.Owner{"ann", "bob", "cid"} {
		if at := asked[owner]; len(at) != 3 || at[1] < within || at[2] < 2*within {
			t.Errorf("%s asked at %v, want it to ask at once and every %v", owner, at, within)
		}
	}
}

// An agent whose own requests wait keeps away for a moment. Others would not meet the lock free. Then it tells the
// store that it contends for the lock, until nobody has waited for a moment.
func TestPollsYield(t *testing.T) {
	r := polling(t)
	r.granted()
	r.acquire("bob")
	r.release("ann")
	r.skip()
	r.returned(0)
	r.want("Returned", "Unlocked 1")
	if r.s.Listening() {
		t.Error("it wants wake-ups")
	}
	r.alarmIn(time.Second, time.Second)
	r.pass(time.Second)
	r.asks(true)
	for _, c := range []struct {
		pause    time.Duration
		contends bool
	}{{9 * time.Millisecond, true}, {10 * time.Millisecond, false}} {
		r.granted()
		r.releaseOwner("bob")
		r.returned(0)
		r.pass(c.pause)
		r.acquire("bob")
		r.asks(c.contends)
	}
}

// Other programs may count tokens ahead of the store's clock. Then those of the tenure are as far ahead.
func TestTokensAheadOfTheClock(t *testing.T) {
	const ahead = lockagent.Token(time.Hour / time.Microsecond)
	r := newRig(t, func(c *Config) { c.HandOffGrants = 10_000 })
	r.acquire("ann", "bob")
	first := lockagent.Token(storeTime(r.now)) + ahead
	r.acquireReplied(lockagent.AcquireReply{Granted: true, Token: first, At: storeTime(r.now)}, nil)
	r.skip()
	r.release("ann")
	if owner, token, _, _ := r.s.Hold(); owner != "bob" || token != first+1 {
		t.Errorf("held by %q with token %d, want a hand-off to bob with %d", owner, token, first+1)
	}
	if most := r.s.tenure.greatest(r.now); most != first+lockagent.Token(tokenSlack/time.Microsecond) {
		t.Errorf("the greatest token is %d, the first was %d", most, first)
	}
}
