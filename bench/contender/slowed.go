package contender

import (
	"context"
	"sync/atomic"
	"time"
)

// Slowed is a contender that wastes a part of the time of each cycle, to see that a
// measurement notices. A cycle takes a second divided by the cycles that all goroutines
// do in a second. So many goroutines on few cores waste no greater part than one. If
// Each is 0, the first run is not slowed and finds out how long to waste.
type Slowed struct {
	Contender
	// Part is what is wasted, of the time without the waste.
	Part float64
	// Each is what a cycle wastes.
	Each time.Duration

	start, last, ops atomic.Int64
}

// Begin begins a run. It is not for runs that overlap.
func (s *Slowed) Begin() {
	if ops := s.ops.Load(); s.Each == 0 && ops > 0 {
		s.Each = time.Duration(s.Part * float64(s.last.Load()-s.start.Load()) / float64(ops))
	}
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

// Unlock wastes the time while the lock is held. That hurts those who wait for a
// shared lock. For a lock that nobody shares it makes no difference where the
// time is wasted.
func (h *slowedHeld) Unlock() error {
	now := time.Now()
	h.slowed.ops.Add(1)
	h.slowed.last.Store(now.UnixNano())
	Waste(now, h.slowed.Each)
	return h.Held.Unlock()
}

// Waste keeps a core busy until some time after since.
func Waste(since time.Time, d time.Duration) {
	for time.Since(since) < d {
	}
}
