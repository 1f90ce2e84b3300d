package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleep does not even yield for no time. It is the system's and not the runtime's, whose
// timers are late by a good part of a millisecond: that would count as time between holds.
func sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	left := unix.NsecToTimespec(d.Nanoseconds())
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &left, &left) == unix.EINTR {
	}
}
