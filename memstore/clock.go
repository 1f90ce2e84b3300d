package memstore

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
)

const (
	// slack is how far ahead a floor is that sets the clock. What is less it catches up with
	// by itself.
	slack = 100 * time.Microsecond
	// unknown is how far the clock is set ahead of a floor: there may be greater tokens than
	// the one that an agent knows of.
	unknown = time.Minute
	// farthest is how far a floor may be ahead. One wrong number must not use up the tokens
	// of all locks.
	farthest = 24 * time.Hour
)

// clock is the clock of a memory, from which the tokens of all locks come. It never goes
// back, and gives each tenure a time of its own to begin at.
type clock struct {
	started     time.Time           // it counts from here, monotonically
	ahead       lockagent.StoreTime // of that, normally 0
	guard       lockagent.StoreTime // the greatest time or token given out
	incarnation string              // of the memory
	name        string              // is another one when the incarnation or ahead is
}

// host is the wall clock at the start, and the time that has passed since.
func (c *clock) host(now time.Time) lockagent.StoreTime {
	return lockagent.StoreTime(c.started.UnixMicro()).Add(now.Sub(c.started))
}

// at is now on the clock.
func (c *clock) at(now time.Time) lockagent.StoreTime { return max(c.host(now)+c.ahead, c.guard) }

// begin is the time at which a tenure begins: greater than any time or token before. Where
// several begin in one microsecond, the clock goes on in steps of one.
func (c *clock) begin(now time.Time) lockagent.StoreTime {
	c.guard = max(c.host(now)+c.ahead, c.guard+1)
	return c.guard
}

// raise has all tenures begin above a floor. If that is far ahead of the clock, the clock is
// set, and goes on from there as another one. It reports false if it is too far.
func (c *clock) raise(now time.Time, floor lockagent.StoreTime) bool {
	if floor.Sub(c.at(now)) > farthest {
		return false
	}
	if floor.Sub(c.at(now)) > slack {
		c.ahead = floor.Add(unknown) - c.host(now)
		c.rename()
	}
	c.guard = max(c.guard, floor)
	return true
}

// step sets the clock forward, as another one.
func (c *clock) step(d time.Duration) {
	c.ahead = c.ahead.Add(d)
	c.rename()
}

// restart begins a new incarnation. The clock goes on.
func (c *clock) restart() {
	c.incarnation = rand.Text()
	c.rename()
}

func (c *clock) rename() { c.name = fmt.Sprintf("%s/%d", c.incarnation, c.ahead) }
