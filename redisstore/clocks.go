package redisstore

import (
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
)

// clocks is what the store remembers of its clocks. Scripts are told of it, so a clock does not go
// back when its server has lost its data. There is one clock, or in a Cluster one for each slot.
type clocks struct {
	mu     sync.Mutex // guards what follows
	bySlot map[uint16]*clock
	told   time.Time // when a step was last noticed
}

// clock is what the store remembers of one clock.
type clock struct {
	past script.Past
	last reading // the zero reading if there is none
}

// reading says that a clock showed the time at, at some instant between sent and received.
type reading struct {
	at             lockagent.StoreTime
	sent, received time.Time
}

// stepTolerance is by how much a clock may move too far or too little before that counts as a step.
// The margins of all but the shortest leases are wider.
const stepTolerance = 100 * time.Millisecond

// stepped reports whether somebody set a clock between two readings: it moved by more, or by less,
// than the time that can have passed.
func (r reading) stepped(next reading) bool {
	monotonic, wall := r.until(next)
	return stepped(next.at.Sub(r.at), monotonic, wall)
}

// until is how much time passed between two readings, by the two clocks of this machine.
func (r reading) until(next reading) (monotonic, wall passed) {
	return passed{next.sent.Sub(r.received), next.received.Sub(r.sent)},
		passed{next.sent.Round(0).Sub(r.received), next.received.Round(0).Sub(r.sent)}
}

// step estimates by how much a clock was set between two readings.
func (r reading) step(next reading) time.Duration {
	monotonic, wall := r.until(next)
	return stepSize(next.at.Sub(r.at), monotonic, wall)
}

// stepSize is the step of a store's clock that moved so far. One of the clocks of this machine may be
// wrong, and then the store's clock seems to be set by as much. So the smaller step is right.
func stepSize(moved time.Duration, monotonic, wall passed) time.Duration {
	step, other := moved-monotonic.middle(), moved-wall.middle()
	if other.Abs() < step.Abs() {
		step = other
	}
	return step.Round(time.Microsecond)
}

// stepped reports whether a store's clock that moved so far was set. This machine has two clocks
// of its own. The monotonic clock stands still while the machine is suspended. The wall clock is
// wrong if somebody sets it. One of them is right unless both happen. So the store's clock was
// set if it fits neither.
//
// A step is not noticed if the wall clock of this machine was set by as much, for example because
// the server is on the same machine.
func stepped(moved time.Duration, monotonic, wall passed) bool {
	return !monotonic.fits(moved) && !wall.fits(moved)
}

// passed is the least and the greatest duration that can have passed between two readings.
type passed struct{ least, most time.Duration }

func (p passed) middle() time.Duration { return p.least + (p.most-p.least)/2 }

// fits reports whether a clock can have moved so far without being set. The rates of clocks may
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

// note takes note of a time in a reply or a message, and of the token with which a tenure began,
// or 0. If the incarnation is new, the tokens that were given before do not count: the clock may
// not have them.
func (c *clocks) note(slot uint16, incarnation string, at lockagent.StoreTime, began lockagent.Token) {
	c.change(slot, func(of *clock) {
		of.past.In(incarnation)
		of.past.Note(at, began)
	})
}

// read takes note of a reading. It reports whether the clock was set since the reading before. The
// slots of a server share its clock. So after a step the earlier readings of all slots no longer
// count: one step is noticed once.
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
		name, _ := s.incarnations.known(s.shard(slot))
		s.incarnations.report(lockagent.Reset{
			From: name, To: name, Reason: "clock stepped", After: before.at, Before: now.at, Step: before.step(now),
		})
	}
}

// past is what scripts are told of the past. epoch belongs to the incarnation in it.
func (s *Store) past(slot uint16) (past script.Past, epoch uint64) {
	past = s.clocks.past(slot)
	of := s.shard(slot)
	incarnation, epoch := s.incarnations.known(of)
	past.In(incarnation)
	past.Home = of.home
	return past, epoch
}
