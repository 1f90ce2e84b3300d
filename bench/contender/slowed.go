package contender

import (
	"context"
	"sync/atomic"
	"time"
)

// Slowed is a contender that wastes a part of the time in which it does a cycle, to
// see that a measurement notices: of all that its goroutines do in a second, so that
// the waste of many on few cores is no more than that of one. Unless it is told how long
// that is, it finds it out in its first run, which it does not slow.
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

// Unlock wastes the time while the lock is held, which counts for locks of one's
// own as anywhere else, and for a shared one is where it hurts.
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
