//go:build linux

package socket

import (
	"os"
	"strconv"
	"time"
)

// WatchdogEvery is how often systemd wants to hear from this process, or 0 if it does not: half of the time after which
// it takes the process for dead. Tell it "WATCHDOG=1" by [Notify].
func WatchdogEvery() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0 // meant for another process
	}
	n, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	return time.Duration(n) * time.Microsecond / 2
}
