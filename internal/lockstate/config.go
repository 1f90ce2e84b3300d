package lockstate

import (
	"time"

	"github.com/lockagent/lockagent"
)

// Config holds the settings of all locks of an agent. All durations but Scatter and Margin
// are positive: the shell checks that.
type Config struct {
	// Agent is the agent that the locks belong to.
	Agent lockagent.AgentID

	// Used reports whether the agent has used a number. A tenure with another number may be of another agent with the
	// same identity, and is no ghost. If it is nil, the agent has used all numbers.
	Used func(number uint64) bool

	// Watchdog is a kept lease. It is renewed when a third of it has passed.
	Watchdog time.Duration

	// Scatter is how far apart the instants are at which a kept tenure may be renewed, and at
	// most a sixth of the lease. They differ from tenure to tenure. Without it, locks that were
	// acquired together would be renewed together for ever. So would locks that were checked
	// together after a reset. If Scatter is 0, a lease is renewed when a third of it has passed.
	Scatter time.Duration

	// Margin is the time between the deadline and the end of the lease in the store. It takes
	// at most half of a lease. If it is 0, the margin is a tenth of the lease, and at most two
	// seconds.
	Margin time.Duration

	// Claim is how long a grant may lie in its channel before it is taken back.
	Claim time.Duration

	// HandOffGrants and HandOffTime bound a tenure with hand-offs. It is returned when it has
	// served so many holds, or when so much time has passed. Then other agents get their turn.
	HandOffGrants int
	HandOffTime   time.Duration

	// Rest is for how long a tenure that may rest serves requests. So it bounds for how long an outsider waits
	// until it is woken. If Rest is 0, no tenure rests. It is 0 for a [Fair], and where requests may be shared.
	Rest time.Duration

	// Yield is how long an agent keeps away from a lock that it returned while other agents
	// waited.
	Yield time.Duration

	// Polls says that the store wakes nobody: a tenure that waits asks again after 1 ms, 2 ms and
	// so on, up to 128 ms. It begins anew when the lock has changed hands, and asks more often then.
	Polls bool

	// MaxSleep bounds the time for which a tenure relies on wake-ups. Then it asks the store
	// again.
	MaxSleep time.Duration

	// RetryMin and RetryMax bound the exponential pause after a failed store call.
	RetryMin, RetryMax time.Duration

	// Linger is how long the lock counts as contended after the agent last saw that others want it. For so long it
	// stays subscribed to wake-ups.
	Linger time.Duration
}

// The default margin. It makes up for clocks that run at slightly different rates, for late
// timers, and for the time that a holder needs to stop.
const (
	marginPart = 10 // of the lease
	marginMost = 2 * time.Second
)

// Trust is for how long a lease is trusted with the default margin. It counts from the
// instant before the call.
func Trust(lease time.Duration) time.Duration {
	return lease - min(lease/marginPart, marginMost)
}

// rounding is how much two leases may differ that are meant to be equal.
const rounding = time.Millisecond

// trust is [Trust] with the configured margin.
func (c *Config) trust(lease time.Duration) time.Duration {
	if c.Margin == 0 {
		return Trust(lease)
	}
	return lease - min(c.Margin, lease/2)
}

// leaseFor returns a lease that is trusted for at least d.
func (c *Config) leaseFor(d time.Duration) time.Duration {
	if c.Margin == 0 {
		return d + min(d/(marginPart-1), marginMost)
	}
	return d + min(c.Margin, d)
}

// backoff is the pause after so many failures in a row.
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

// queuedSleep bounds the sleep of a tenure that has a place in the store's queue. If the
// place is lost, releases pass the lock to others for that long.
const queuedSleep = 10 * time.Second

// unplacedSleep bounds the sleep of a tenure that asked for a place and got none.
const unplacedSleep = lockagent.PassLease

// unboundedSleep leaves the bound to [Config.MaxSleep].
const unboundedSleep = time.Duration(never)

// sleep is how long to rely on the store's messages. left is what is left of the holder's
// lease, or negative if that has no end. When the lease is over, the lock is free and no
// message says so. So the sleep ends soon after that, and never lasts much longer than most.
func (c *Config) sleep(left, most time.Duration, m Moment) time.Duration {
	most = min(most, c.MaxSleep)
	if left < 0 || left > most {
		left = most
	}
	const late, spread = time.Millisecond, 100 * time.Millisecond
	return left + late + m.scatter(min(left/10+late, spread))
}
