package main

import "time"

// clock is that of a server. The clocks of the agents are the time of the run.
type clock struct {
	since time.Time     // when it began
	ahead time.Duration // by how much it was ahead then
	rate  int           // by how many millionths it is fast; slow if below 0
}

// lead is by how much it is ahead at a time of the run.
func (c clock) lead(at time.Time) time.Duration {
	return c.ahead + at.Sub(c.since)*time.Duration(c.rate)/1_000_000
}

func (c clock) now() time.Time {
	at := time.Now()
	return at.Add(c.lead(at)).Truncate(time.Microsecond)
}

// next is the clock of the next server. It goes on from this one, and is slow if this one is fast.
func (c clock) next() clock {
	at := time.Now()
	return clock{since: at, ahead: c.lead(at), rate: -c.rate}
}
