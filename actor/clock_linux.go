package actor

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended is how long the machine has been suspended since it booted: what its
// boot clock is ahead of its monotonic clock.
func suspended() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil {
		return 0 // a kernel without these clocks; then suspension goes unseen, as elsewhere
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
