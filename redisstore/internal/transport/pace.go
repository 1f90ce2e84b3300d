package transport

import (
	"math/rand/v2"
	"time"
)

const (
	// The first try after a failure comes after about firstRetry. Each further pause is twice as
	// long, up to lastRetry. The pauses are random, so that not all clients of a server that
	// failed come back at once.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second

	// longestDoubt is about the longest pause between two questions which server serves which
	// slot, while there is reason to ask.
	longestDoubt = 250 * time.Millisecond
)

// pace says how long to wait before the next try. The zero pace begins with the first pause.
type pace struct{ last time.Duration }

// next is a random time around the next pause, which is at most longest.
func (p *pace) next(longest time.Duration) time.Duration {
	p.last = min(max(2*p.last, firstRetry), longest)
	return jitter(p.last)
}

// reset goes back to the first pause.
func (p *pace) reset() { p.last = 0 }

// jitter is a random time between half a pause and one and a half.
func jitter(pause time.Duration) time.Duration { return pause/2 + rand.N(pause) }
