package lockstate

import (
	"time"

	"github.com/lockagent/lockagent"
)

// rival is who has the lock for which a tenure asks again and again, see [Config.Polls].
type rival struct {
	holder string
	ends   lockagent.StoreTime // of the lease, or 0 if it has no end or the store has no clock
	pause  time.Duration       // before the next attempt
	missed int32               // how often the lock was free meanwhile: somebody else came first
}

// Who waits for a spin lock asks after 1 ms, 2 ms and so on, up to 128 ms. That is Redisson's default. When the lock
// has changed hands, the pauses begin anew. They grow more slowly if that happened before.
const (
	leastPoll  = time.Millisecond
	mostPoll   = 128 * time.Millisecond
	mostMissed = 3
)

// updated is the rival after another call found the lock busy. If the lease ends at another time than before, the
// holder has released the lock and acquired it again. If the lease ends much later, the holder has renewed it, or had
// the lock for so long that the next hold may last, too.
func (r rival) updated(holder string, left time.Duration, at lockagent.StoreTime, clock string) rival {
	if holder == "" { // the lock is free, and the store keeps it for others
		return r
	}
	ends := lockagent.StoreTime(0)
	if left >= 0 && clock != "" {
		ends = at.Add(left)
	}
	const slow, soon = 10 * time.Millisecond, time.Second // a script about many locks tells the time at which it began
	later := ends.Sub(r.ends)
	if renewed := later >= max(soon, left/8); holder == r.holder && (later.Abs() <= slow || renewed) {
		if renewed {
			r.ends = ends
		}
		r.pause = min(r.pause+r.pause/time.Duration(1+r.missed), mostPoll)
		return r
	}
	missed := min(r.missed+1, mostMissed)
	if r.holder == "" || r.pause == mostPoll { // a hold that lasted so long says nothing about the next one
		missed = 0
	}
	return rival{holder: holder, ends: ends, pause: leastPoll, missed: missed}
}
