package events

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

// TestReplayFromTimeOfALateMember has a member of a cluster miss most of a stream. While it catches up, each Replay
// from a time has what is there, wherever the cluster puts its consumer.
func TestReplayFromTimeOfALateMember(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	to := Connection{URL: c.url}
	js := client(t, to)
	p := newPublisher(t, Config{Connection: to, Replicas: 3})
	p.Record(t.Context(), apart(1))
	flushed(t, p)
	late := c.follower(js)
	late.kill()
	const n = 20000
	for i := range n - 1 {
		p.Record(t.Context(), apart(2+i))
	}
	flushed(t, p)
	stream, err := js.Stream(waittest.Context(t), DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	middle, err := stream.GetMsg(waittest.Context(t), n/2)
	if err != nil {
		t.Fatal(err)
	}
	late.start()
	caughtUp := func() bool {
		now, err := js.Stream(waittest.Context(t), DefaultStream)
		return err == nil && now.CachedInfo().Cluster != nil && !slices.ContainsFunc(now.CachedInfo().Cluster.Replicas,
			func(p *jetstream.PeerInfo) bool { return !p.Current || p.Lag > 0 })
	}
	var readers sync.WaitGroup
	defer readers.Wait()
	for name, test := range map[string]struct {
		since time.Time
		lock  int
		want  []uint64
	}{
		"Middle": {middle.Time, n, []uint64{n}},
		"Last":   {stream.CachedInfo().State.LastTime, n, []uint64{n}},
		"Before": {middle.Time, 1, nil},
	} {
		r, filter := newReader(t, to), Filter{Lock: lockagent.Name(fmt.Sprint("orders/", test.lock))}
		readers.Go(func() {
			for last := false; !last; {
				last = caughtUp()
				var got []uint64
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				err := r.Replay(ctx, FromTime(test.since), filter, seqs(&got, 0))
				cancel()
				if _, ok := errors.AsType[*interruption](err); ok { // the server has just come back
					last = false
				} else if err != nil || !slices.Equal(got, test.want) {
					t.Errorf("%s: got %v, %v; want %v", name, got, err, test.want)
				}
			}
		})
	}
}
