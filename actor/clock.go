package actor

import (
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent/internal/lockstate"
)

// clock tells the instants of one agent: the time since it started, including
// the time for which the machine was suspended, which the monotonic clock of the
// runtime leaves out. Asking the system for that costs a system call, so it is
// asked only when the wall clock has moved against the monotonic clock: after a
// suspension it has, and when somebody set the wall clock nothing comes of it.
type clock struct {
	start     time.Time
	suspended func() time.Duration // since boot
	before    time.Duration        // suspended at start

	drift atomic.Int64 // of the wall clock against the monotonic one, when last seen
	slept atomic.Int64 // suspended since start, when last asked
}

// driftMost is how far the clocks may move apart before the system is asked.
// Shorter suspensions are for the margins of the leases to bear.
const driftMost = 50 * time.Millisecond

func newClock() *clock {
	return &clock{start: time.Now(), suspended: suspended, before: suspended()}
}

func (c *clock) now() lockstate.Instant { return c.instant(time.Now()) }

// instant is the instant of a time that was read just now.
func (c *clock) instant(t time.Time) lockstate.Instant {
	return c.at(t.Sub(c.start), time.Duration(t.UnixNano()-c.start.UnixNano()))
}

// at is the instant at which so much has passed on the monotonic clock and on the
// wall clock.
func (c *clock) at(mono, wall time.Duration) lockstate.Instant {
	if moved := wall - mono - time.Duration(c.drift.Load()); moved > driftMost || moved < -driftMost {
		c.slept.Store(int64(c.suspended() - c.before))
		c.drift.Store(int64(wall - mono))
	}
	return lockstate.Instant(mono + time.Duration(c.slept.Load()))
}
