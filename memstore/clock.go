package memstore

import (
	"time"

	"github.com/lockagent/lockagent"
)

// slack is how far the clock may be behind what it gave out. It stays so far behind when
// several tenures begin in one microsecond, and catches up by itself.
const slack = 100 * time.Microsecond

// clock is the clock of a memory, from which the tokens of all locks come. It never goes
// back, and gives each tenure a time of its own to begin at.
type clock struct {
	started time.Time           // it counts from here, monotonically
	ahead   lockagent.StoreTime // of what it counted, normally 0
	guard   lockagent.StoreTime // the greatest time or token given out
}

// counted is now by the wall clock at the start, the time since, and ahead.
func (c *clock) counted(now time.Time) lockagent.StoreTime {
	return lockagent.StoreTime(c.started.UnixMicro()).Add(now.Sub(c.started)) + c.ahead
}

// at is now on the clock.
func (c *clock) at(now time.Time) lockagent.StoreTime { return max(c.counted(now), c.guard) }

// begin is the time at which a tenure begins: greater than any time or token before. It
// is 0 if there is no token left.
func (c *clock) begin(now time.Time, floor lockagent.Token) lockagent.StoreTime {
	at := max(c.counted(now), c.guard+1, lockagent.StoreTime(floor)+1)
	if at > lockagent.StoreTime(lockagent.MaxToken) {
		return 0
	}
	c.raise(now, at)
	return at
}

// raise moves the clock to a time, unless it is there already. From a floor far ahead it
// goes on at its own pace.
func (c *clock) raise(now time.Time, to lockagent.StoreTime) {
	if to <= c.guard {
		return
	}
	c.guard = to
	if behind := to - c.counted(now); behind > lockagent.StoreTime(slack.Microseconds()) {
		c.ahead += behind
	}
}
