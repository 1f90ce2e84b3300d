package forgettest

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Instant is a time on the clock of the machine that all processes share, and that nobody sets: CLOCK_MONOTONIC.
type Instant = time.Duration

func now() Instant {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail for this clock
	return Instant(t.Nano())
}

// Hold is one request for a lock, and what became of it.
type Hold struct {
	Lock  string // its name, without the end that it has in this run
	Kind  Kind
	Agent int
	// Weight is what the hold takes of what the lock has, its capacity.
	Weight, Capacity int
	Hot              bool
	Token            uint64

	Asked Instant
	// Granted is when the worker knew that it holds the lock. It is 0 if the run was over before.
	Granted Instant
	// Ended is when the holder no longer trusts the hold: it is about to release it, has learned that it is lost, or its
	// deadline has passed, whichever is first.
	Ended Instant
	// Released is when the release of the hold has been answered. The agent may stop in between, and answer late.
	Released Instant
	// Lost is why the hold was lost, as the agent says it. It is empty if it was not.
	Lost string `json:",omitempty"`
}

// String implements [fmt.Stringer].
func (h Hold) String() string {
	return fmt.Sprintf("agent %d has %d of %s, token %d, asked %d, granted %d, ended %d, released %d, lost: %q",
		h.Agent, h.Weight, h.Lock, h.Token, h.Asked, h.Granted, h.Ended, h.Released, h.Lost)
}

// alone is whether the hold shares the lock with nobody.
func (h *Hold) alone() bool { return h.Weight == h.Capacity }

// Outage is one time that the store forgets.
type Outage struct {
	Began    Instant // before the old server fails
	Answered Instant // the new server answers
}

// Freeze is a time in which an agent does not run.
type Freeze struct {
	Agent    int
	From, To Instant
}

// history is all that is known of one run.
type history struct {
	holds   []Hold
	outages []Outage
	freezes []Freeze
	ended   Instant // of the load
	stuck   int     // workers that did not end: nobody has answered what they asked for
	refused map[string]int
}
