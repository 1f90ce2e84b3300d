package queue

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// TestPulse follows what an agent tells of itself.
func TestPulse(t *testing.T) {
	const second = lockagent.StoreTime(time.Second / time.Microsecond)
	p := Pulse{Every: 10 * time.Second}
	see := func(at time.Duration, e lockagent.Event) bool { return p.See(at, &e) }
	wantDue := func(at time.Duration) {
		t.Helper()
		if p.Due(at-1) || !p.Due(at) {
			t.Errorf("at %v: due %v; a moment before: %v", at, p.Due(at), p.Due(at-1))
		}
	}
	sumOf := func(tokens ...lockagent.Token) (sum uint64) { // of holds of the lock without a name
		for _, token := range tokens {
			sum += lockagent.HoldSum("", 0, token)
		}
		return sum
	}
	wantBeat := func(at time.Duration, want lockagent.Event, holds ...lockagent.Token) {
		t.Helper()
		want.Count, want.Sum = len(holds), sumOf(holds...)
		want.Kind = lockagent.EventAlive
		if at > 10*time.Second && want.Lease == 0 {
			want.Lease = 30 * time.Second
		}
		if got := p.Beat(at, time.Time{}); got != want {
			t.Errorf("at %v\ngot  %+v\nwant %+v", at, got, want)
		}
	}
	if p.Due(time.Hour) {
		t.Error("nothing was recorded")
	}
	// It goes on with a hold from another process.
	see(0, lockagent.Event{Kind: lockagent.EventAgentStarted, Store: "s", Count: 1, Sum: sumOf(3)})
	wantDue(10 * time.Second)
	wantBeat(10*time.Second, lockagent.Event{Store: "s"}, 3)
	wantDue(20 * time.Second)
	see(10500*time.Millisecond, lockagent.Event{
		Kind: lockagent.EventAlive, StoreTime: 900 * second, Lease: 30 * time.Second,
	})
	wantDue(20 * time.Second)
	wantBeat(10500*time.Millisecond, lockagent.Event{Store: "s", StoreTime: 900 * second, Lease: 30 * time.Second}, 3)

	see(11*time.Second, lockagent.Event{Kind: lockagent.EventLost, Token: 3})
	grant := lockagent.Event{
		Kind: lockagent.EventGranted, Token: 5, Count: 1, How: lockagent.ByStore,
		StoreTime: 999 * second, Confirmed: 1000 * second, // it waited for a renewal
	}
	see(11*time.Second, grant)
	grant.Token, grant.How, grant.StoreTime, grant.Confirmed = 6, lockagent.ByHandOff, 990*second, 0 // the tenure is older
	see(12*time.Second, grant)
	see(12*time.Second, lockagent.Event{Kind: lockagent.EventReentered, Token: 5, Count: 2})
	see(13*time.Second, lockagent.Event{Kind: lockagent.EventReleased, Token: 5, Count: 1})
	see(13*time.Second, lockagent.Event{Kind: lockagent.EventHolding, Token: 5, Count: 1})
	see(13*time.Second, lockagent.Event{Kind: lockagent.EventBroken}) // of another agent
	// A part in a thousand may be the drift of the clocks.
	wantBeat(21*time.Second, lockagent.Event{Store: "s", StoreTime: 1000*second + 10*second - second/100}, 6, 5)

	see(22*time.Second, lockagent.Event{Kind: lockagent.EventReleased, Token: 5})
	if !see(22*time.Second, lockagent.Event{
		Kind: lockagent.EventRenewed, StoreTime: 1015 * second, Lease: 30 * time.Second,
	}) {
		t.Error("it is not due earlier")
	}
	wantDue(23 * time.Second)
	if see(22500*time.Millisecond, lockagent.Event{
		Kind: lockagent.EventRenewed, StoreTime: 1014 * second, Lease: time.Minute,
	}) {
		t.Error("it is due earlier")
	}
	wantDue(23 * time.Second) // the first renewal has waited longer
	wantBeat(
		22500*time.Millisecond,
		lockagent.Event{Store: "s", StoreTime: 1014 * second, Confirmed: 1015 * second, Lease: 59 * time.Second}, 6,
	)

	// The renewal for a minute is over long before the others.
	see(23*time.Second, lockagent.Event{Kind: lockagent.EventRenewed, StoreTime: 1016 * second, Lease: 30 * time.Second})
	wantBeat(
		23*time.Second,
		lockagent.Event{Store: "s", StoreTime: 1016 * second, Confirmed: 1016 * second, Lease: 58 * time.Second}, 6,
	)
	see(24*time.Second, lockagent.Event{Kind: lockagent.EventRenewed, StoreTime: 1050 * second, Lease: 30 * time.Second})
	wantBeat(24*time.Second, lockagent.Event{Store: "s", StoreTime: 1050 * second, Confirmed: 1050 * second}, 6)

	// The clock was set back. Renewals from before may still arrive.
	see(30*time.Second, lockagent.Event{
		Kind: lockagent.EventStoreReset, Reset: lockagent.Reset{From: "x", To: "x", Before: 500 * second},
	})
	see(31*time.Second, lockagent.Event{Kind: lockagent.EventRenewed, StoreTime: 1020 * second})
	see(31*time.Second, lockagent.Event{Kind: lockagent.EventAlive, StoreTime: 1020 * second})
	wantBeat(39*time.Second, lockagent.Event{Store: "s", StoreTime: 500*second + 9*second - 9*second/1000}, 6)
	see(40*time.Second, lockagent.Event{Kind: lockagent.EventReturned, Returned: 509 * second})
	see(40*time.Second, lockagent.Event{Kind: lockagent.EventLost, Token: 6})
	wantBeat(40*time.Second, lockagent.Event{Store: "s", StoreTime: 509 * second})

	see(41*time.Second, lockagent.Event{Kind: lockagent.EventAgentStopped})
	if p.Due(time.Hour) {
		t.Error("the agent has stopped")
	}
}
