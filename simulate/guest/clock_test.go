package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// A clock is fast or slow by its rate, and the next one goes on from there at the opposite rate.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hour = time.Hour
		leads := func(c clock, want time.Duration) {
			t.Helper()
			if lead := time.Until(c.now()); lead != want {
				t.Errorf("it is ahead by %v, want %v", lead, want)
			}
		}
		c := clock{since: time.Now(), ahead: time.Second, rate: 500}
		leads(c, time.Second)
		time.Sleep(hour)
		leads(c, time.Second+hour/2000)
		next := c.next()
		leads(next, time.Second+hour/2000)
		time.Sleep(2 * hour)
		leads(next, time.Second-hour/2000)
	})
}
