package contender

import (
	"context"
	"sync/atomic"
	"time"
)

// Slowed is a contender that wastes a part of the time that a cycle takes, for to
// see that a measurement notices.
type Slowed struct {
	Contender
	// Part is what is wasted, of the time without the waste.
	Part float64
	// Lanes is how many cycles of this process can be at work at a time: the number
	// of cores for locks that are independent, and less than one for a lock that
	// processes share.
	Lanes float64

	start atomic.Int64
	ops   atomic.Int64
}

// Begin begins to count cycles and their time.
func (s *Slowed) Begin() {
	s.ops.Store(0)
	s.start.Store(time.Now().UnixNano())
}

// Lock implements [Contender].
func (s *Slowed) Lock(ctx context.Context, name string) (Held, error) {
	held, err := s.Contender.Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	return &slowedHeld{held, s}, nil
}

type slowedHeld struct {
	Held
	slowed *Slowed
}

// Unlock wastes the time while the lock is held, which counts for locks of one's
// own as anywhere else, and for a shared one is where it hurts.
func (h *slowedHeld) Unlock() error {
	s := h.slowed
	now := time.Now()
	elapsed := now.UnixNano() - s.start.Load()
	cycle := float64(elapsed) / float64(s.ops.Add(1)) * s.Lanes
	Waste(now, time.Duration(cycle*s.Part/(1+s.Part))) // cycle has the waste in it
	return h.Held.Unlock()
}

// Waste keeps a core busy until some time after since.
func Waste(since time.Time, d time.Duration) {
	for time.Since(since) < d {
	}
}
