package saved

import (
	"time"

	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// Stamp is an instant on the clock of an agent, for another process on the same machine.
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

// Now is the present time. It reads the agent's own clock last. So another process finds deadlines too early rather
// than too late.
func Now(own func() lockstate.Instant) Stamp {
	s := Stamp{Wall: time.Now().Round(0)}
	s.Boot, s.Up = bootclock.ID(), bootclock.Now()
	s.At = own()
	return s
}

// age is how long ago the stamp was made. It reports false if nobody knows.
func (s *Stamp) age() (time.Duration, bool) {
	return s.since(time.Now(), bootclock.ID(), bootclock.Now())
}

// since is how long ago the stamp was made. It reports false if that is not known: the machine
// was booted since, or this is another machine. If the wall clock and the time since boot
// differ, the longer time counts, because somebody may have set the wall clock back.
func (s *Stamp) since(now time.Time, boot string, up time.Duration) (time.Duration, bool) {
	if s.Boot != boot {
		return 0, false
	}
	age := now.Sub(s.Wall)
	if boot != "" {
		age = max(age, up-s.Up)
	}
	return age, age >= 0
}
