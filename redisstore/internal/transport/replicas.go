package transport

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
)

// A server counts, for each connection, which replicas have all that it wrote up to the last write on
// that connection. So the WAIT has to travel behind the scripts, on their connection. One WAIT is enough
// for all scripts of an exchange.

// wait is the command that waits for replicas. The client's own builder marks a WAIT as a command that
// blocks. The client would then make the exchange on another connection, without its own bound.
func (l *lane[I]) wait(b rueidis.Builder) rueidis.Completed {
	config := &l.lanes.servers.config
	ms := max((config.ReplicaTimeout+time.Millisecond-1)/time.Millisecond, 1) // 0 would be for ever
	return b.Arbitrary("WAIT").Args(strconv.Itoa(config.Replicas), strconv.FormatInt(int64(ms), 10)).Build()
}

// replicated reports whether a call of the batch asks for replicas.
func (b *batch[I]) replicated() bool {
	for _, c := range b.calls {
		if c.Replicated {
			return true
		}
	}
	return false
}

// dropWait takes the last reply, which is that to the WAIT, away from the others.
func (b *batch[I]) dropWait() {
	last := len(b.replies) - 1
	b.waited, b.replies = b.replies[last], b.replies[:last]
	b.commands[last] = rueidis.Completed{}
	b.commands = b.commands[:last]
}

// waitAgain waits for what was written since the WAIT of the batch.
func (l *lane[I]) waitAgain(ctx context.Context, b *batch[I], client rueidis.Client) {
	b.waited = client.Do(ctx, l.wait(client.B()))
}

// acknowledged is how many replicas have what the batch wrote. An error of the WAIT is never definite: the
// scripts have run.
func (b *batch[I]) acknowledged() (replicas int, err error) {
	n, err := b.waited.AsInt64()
	if err != nil {
		return 0, fmt.Errorf("%w: nobody knows which replicas have it: %v", lockagent.ErrStoreUnavailable, err) //nolint:errorlint // see above
	}
	return int(n), nil
}
