package transport

import (
	"net"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

// All that travels together waits for the replicas once.
func TestOneWaitForABatch(t *testing.T) {
	lanes, l, g := gated(t)
	_, port, _ := net.SplitHostPort(l.node.Addr())
	replica := redistest.Start(t, redistest.WithConfig("replicaof 127.0.0.1 "+port))
	redistest.Eventually(t, "the replica to follow", func() bool { return replica.Info("replication", "master_link_status") == "up" })
	lanes.servers.config.Replicas, lanes.servers.config.ReplicaTimeout = 1, patience

	first := add(t.Context(), lanes, "first") // so that the others gather
	receive(t, "the first exchange", g.begun)
	plain := add(t.Context(), lanes, "plain")
	type outcome struct {
		acknowledged int
		err          error
	}
	outcomes := make(chan outcome, 10)
	write := NewScript("return redis.call('SET', KEYS[1], 1)")
	for _, key := range []string{"a", "b", "c"} {
		c := &Call{Script: write, Keys: []string{key}, Slot: hashslot.Of(key), Replicated: true}
		c.Done = func(_ rueidis.RedisMessage, err error) { outcomes <- outcome{c.Acknowledged, err} }
		lanes.Send(c)
	}
	close(g.goOn)
	answered(t, "the first call", first)
	answered(t, "a call that does not wait for replicas", plain)
	for range 3 {
		if o := receive(t, "the answer", outcomes); o.err != nil || o.acknowledged != 1 {
			t.Errorf("answered %+v, want 1 replica", o)
		}
	}
	stats, err := l.node.client.Do(t.Context(), l.node.client.B().Info().Section("commandstats").Build()).ToString()
	// The server did not know the script: after it was sent, there was another WAIT.
	if err != nil || !strings.Contains(stats, "cmdstat_wait:calls=2,") {
		t.Errorf("%v, %v; want 2 WAITs", stats, err)
	}
}
