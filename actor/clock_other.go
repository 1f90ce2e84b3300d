//go:build !linux

package actor

import "time"

// suspended is not known here: on Darwin and Windows the monotonic clock of the
// runtime itself counts some or all of it.
func suspended() time.Duration { return 0 }

// uptime is not known here either.
func uptime() (boot string, up time.Duration) { return "", 0 }
