//go:build !linux

package bootclock

import "time"

// Now is not known here.
func Now() time.Duration { return 0 }

// Suspended is not known here: on Darwin and Windows the monotonic clock of the
// runtime itself counts some or all of it.
func Suspended() time.Duration { return 0 }

// Clock is not known here.
func Clock() string { return "" }

// ID is not known here.
func ID() string { return "" }
