// Package warning has the channel by which a holder learns that its lock is wanted, or that its hold is in danger.
package warning

// Warning is a channel that is closed when a warning is given. The zero Warning is one that is not given. A Warning is
// for one goroutine at a time.
type Warning struct {
	given bool
	c     chan struct{} // nil until somebody asks
}

// Given reports whether the warning is given.
func (w *Warning) Given() bool { return w.given }

// Asked reports whether somebody has asked for the channel since a warning was last withdrawn.
func (w *Warning) Asked() bool { return w.c != nil }

// Channel returns the channel, which is closed already if the warning is given.
func (w *Warning) Channel() <-chan struct{} {
	if w.c == nil {
		w.c = make(chan struct{})
		if w.given {
			close(w.c)
		}
	}
	return w.c
}

// Set gives the warning, or withdraws it. A channel that is closed stays closed. Whoever asks after a withdrawal gets
// another channel.
func (w *Warning) Set(given bool) {
	switch {
	case given == w.given || w.c == nil:
	case given:
		close(w.c)
	default:
		w.c = nil
	}
	w.given = given
}
