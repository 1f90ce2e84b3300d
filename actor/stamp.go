package actor

import (
	"time"

	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// Stamp tells when a snapshot was taken, for another process on the same machine. It is
// plain data.
type Stamp struct {
	// Wall is the time of day.
	Wall time.Time
	// Boot names the boot of the machine, and Up is the time since then, suspension included.
	// Boot is empty where the system does not tell.
	Boot string
	Up   time.Duration
	// At is the instant on the agent's own clock.
	At lockstate.Instant
}

// stamp tells the present time. It reads the agent's own clock last. So another process finds
// deadlines too early rather than too late.
func (c *clock) stamp() Stamp {
	s := Stamp{Wall: time.Now().Round(0)}
	s.Boot, s.Up = bootclock.ID(), bootclock.Now()
	s.At = c.now()
	return s
}

// passed is how long ago the stamp was made. It reports false if that is not known: the machine
// was booted since, or this is another machine. If the wall clock and the time since boot
// differ, the longer time counts, because somebody may have set the wall clock back.
func (s *Stamp) passed(now time.Time, boot string, up time.Duration) (time.Duration, bool) {
	if s.Boot != boot {
		return 0, false
	}
	passed := now.Sub(s.Wall)
	if boot != "" {
		passed = max(passed, up-s.Up)
	}
	return passed, passed >= 0
}

// ThisBoot reports whether the machine was not booted since the stamp was made.
func (s *Stamp) ThisBoot() bool { return s.Boot == bootclock.ID() }
