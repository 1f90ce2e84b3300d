package lockstate

import (
	"time"

	"github.com/lockagent/lockagent"
)

// Config is what state machines are told once. All durations but Scatter are positive; the
// shell sees to that.
type Config struct {
	// Agent is whose locks they are.
	Agent lockagent.AgentID

	// Watchdog is the lease of a tenure whose holder wants it kept. It is renewed
	// when a third of it has passed.
	Watchdog time.Duration

	// Scatter is by how much the first renewal of a tenure may come early, and the first
	// after it was in doubt, up to a sixth of the lease: so locks that were acquired together,
	// or checked together after a reset, are not renewed together for ever.
	Scatter time.Duration

	// Claim is how long a grant may lie in its channel before it is taken back.
	Claim time.Duration

	// A tenure is handed off among local owners until it has served HandOffGrants
	// holds or HandOffTime has passed. Then it is returned, so that other agents
	// get their turn.
	HandOffGrants int
	HandOffTime   time.Duration

	// Yield is how long an agent keeps away from a lock that it has returned while
	// other agents were waiting.
	Yield time.Duration

	// MaxSleep bounds how long a waiter trusts in wake-ups before it asks the
	// store again.
	MaxSleep time.Duration

	// RetryMin and RetryMax bound the exponential pause after a failed store call.
	RetryMin, RetryMax time.Duration

	// Linger is how long wake-ups stay subscribed after the last waiter left.
	Linger time.Duration
}

// Margins between the end of a lease in the store and the deadline here. The
// margin pays for clocks that run at slightly different rates, for late timers,
// and for the time that a holder needs to stop.
const (
	marginPart = 10 // of the lease
	marginMost = 2 * time.Second
)

// Trust is for how long a lease is trusted, counted from the instant before it
// was asked for.
func Trust(lease time.Duration) time.Duration {
	return lease - min(lease/marginPart, marginMost)
}

// rounding is by how much leases that are meant to be the same may differ.
const rounding = time.Millisecond

// leaseFor is a lease that is trusted for at least d.
func leaseFor(d time.Duration) time.Duration {
	return d + min(d/(marginPart-1), marginMost)
}

// backoff is the pause before the next try after so many failures in a row.
func (c *Config) backoff(failures int, m Moment) time.Duration {
	pause := c.RetryMin
	for range failures - 1 {
		if pause >= c.RetryMax {
			break
		}
		pause *= 2
	}
	pause = min(pause, c.RetryMax)
	return pause/2 + m.scatter(pause/2)
}

// queuedSleep bounds the sleep of a tenure that has a place in the store's queue: if the
// place is lost, a release passes the lock to others for that long.
const queuedSleep = 10 * time.Second

// sleep is how long to trust in the store's messages when the lease of whoever has the
// lock has left to go: a little beyond that, for then it is free without a message.
func (c *Config) sleep(left time.Duration, queued bool, m Moment) time.Duration {
	most := c.MaxSleep
	if queued {
		most = min(most, queuedSleep)
	}
	if left < 0 || left > most {
		left = most
	}
	const late, spread = time.Millisecond, 100 * time.Millisecond
	return left + late + m.scatter(min(left/10+late, spread))
}
