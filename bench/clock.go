package main

import "golang.org/x/sys/unix"

// monotonic is the time in nanoseconds on a clock that all processes of the machine
// share.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail for this clock
	return t.Nano()
}

// cpuSeconds is the processor time that this process has used.
func cpuSeconds() float64 {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // cannot fail for this process
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
