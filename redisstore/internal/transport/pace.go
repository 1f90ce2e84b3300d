package transport

import (
	"math/rand/v2"
	"time"
)

const (
	// What failed is tried again after about firstRetry, and then after twice as long each
	// time, up to lastRetry. The pauses are random, so that the clients of a server that
	// failed do not come back all at once.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second

	// longestDoubt is about the longest pause between two questions who serves what, while
	// there is reason to ask.
	longestDoubt = 250 * time.Millisecond
)

// pace says how long to wait before something is tried again. The zero pace is at the
// beginning.
type pace struct{ last time.Duration }

// next is a random time around the next pause.
func (p *pace) next(longest time.Duration) time.Duration {
	p.last = min(max(2*p.last, firstRetry), longest)
	return jitter(p.last)
}

// reset has the next pause be the first.
func (p *pace) reset() { p.last = 0 }

// jitter is a random time around a pause.
func jitter(pause time.Duration) time.Duration { return pause/2 + rand.N(pause) }
