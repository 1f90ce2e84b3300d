package lockstate

import (
	"time"
)

// Instant is a point on the clock of one agent: the time since the agent started, which
// includes suspensions of the machine. It means nothing to other agents.
type Instant time.Duration

// never is later than every other instant.
const never = Instant(1<<63 - 1)

func (i Instant) add(d time.Duration) Instant { return i + Instant(d) }

// Sub is the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Moment is what a step gets from outside: the time, and a number that no other step of
// this agent has. The numbers grow with the steps of one lock. They identify requests and
// tenures, and scatter retries.
type Moment struct {
	Now   Instant
	Fresh uint64
}

// scatter is a duration in [0, most) that differs from step to step. So agents that wait
// for the same thing do not all come back at once.
func (m Moment) scatter(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	x := m.Fresh * 0x9e3779b97f4a7c15 // the mixing steps of SplitMix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return time.Duration((x ^ x>>31) % uint64(most))
}
