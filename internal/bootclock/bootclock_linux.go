package bootclock

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since the machine booted, suspension included: CLOCK_BOOTTIME. It is 0 where the system does
// not tell.
func Now() time.Duration {
	now, _ := read(unix.CLOCK_BOOTTIME)
	return now
}

// Suspended is how long the machine has been suspended since it booted: by so much its boot
// clock is ahead of its monotonic clock. It is 0 where the system does not tell.
func Suspended() time.Duration {
	boot, err1 := read(unix.CLOCK_BOOTTIME)
	mono, err2 := read(unix.CLOCK_MONOTONIC)
	if err1 != nil || err2 != nil {
		return 0
	}
	return boot - mono
}

func read(clock int32) (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(clock, &t)
	return time.Duration(t.Nano()), err
}

// firstTimeNamespace is what the system calls the time namespace that it boots with.
const firstTimeNamespace = "time:[4026531834]"

// Clock names the clock that [Now] reads: by the boot, and by the time namespace unless that is the first one. It is
// empty where the system does not tell.
var Clock = sync.OnceValue(func() string {
	id := ID()
	if in, err := os.Readlink("/proc/self/ns/time"); id != "" && err == nil && in != firstTimeNamespace {
		id += "/" + in
	}
	return id
})

// ID names the present boot of the machine. It is empty where the system does not tell.
var ID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // an error leaves it empty
	return strings.TrimSpace(string(id))
})
