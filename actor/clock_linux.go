package actor

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// suspended is how long the machine has been suspended since it booted: by so much its boot
// clock is ahead of its monotonic clock.
func suspended() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil {
		return 0 // a kernel without these clocks: suspensions are not counted
	}
	return time.Duration(boot.Nano() - mono.Nano())
}

// uptime names the present boot of the machine, and tells how long ago it was. boot is empty
// if that is not known.
func uptime() (boot string, up time.Duration) {
	var since unix.Timespec
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &since) != nil {
		return "", 0
	}
	return strings.TrimSpace(string(id)), time.Duration(since.Nano())
}
