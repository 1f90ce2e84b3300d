package natslog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// cluster is NATS servers that are one, in processes of their own.
type cluster struct {
	t       *testing.T
	members map[string]*process // by the name of the server
	url     string              // of all of them
}

// readAttempt is how long a test waits for a member that may have lost its question. Then it asks again.
const readAttempt = 30 * time.Second

func newCluster(t *testing.T) *cluster {
	t.Helper()
	const size = 3
	c := &cluster{t: t, members: make(map[string]*process)}
	var names, routes, urls []string
	for i := range size {
		names, routes = append(names, fmt.Sprint("member-", i)), append(routes, address(t))
	}
	for i, name := range names {
		m := newProcess(t)
		m.settings["CONF"] = natstest.File(t, fmt.Sprintf(
			"server_name: %s\ncluster: { name: test, listen: %q, routes: [ \"nats://%s\" ] }\n", name, routes[i],
			strings.Join(routes, `", "nats://`),
		))
		c.members[name] = m
		urls = append(urls, m.url)
	}
	c.url = strings.Join(urls, ",")
	return c
}

// start starts all members.
func (c *cluster) start() {
	for _, m := range c.members {
		m.start()
	}
}

// leader returns the server that leads the stream.
func (c *cluster) leader(js jetstream.JetStream) (leader *process) {
	c.t.Helper()
	waittest.Until(c.t, "the stream has a leader", func() bool {
		stream, err := js.Stream(c.t.Context(), DefaultStream)
		if err != nil || stream.CachedInfo().Cluster == nil {
			return false
		}
		leader = c.members[stream.CachedInfo().Cluster.Leader]
		return leader != nil
	})
	return leader
}

func TestCluster(t *testing.T) {
	t.Parallel()
	clusterKilled(t, 1, 1000)
}

// clusterKilled kills the leader of a stream with three replicas again and again, while a publisher and a forwarder
// add so many records to it. The stream must have every record once.
func clusterKilled(t *testing.T, rounds, each int) {
	t.Helper()
	c := newCluster(t)
	c.start()
	to := Connection{URL: c.url}
	js := client(t, to)
	near := newPublisher(t, Config{Connection: to, Agent: "near", Replicas: 3})
	from := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	far := newPublisher(t, Config{Connection: from, Agent: "far"})
	n := 0
	record := func(count int) {
		for range count {
			e := requested(n)
			e.Lock = lockagent.Name(fmt.Sprint("orders/", n%64))
			near.Record(t.Context(), e)
			far.Record(t.Context(), e)
			n++
		}
	}
	record(1)
	flushed(t, near)
	flushed(t, far)
	f := forward(t, from, to)
	waittest.Until(t, "the forwarder works", func() bool { return f.Stats().Forwarded > 0 })

	for range rounds {
		leader := c.leader(js)
		record(each)
		waittest.Until(
			t, "some of it is stored",
			func() bool { return near.Stats().Queued < uint64(each-each/10) && f.Stats().Forwarded > 0 },
		)
		leader.kill()
		record(each)
		flushed(t, near)
		flushed(t, far)
		leader.start()
	}
	waittest.Until(t, "the stream has three replicas", func() bool {
		// A server that was killed answers no question that it was asked before.
		stream, err := js.Stream(t.Context(), DefaultStream)
		return err == nil && stream.CachedInfo().Config.Replicas == 3
	})
	arrived(t, js, near.Stats().Messages+count(t, client(t, from)))
	f.stop()

	r := newReader(t, to)
	var all []events.Record
	ctx := waittest.Context(t)
	waittest.Until(t, "the stream can be read", func() bool {
		// A server that has just come back may never answer what it was asked too early.
		attempt, cancel := context.WithTimeout(ctx, readAttempt)
		defer cancel()
		all = nil
		return r.Replay(attempt, From{}, events.Filter{}, func(r *events.Record, err error) error {
			all = append(all, *r)
			return err
		}) == nil
	})
	for agent, p := range map[lockagent.AgentID]*Publisher{"near": near, "far": far} {
		var seq uint64
		requests := make(map[uint64]bool)
		for _, r := range all {
			if r.Agent != agent {
				continue
			}
			if seq++; r.Seq != seq || requests[r.Request] {
				t.Fatalf("record %d of %s is number %d of request %d", seq, agent, r.Seq, r.Request)
			}
			requests[r.Request] = true
		}
		if len(requests) != n {
			t.Errorf("%d of %d requests of %s are there", len(requests), n, agent)
		}
		wantStats(t, p, Stats{Recorded: uint64(n), Published: uint64(n)})
	}
	if got := f.Stats(); got.Discarded+got.Refused+got.Foreign > 0 || errors.Is(got.Err, ErrStream) {
		t.Errorf("got %+v", got)
	}
}
