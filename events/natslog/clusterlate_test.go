package natslog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/internal/waittest"
)

// follower returns a server that has the stream and does not lead it.
func (c *cluster) follower(js jetstream.JetStream) *process {
	c.t.Helper()
	leader := c.leader(js)
	for _, m := range c.members {
		if m != leader {
			return m
		}
	}
	panic("the leader is alone")
}

func TestReplayFromTimeOfALateMember(t *testing.T) {
	t.Parallel()
	replayFromTimeOfALateMember(t, 2000)
}

// replayFromTimeOfALateMember has a member of a cluster miss most of a stream of n records. While it catches up, each
// Replay from a time has what is there, wherever the cluster puts its consumer.
func replayFromTimeOfALateMember(t *testing.T, n int) {
	t.Helper()
	c := newCluster(t)
	c.start()
	to := Connection{URL: c.url}
	js := client(t, to)
	p := newPublisher(t, Config{Connection: to, Replicas: 3})
	p.Record(t.Context(), apart(1))
	flushed(t, p)
	late := c.follower(js)
	late.kill()
	for i := range n - 1 {
		p.Record(t.Context(), apart(2+i))
	}
	flushed(t, p)
	var stream jetstream.Stream
	var middle *jetstream.RawStreamMsg
	waittest.Until(t, "the stream is read without the member", func() (read bool) {
		var err error
		if stream, err = js.Stream(t.Context(), DefaultStream); err == nil {
			middle, err = stream.GetMsg(t.Context(), uint64(n)/2)
		}
		return err == nil
	})
	late.start()
	caughtUp := func() bool {
		now, err := js.Stream(t.Context(), DefaultStream)
		return err == nil && now.CachedInfo().Cluster != nil && !slices.ContainsFunc(now.CachedInfo().Cluster.Replicas,
			func(p *jetstream.PeerInfo) bool { return !p.Current || p.Lag > 0 })
	}
	ctx := waittest.Context(t)
	var readers sync.WaitGroup
	defer readers.Wait()
	for name, test := range map[string]struct {
		since time.Time
		lock  int
		want  []uint64
	}{
		"Middle": {middle.Time, n, []uint64{uint64(n)}},
		"Last":   {stream.CachedInfo().State.LastTime, n, []uint64{uint64(n)}},
		"Before": {middle.Time, 1, nil},
	} {
		r, filter := newReader(t, to), events.Filter{Lock: lockagent.Name(fmt.Sprint("orders/", test.lock))}
		readers.Go(func() {
			for last := false; !last; {
				last = caughtUp()
				var got []uint64
				attempt, cancel := context.WithTimeout(ctx, readAttempt)
				err := r.Replay(attempt, FromTime(test.since), filter, seqs(&got, 0))
				late := attempt.Err() != nil && ctx.Err() == nil
				cancel()
				if _, ok := errors.AsType[*interruption](err); ok || late { // the server has just come back
					last = false
				} else if err != nil || !slices.Equal(got, test.want) {
					t.Errorf("%s: got %v, %v; want %v", name, got, err, test.want)
				}
			}
		})
	}
}
