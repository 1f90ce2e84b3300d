package sizing

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
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

	renewal // a lock in a renewCommand
	message // that an agent received
	grant
	fact // for the event log
	lost // a hold
	kinds
)

// lastCommand is the last kind that is a command.
const lastCommand = unsubscribe

// use is what a lock is for. Its name begins with it.
type use int

const (
	kept  use = iota // by one host, for ever
	short            // for a moment, by one host
	now              // wanted now and then by several hosts
	ever             // wanted all the time by several hosts
	uses
)

func (u use) String() string { return [uses]string{"kept", "short", "now", "ever"}[u] }

// useOf is what a lock is for. Of the events that are about no lock there are few.
func useOf(name lockagent.Name) use {
	for u := range uses {
		if strings.HasPrefix(string(name), u.String()) {
			return u
		}
	}
	return kept
}

// tick is how fine a meter tells times apart.
const tick = 10 * time.Millisecond

// meter counts what happens in virtual time.
type meter struct {
	began time.Time
	ticks [][uses][kinds]atomic.Int64
}

// newMeter counts from now on for a while; what comes later is not counted.
func newMeter(d time.Duration) *meter {
	return &meter{began: time.Now(), ticks: make([][uses][kinds]atomic.Int64, d/tick)}
}

func (m *meter) count(name lockagent.Name, k kind) {
	if i := int(time.Since(m.began) / tick); i < len(m.ticks) {
		m.ticks[i][useOf(name)][k].Add(1)
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

// total is how many there were of a kind for a use.
func (s span) total(u use, k kind) (n int64) {
	for i := s.from; i < s.to; i++ {
		n += s.ticks[i][u][k].Load()
	}
	return n
}

// rate is how many there were of a kind for a use in a second.
func (s span) rate(u use, k kind) float64 {
	return float64(s.total(u, k)) / (time.Duration(s.to-s.from) * tick).Seconds()
}

// commands is how many commands there were for a use in a second.
func (s span) commands(u use) (rate float64) {
	for k := range lastCommand + 1 {
		rate += s.rate(u, k)
	}
	return rate
}

// all adds up what f says of each use.
func all(f func(use) float64) (sum float64) {
	for u := range uses {
		sum += f(u)
	}
	return sum
}

// burst is the greatest number of commands in any stretch of d.
func (s span) burst(d time.Duration) (most float64) {
	sent := func(i int) (n float64) {
		for u := range uses {
			for k := range lastCommand + 1 {
				n += float64(s.ticks[i][u][k].Load())
			}
		}
		return n
	}
	var within float64
	for i := s.from; i < s.to; i++ {
		within += sent(i)
		if gone := i - int(d/tick); gone >= s.from {
			within -= sent(gone)
		}
		most = max(most, within)
	}
	return most
}

// peak is the greatest number of commands in any stretch of d, as a multiple of the
// mean.
func (s span) peak(d time.Duration) float64 {
	return s.burst(d) / (all(s.commands) * d.Seconds())
}
