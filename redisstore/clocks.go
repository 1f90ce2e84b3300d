package redisstore

import (
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
)

// clocks is what the store remembers of the servers' clocks, so that none goes back that
// has lost its own memory. There is one clock, or one for each slot.
type clocks struct {
	mu     sync.Mutex // guards what follows
	bySlot map[uint16]*clock
	told   time.Time // when a step was noticed last
}

// clock is what is remembered of one.
type clock struct {
	past script.Past
	last reading // the zero reading if there is none
}

// reading is what a clock showed at some instant between two of our own.
type reading struct {
	at             lockagent.StoreTime
	sent, received time.Time
}

// stepTolerance is how far a clock may be from where it should be. Less is within the margin
// of all but the shortest leases.
const stepTolerance = 100 * time.Millisecond

// stepped reports whether a clock was set between two readings: it moved by more, or by less, than
// the time that can have passed.
func (r reading) stepped(next reading) bool {
	monotonic := passed{next.sent.Sub(r.received), next.received.Sub(r.sent)}
	wall := passed{next.sent.Round(0).Sub(r.received), next.received.Round(0).Sub(r.sent)}
	return stepped(next.at.Sub(r.at), monotonic, wall)
}

// stepped reports whether a clock that moved so far was set. This machine has two clocks of its
// own. The monotonic clock stands still while the machine is suspended, and somebody may set the
// wall clock. One of them is right unless both happen. So a step counts if it shows on both.
//
// A step is not noticed if the wall clock of this machine was set alike, for example because the
// server is on the same machine.
func stepped(moved time.Duration, monotonic, wall passed) bool {
	return !monotonic.fits(moved) && !wall.fits(moved)
}

// passed is the least and the most time that can have passed.
type passed struct{ least, most time.Duration }

// fits reports whether a clock that was not set can have moved so far. The rates of clocks may
// differ by a thousandth.
func (p passed) fits(moved time.Duration) bool {
	tolerance := stepTolerance + p.most/1000
	return p.least-tolerance <= moved && moved <= p.most+tolerance
}

func (c *clocks) past(slot uint16) script.Past {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.bySlot[slot]; of != nil {
		return of.past
	}
	return script.Past{}
}

// note takes note of a time that was told, and of the token with which a tenure began, or 0.
// Another incarnation may not have the tokens that were given before.
func (c *clocks) note(slot uint16, incarnation string, at lockagent.StoreTime, began lockagent.Token) {
	c.change(slot, func(of *clock) {
		of.past.In(incarnation)
		of.past.Note(at, began)
	})
}

// read takes note of a reading. It reports whether the clock was set since the one before. The
// slots of a server share its clock, so earlier readings of other slots do not count any more
// then: one step is noticed once.
func (c *clocks) read(slot uint16, now reading) (before reading, stepped bool) {
	c.change(slot, func(of *clock) {
		before, of.last = of.last, now
		stepped = before.at > 0 && !before.received.Before(c.told) && before.stepped(now)
		if stepped {
			c.told = now.received
		}
	})
	return before, stepped
}

func (c *clocks) change(slot uint16, change func(*clock)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.bySlot[slot]
	if of == nil {
		if c.bySlot == nil {
			c.bySlot = make(map[uint16]*clock)
		}
		of = new(clock)
		c.bySlot[slot] = of
	}
	change(of)
}

// readClock takes note of a reading, and tells if the clock was set.
func (s *Store) readClock(slot uint16, now reading) {
	if before, stepped := s.clocks.read(slot, now); stepped {
		name, _ := s.incarnations.known()
		s.incarnations.report(lockagent.Reset{From: name, To: name, Reason: "clock stepped", After: before.at, Before: now.at})
	}
}

// past is what scripts are told of the past, and the epoch of the incarnation in it.
func (s *Store) past(slot uint16) (past script.Past, epoch uint64) {
	past = s.clocks.past(slot)
	incarnation, epoch := s.incarnations.known()
	past.In(incarnation)
	return past, epoch
}
