// Package slot has the place where an outcome lies until its caller receives it: see [Slot].
package slot

import "sync"

// Slot has a channel through which a giver passes one value to a caller. The giver may take the value back: then either
// the caller has the value, or nobody will ever receive it. All methods may be called at the same time.
type Slot[T any] struct {
	out  chan T // has room for the value
	owns bool   // the slot closes the channel

	mu    sync.Mutex // guards what follows
	stage stage
	valid func() bool // or nil; set while the value lies in the channel
}

type stage uint8

const (
	empty     stage = iota
	lies            // the value is in the channel, or the caller has received it since
	received        // and the slot has noticed
	takenBack       // or it was never put, and will not be
)

// New returns a slot with a channel of its own. [Slot.Put] closes it.
func New[T any]() *Slot[T] { return &Slot[T]{out: make(chan T, 1), owns: true} }

// In returns a slot for a channel of the caller, who closes it. The channel is empty and has room for one value. Nobody
// else may send to the channel before a method of the slot has told that the value was received or taken back.
func In[T any](out chan T) *Slot[T] { return &Slot[T]{out: out} }

// C is the channel.
func (s *Slot[T]) C() <-chan T { return s.out }

// Put puts the value into the channel, once. It never blocks. If the value was taken back before, Put leaves it out.
// The value may depend on what can end at any time. Then valid tells whether that goes on: Put leaves the value out if
// it does not, and see [Slot.Check]. valid may be nil. It must not block, nor use the slot.
func (s *Slot[T]) Put(v T, valid func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stage == empty && (valid == nil || valid()) {
		s.stage, s.valid = lies, valid
		s.out <- v
	}
	if s.owns {
		close(s.out)
	}
}

// Check takes the value back if it is valid no more. Call it when something has ended on which the value may depend.
func (s *Slot[T]) Check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.look() == lies && s.valid != nil && !s.valid() {
		s.take()
	}
}

// TakeBack takes the value back. It reports whether the caller has not received the value, and never will.
func (s *Slot[T]) TakeBack() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.stage {
	case empty:
		s.stage = takenBack
	case lies:
		s.take()
	}
	return s.stage == takenBack
}

// Received reports whether the caller has received the value.
func (s *Slot[T]) Received() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.look() == received
}

// look notices whether the value has gone. From then on the slot does not refer to what the value depends on.
func (s *Slot[T]) look() stage {
	if s.stage == lies && len(s.out) == 0 {
		s.stage, s.valid = received, nil
	}
	return s.stage
}

// take receives the value, unless the caller is faster.
func (s *Slot[T]) take() {
	s.valid = nil
	select {
	case _, ok := <-s.out:
		if ok {
			s.stage = takenBack
			return
		}
	default:
	}
	s.stage = received
}
