package main

import "time"

// wakeUp is by how much a sleeper may be late: the system takes some time to wake up a processor.
const wakeUp = 300 * time.Microsecond

// occupy returns when d has passed, and hardly later: that would count as time between holds. So
// it sleeps for a little less, and watches the clock for the rest. If d is short it only sleeps:
// others need the processor.
func occupy(d time.Duration) {
	if d <= wakeUp {
		sleep(d)
		return
	}
	end := time.Now().Add(d)
	sleep(d - wakeUp)
	for time.Now().Before(end) {
	}
}
