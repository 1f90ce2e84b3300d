package lockstate

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// Where nobody is woken, a tenure asks after 1 ms, 2 ms and so on. Each pause is a little random.
func TestPolls(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Polls = true })
	r.acquire("ann")
	for pause := time.Millisecond; pause <= 4*mostPoll; pause *= 2 {
		r.skip()
		r.busy(time.Minute)
		if r.s.Listening() {
			t.Error("it wants wake-ups")
		}
		r.alarmIn(min(pause, mostPoll)/2, min(pause, mostPoll))
		r.skip()
		r.pass(mostPoll)
		r.want("Attempted 30s")
	}
	r.granted()
	r.release("ann")
	r.returned(0)
	if !r.s.Idle() {
		t.Error("it is not idle when all is over")
	}
	r.acquire("bob")
	r.busy(time.Minute)
	r.alarmIn(0, time.Millisecond) // the pauses begin anew
}

// The end of a lease may come before the next poll.
func TestPollsWhenTheLeaseIsOver(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Polls = true })
	r.acquire("ann")
	for range 10 {
		r.busy(time.Minute)
		r.pass(mostPoll)
	}
	r.busy(2 * time.Millisecond)
	r.alarmIn(2*time.Millisecond, 6*time.Millisecond)
}

// An agent whose own requests wait keeps away for a moment. Others would not meet the lock free.
func TestPollsYield(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Polls, c.HandOffGrants = true, 1 })
	r.hold("ann", "bob")
	r.release("ann")
	r.skip()
	r.returned(0)
	r.want("Returned", "Unlocked 1")
	r.alarmIn(time.Second, time.Second)
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
