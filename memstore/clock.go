package memstore

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
)

const (
	// slack is how far a floor may be ahead without setting the clock, which soon catches up.
	slack = 100 * time.Microsecond
	// unknown is how far the clock is set ahead of a floor: there may be greater tokens, which
	// the agent does not know of.
	unknown = time.Minute
	// farthest is how far a floor may be ahead. One wrong number must not use up the tokens
	// of all locks.
	farthest = 24 * time.Hour
)

// clock is the clock of a memory, from which the tokens of all locks come. It never goes
// back. No two tenures begin at the same time.
type clock struct {
	started     time.Time           // the clock counts from here, monotonically
	ahead       lockagent.StoreTime // how far it is ahead of that, normally 0
	guard       lockagent.StoreTime // the greatest time or token that was given out
	incarnation string              // of the memory
	name        string              // changes with incarnation and ahead
}

// host is the wall clock at the start plus the time that has passed since.
func (c *clock) host(now time.Time) lockagent.StoreTime {
	return lockagent.StoreTime(c.started.UnixMicro()).Add(now.Sub(c.started))
}

// at is what the clock shows now.
func (c *clock) at(now time.Time) lockagent.StoreTime { return max(c.host(now)+c.ahead, c.guard) }

// begin is the time at which a tenure begins: greater than any time or token before. If several
// tenures begin in one microsecond, each begins a microsecond after the one before.
func (c *clock) begin(now time.Time) lockagent.StoreTime {
	c.guard = max(c.host(now)+c.ahead, c.guard+1)
	return c.guard
}

// raise makes all later tenures begin above a floor. If the floor is far ahead, raise sets the
// clock, and the clock gets another name. The clock is set to the floor if the floor is exact, and
// otherwise ahead of it. raise reports false if the floor is too far ahead.
func (c *clock) raise(now time.Time, floor lockagent.StoreTime, exact bool) bool {
	if floor.Sub(c.at(now)) > farthest {
		return false
	}
	if floor.Sub(c.at(now)) > slack {
		c.ahead = floor - c.host(now)
		if !exact {
			c.ahead = c.ahead.Add(unknown)
		}
		c.rename()
	}
	c.guard = max(c.guard, floor)
	return true
}

// advance makes all later tenures begin above a time, which no agent of this process has named.
func (c *clock) advance(now time.Time, to lockagent.StoreTime) {
	if ahead := to - c.at(now); ahead > 0 {
		c.ahead += ahead
		c.rename()
	}
	c.guard = max(c.guard, to)
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
