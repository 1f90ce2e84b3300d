package transport

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/inperson"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

var write = NewScript("return redis.call('SET', KEYS[1], 1)")

// outcome is how a call ended that asks for replicas.
type outcome struct {
	acknowledged int
	err          error
}

// replicated makes a call that asks for replicas.
func replicated(script *Script, key string) (*Call, <-chan outcome) {
	c := &Call{Script: script, Keys: []string{key}, Slot: hashslot.Of(key), Replicated: true}
	outcomes := make(chan outcome, 2)
	c.Done = func(_ Reply, err error) { outcomes <- outcome{c.Acknowledged, err} }
	return c, outcomes
}

// All that travels together waits for the replicas once.
func TestOneWaitForABatch(t *testing.T) {
	lanes, l, g := gated(t)
	_, port, _ := net.SplitHostPort(l.node.Addr())
	replica := redistest.Start(t, redistest.WithConfig("replicaof 127.0.0.1 "+port))
	waittest.Until(t, "the replica to follow", func() bool {
		return replica.Info("replication", "master_link_status") == "up"
	})
	lanes.servers.config.Replicas, lanes.servers.config.ReplicaTimeout = 1, patience

	first := add(t.Context(), lanes, "first") // so that the others gather
	waittest.Receive(t, "the first exchange", g.begun)
	plain := add(t.Context(), lanes, "plain")
	var all []<-chan outcome
	for _, key := range []string{"a", "b", "c"} {
		c, outcomes := replicated(write, key)
		lanes.Send(c)
		all = append(all, outcomes)
	}
	close(g.goOn)
	answered(t, "the first call", first)
	answered(t, "a call that does not wait for replicas", plain)
	for _, outcomes := range all {
		if o := waittest.Receive(t, "the answer", outcomes); o.err != nil || o.acknowledged != 1 {
			t.Errorf("answered %+v, want 1 replica", o)
		}
	}
	stats, err := l.node.Ask(t.Context(), "INFO", "commandstats").Text()
	// The server did not know the script: after it was sent, there was another WAIT.
	if err != nil || !strings.Contains(stats, "cmdstat_wait:calls=2,") {
		t.Errorf("%v, %v; want 2 WAITs", stats, err)
	}
}

// The server lacks one script of a batch, and the connection is lost when it has run that. The server at the other
// end of the next connection knows nothing of what was written, so nobody asks it for replicas.
func TestNoWaitOnAnotherConnection(t *testing.T) {
	some, none := redistest.Start(t), redistest.Start(t)
	redistest.Start(t, redistest.WithConfig("replicaof 127.0.0.1 "+strconv.Itoa(some.Port())))
	some.AwaitReplica()
	for _, with := range []struct {
		server, next *redistest.Server
		timeout      time.Duration
		want         int
	}{{none, some, time.Millisecond, 0}, {some, none, patience, 1}} {
		with.server.Do("SCRIPT", "LOAD", write.Source)
		with.server.Do("CONFIG", "RESETSTAT")
		with.next.Do("CONFIG", "RESETSTAT")
		proxy := faultproxy.Start(t, with.server.Addr())
		s := connect(t, config(proxy.Addr()))
		s.config.Replicas, s.config.ReplicaTimeout = 1, with.timeout
		l := NewLanes(s, func() Packer[question] { return ask }).lane(s.Master(0))
		known, kept := replicated(write, "known")
		unknown, lost := replicated(NewScript("return redis.call('SET', KEYS[1], 2)"), "unknown")
		known.made, unknown.made = time.Now(), time.Now()
		ping := rueidis.Commands{l.node.builder.Ping().Build()} // makes the connection
		l.tracks[0].exchange(t.Context(), time.Now().Add(patience), ping, make([]Reply, 1))
		over := proxy.LoseReply("\r\nEVAL\r\n")
		l.queue = []entry[question]{entryOf[question](known), entryOf[question](unknown)}
		proxy.LeadTo(with.next.Addr())
		l.make(t.Context(), &l.tracks[0], l.take(&l.tracks[0]))
		waittest.Receive(t, "the loss of the reply", over)
		if o := waittest.Receive(t, "an answer", kept); o.err != nil || o.acknowledged != with.want {
			t.Errorf("answered %+v, want %d replicas", o, with.want)
		}
		if o := waittest.Receive(t, "an answer", lost); !errors.Is(o.err, lockagent.ErrStoreUnavailable) {
			t.Errorf("answered %+v over a connection that was lost", o)
		}
		// The second one came with the script, on its connection.
		if here, there := with.server.Calls("wait"), with.next.Calls("wait"); here != 2 || there != 0 {
			t.Errorf("%d WAITs, and %d where the script did not run; want 2 and 0", here, there)
		}
	}
}

// A caller who leaves while the server waits for its replicas says nothing against the server. The lane counts the
// replicas.
func TestACallerLeavesDuringAWait(t *testing.T) {
	server, replica := redistest.Start(t), redistest.Start(t)
	server.Do("SCRIPT", "LOAD", write.Source)
	s := connect(t, config(server.Addr()))
	s.config.Replicas, s.config.ReplicaTimeout = 1, patience
	doubt := make(chan struct{}, 1)
	s.doubts = append(s.doubts, doubt)
	lanes := NewLanes(s, func() Packer[question] { return ask })
	c, outcomes := replicated(write, "key")
	c.made = time.Now()
	ctx, leave := context.WithCancel(t.Context())
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		lanes.add(inperson.Context(ctx), entryOf[question](c))
	}()
	waits := func() bool { return server.Info("clients", "blocked_clients") == "1" }
	waittest.Until(t, "the server to wait for replicas", waits)
	leave()
	waittest.Receive(t, "the end of the caller's part", finished)
	waittest.Until(t, "the lane to ask again", func() bool { return server.Calls("evalsha") == 2 && waits() })
	replica.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(server.Port()))
	if o := waittest.Receive(t, "the answer", outcomes); o.err != nil || o.acknowledged != 1 {
		t.Errorf("answered %+v, want 1 replica", o)
	}
	if len(doubt) > 0 {
		t.Error("the server is in doubt because a caller left")
	}
}
