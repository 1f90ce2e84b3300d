package sizing

import (
	"sync/atomic"
	"time"
)

// kind is what a meter counts.
type kind int

const (
	// Commands that Redis is sent.
	renewCommand kind = iota
	acquire
	release
	subscribe
	unsubscribe

	renewal      // a lock in a renewCommand
	wakeUp       // a message that an agent received
	shortCommand // one of the commands, about a lock that nobody else wants
	hotCommand   // one of the commands, about a contended lock
	hotGrant
	attempt // of an acquire for a lock that is kept
	event   // that is published
	lost    // a hold
	kinds
)

// lastCommand is the last kind that is a command.
const lastCommand = unsubscribe

// tick is how fine a meter tells times apart.
const tick = 10 * time.Millisecond

// meter counts what happens in virtual time.
type meter struct {
	began time.Time
	ticks [][kinds]atomic.Int64
}

// newMeter counts from now on for a while; what comes later is not counted.
func newMeter(d time.Duration) *meter {
	return &meter{began: time.Now(), ticks: make([][kinds]atomic.Int64, d/tick)}
}

func (m *meter) count(k kind, n int) {
	if i := int(time.Since(m.began) / tick); i < len(m.ticks) {
		m.ticks[i][k].Add(int64(n))
	}
}

// span is a stretch of a meter's time.
type span struct {
	*meter
	from, to int // ticks
}

// last is the span of the last d.
func (m *meter) last(d time.Duration) span {
	to := int(time.Since(m.began) / tick)
	return span{m, to - int(d/tick), to}
}

// total is how many there were of a kind.
func (s span) total(k kind) (n int64) {
	for i := s.from; i < s.to; i++ {
		n += s.ticks[i][k].Load()
	}
	return n
}

// rate is how many there were of a kind in a second.
func (s span) rate(k kind) float64 {
	return float64(s.total(k)) / (time.Duration(s.to-s.from) * tick).Seconds()
}

// commandRate is how many commands there were in a second.
func (s span) commandRate() (rate float64) {
	for k := range lastCommand + 1 {
		rate += s.rate(k)
	}
	return rate
}

// burst is the greatest number of commands in any stretch of d.
func (s span) burst(d time.Duration) (most int64) {
	sent := func(i int) (n int64) {
		for k := range lastCommand + 1 {
			n += s.ticks[i][k].Load()
		}
		return n
	}
	var within int64
	for i := s.from; i < s.to; i++ {
		within += sent(i)
		if gone := i - int(d/tick); gone >= s.from {
			within -= sent(gone)
		}
		most = max(most, within)
	}
	return most
}
