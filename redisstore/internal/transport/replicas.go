package transport

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
)

// A server counts, for each connection, which replicas have all that it wrote up to the last write on
// that connection. On a new connection nothing was written, so all replicas count there. So the WAIT has to
// travel behind the scripts, in one go, on their connection. One WAIT is enough for all of them.

// wait is the command that waits for replicas. The client's own builder marks a WAIT as a command that
// blocks. The client would then make the exchange on another connection, without its own bound.
func (c *Config) wait(b rueidis.Builder) rueidis.Completed {
	ms := max((c.ReplicaTimeout+time.Millisecond-1)/time.Millisecond, 1) // 0 would be for ever
	return b.Arbitrary("WAIT").Args(strconv.Itoa(c.Replicas), strconv.FormatInt(int64(ms), 10)).Build()
}

// readWait takes the last reply, which is that to the WAIT, away from the others. It notes in the calls how
// many replicas have what they wrote. An error of the WAIT is never definite: the scripts have run.
func (b *batch[I]) readWait() {
	last := len(b.replies) - 1
	acknowledged, err := b.replies[last].Number()
	if err != nil {
		const format = "%w: nobody knows which replicas have it: %v"
		err = fmt.Errorf(format, lockagent.ErrStoreUnavailable, err)
	}
	for _, c := range b.calls {
		if c.Replicated {
			c.Acknowledged, c.uncounted = int(acknowledged), err
		}
	}
	b.replies = b.replies[:last]
}
