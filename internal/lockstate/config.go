package lockstate

import (
	"time"

	"github.com/lockagent/lockagent"
)

// Config is what state machines are told once. All durations but Scatter and Margin are
// positive; the shell sees to that.
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

	// Margin is the time between the end of a lease in the store and the deadline here, but
	// no more than half of the lease. If it is 0 that is a tenth of the lease, at most two seconds.
	Margin time.Duration

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
// was asked for, if no other margin is configured.
func Trust(lease time.Duration) time.Duration {
	return lease - min(lease/marginPart, marginMost)
}

// rounding is by how much leases that are meant to be the same may differ.
const rounding = time.Millisecond

// trust is [Trust] with the margin that is configured.
func (c *Config) trust(lease time.Duration) time.Duration {
	if c.Margin == 0 {
		return Trust(lease)
	}
	return lease - min(c.Margin, lease/2)
}

// leaseFor is a lease that is trusted for at least d.
func (c *Config) leaseFor(d time.Duration) time.Duration {
	if c.Margin == 0 {
		return d + min(d/(marginPart-1), marginMost)
	}
	return d + min(c.Margin, d)
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

// unplacedSleep bounds the sleep of a tenure that asked for such a place and got none.
const unplacedSleep = lockagent.PassLease

// unboundedSleep leaves the bound to [Config.MaxSleep].
const unboundedSleep = time.Duration(never)

// sleep is how long to trust in the store's messages when the lease of whoever has the
// lock has left to go: a little beyond that, for then it is free without a message.
// It is no more than most.
func (c *Config) sleep(left, most time.Duration, m Moment) time.Duration {
	most = min(most, c.MaxSleep)
	if left < 0 || left > most {
		left = most
	}
	const late, spread = time.Millisecond, 100 * time.Millisecond
	return left + late + m.scatter(min(left/10+late, spread))
}
