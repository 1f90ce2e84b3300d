//go:build linux

package socket

import (
	"os"
	"strconv"
	"testing"
	"time"
)

func TestWatchdogEvery(t *testing.T) {
	own := strconv.Itoa(os.Getpid())
	for _, test := range []struct {
		pid, usec string
		want      time.Duration
	}{
		{"", "", 0},
		{"", "20000000", 10 * time.Second},
		{own, "20000000", 10 * time.Second},
		{"1", "20000000", 0},
		{own, "soon", 0},
		{own, "-1", 0},
	} {
		t.Setenv("WATCHDOG_PID", test.pid)
		t.Setenv("WATCHDOG_USEC", test.usec)
		if got := WatchdogEvery(); got != test.want {
			t.Errorf("%q, %q: %v, want %v", test.pid, test.usec, got, test.want)
		}
	}
}
