package actor

import (
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// clock tells the instants of one agent: the time since it started. That includes the time
// for which the machine was suspended. The monotonic clock of the runtime leaves it out, and
// the system tells it by a system call. The clock makes that call only when the wall clock
// has moved against the monotonic clock. After a suspension it has. If somebody set the wall
// clock, the call was needless and does no harm.
type clock struct {
	start     time.Time
	suspended func() time.Duration // since boot
	before    time.Duration        // suspended at start

	drift atomic.Int64 // of the wall clock against the monotonic clock, at the last system call
	slept atomic.Int64 // how long the machine was suspended since start, by that call
}

// driftMost is how far the clocks may move apart before the system is asked. The margins of
// the leases make up for shorter suspensions.
const driftMost = 50 * time.Millisecond

func newClock() *clock {
	return &clock{start: time.Now(), suspended: bootclock.Suspended, before: bootclock.Suspended()}
}

func (c *clock) now() lockstate.Instant { return c.instant(time.Now()) }

// instant is the instant of a time that was read just now.
func (c *clock) instant(t time.Time) lockstate.Instant {
	return c.at(t.Sub(c.start), time.Duration(t.UnixNano()-c.start.UnixNano()))
}

// at is the instant when mono has passed on the monotonic clock and wall on the wall clock.
func (c *clock) at(mono, wall time.Duration) lockstate.Instant {
	if moved := wall - mono - time.Duration(c.drift.Load()); moved > driftMost || moved < -driftMost {
		c.slept.Store(int64(c.suspended() - c.before))
		c.drift.Store(int64(wall - mono))
	}
	return lockstate.Instant(mono + time.Duration(c.slept.Load()))
}
