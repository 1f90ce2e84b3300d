package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
	"github.com/lockagent/lockagent/redisstore/internal/script"
	"github.com/lockagent/lockagent/storetest"
)

// unasked has nobody call the roll of a store from now on.
func unasked(s *Store) {
	s.roll.mu.Lock()
	defer s.roll.mu.Unlock()
	for _, of := range s.incarnations.all() {
		of.timer.Stop()
	}
}

// serverTime is what a server's clock shows in so long.
func serverTime(server *redistest.Server, in time.Duration) string {
	now := server.Do("TIME").([]any)
	seconds, _ := strconv.ParseInt(now[0].(string), 10, 64)
	return strconv.FormatInt(time.Unix(seconds, 0).Add(in).UnixMicro(), 10)
}

// nameAt is the name of a lock at a node.
func nameAt(cluster *redistest.Cluster, node *redistest.Server) lockagent.Name {
	for i := 0; ; i++ {
		if name := fmt.Sprint("orders", i); cluster.NodeOf(name) == node {
			return lockagent.Name(name)
		}
	}
}

// If a slot is no home any more, its roll counts for the node that has the locks by now: for as long as the agents may
// have tenures, although they are not on the roll there.
func TestTheRollOfAFormerHome(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	node := cluster.Nodes[0]
	s, _ := graced(t, cluster.URL(), agent)
	wish := wishOf(agent, 1)
	wish.Name = nameAt(cluster, node)
	acquire := func() error {
		wish.Tenure.Number++
		_, err := storetest.Acquire(t, s, wish)
		return err
	}
	if err := acquire(); err != nil {
		t.Fatal(err)
	}
	former := s.shard(s.slot(wish.Name))
	const slot = hashslot.Count / 2 // the first one of the other node
	cluster.MoveSlot(string(script.HomeIn(slot)), node)
	waittest.Until(t, "a look there", func() bool {
		of := s.incarnations.find(slot)
		if of == nil {
			return false
		}
		name, _ := s.incarnations.known(of)
		return name != ""
	})
	s.roll.mu.Lock()
	former.add(script.Member{Agent: "frozen", Lease: time.Hour}, time.Time{})
	former.timer.Reset(0) // the time has come to call
	s.roll.mu.Unlock()
	waittest.Until(t, "the store to forget the former home", func() bool {
		return s.incarnations.find(former.slot) == nil
	})
	wish.Lease = 2 * time.Minute
	if err := acquire(); err != nil { // the roll has changed, and the store reads it
		t.Fatal(err)
	}
	node.Do("FLUSHALL")
	var refused *lockagent.GraceError
	if err := acquire(); !errors.As(err, &refused) || refused.Left < 50*time.Minute {
		t.Errorf("%v; want it to wait for the one that is frozen", err)
	}
}

// An agent calls at once at a node that it did not know: it may have a lock in a slot that has moved there.
func TestAnAgentCallsAtANodeThatIsNew(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	s, _ := graced(t, cluster.URL(), agent)
	wish := wishOf(agent, 1)
	wish.Name = nameAt(cluster, cluster.Nodes[0])
	if _, err := storetest.Acquire(t, s, wish); err != nil {
		t.Fatal(err)
	}
	unasked(s)
	slot := s.slot(nameAt(cluster, cluster.Nodes[1]))
	known := s.shard(slot)
	s.incarnations.drop(known, slot) // so that it is new
	s.shard(slot)
	waittest.Until(t, "the agent to call there", func() bool {
		entries := cluster.Nodes[1].Do("ZRANGEBYSCORE", "lockagent_roll:{"+string(known.home)+"}", "1", "+inf")
		return slices.Contains(entries.([]any), any("60000 "+string(agent)))
	})
}

// A grace period may get longer when all have come back. It ends although nobody calls.
func TestAPeriodThatGetsLongerEnds(t *testing.T) {
	server := redistest.Start(t)
	s, periods := graced(t, server.URL(), agent)
	if _, err := storetest.Acquire(t, s, wishOf(agent, 1)); err != nil {
		t.Fatal(err)
	}
	server.Do("FLUSHALL")
	var refused *lockagent.GraceError
	if r, err := storetest.Acquire(t, s, wishOf(agent, 2)); !errors.As(err, &refused) {
		t.Fatalf("%+v, %v", r, err)
	}
	began := waittest.Receive(t, "the beginning", periods)
	unasked(s)
	server.Do("ZADD", "lockagent_grace", serverTime(server, 2*time.Second), "-")
	s.Reasserted(began.Incarnation)
	waittest.Until(t, "the agent to come back", func() bool {
		return server.Do("ZSCORE", "lockagent_grace", string(agent)) == "0"
	})
	server.Do("ZADD", "lockagent_grace", serverTime(server, 4*time.Second), string(rival))
	if ended := waittest.Receive(t, "the end", periods); !slices.Equal(ended.Roll, []lockagent.AgentID{rival}) {
		t.Errorf("it ended as %+v", ended)
	}
}

// In a Cluster only a look ends a grace period whose time is over, unless a lock in the slot of the home is wanted.
func TestAPeriodThatIsOverEnds(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	s, periods := graced(t, cluster.URL(), agent)
	wish := wishOf(agent, 1)
	wish.Lease = time.Hour
	if _, err := storetest.Acquire(t, s, wish); err != nil {
		t.Fatal(err)
	}
	node, of := cluster.NodeOf("orders"), s.shard(s.slot("orders"))
	node.Do("FLUSHALL")
	var refused *lockagent.GraceError
	if r, err := storetest.Acquire(t, s, wish); !errors.As(err, &refused) || refused.Left < 50*time.Minute {
		t.Fatalf("%+v, %v", r, err)
	}
	waittest.Receive(t, "the beginning", periods)
	unasked(s)
	node.Do("ZADD", "lockagent_grace:{"+string(of.home)+"}", "1", "-", "1", string(agent))
	waittest.Until(t, "a grant", func() bool {
		wish.Tenure.Number++
		_, err := storetest.Acquire(t, s, wish)
		return err == nil
	})
	if ended := waittest.Receive(t, "the end", periods); !slices.Equal(ended.Roll, []lockagent.AgentID{agent}) {
		t.Errorf("it ended as %+v", ended)
	}
}

// A store on which nobody listens does not know who is on the roll by now: agents have the time of a first start to
// come back.
func TestAPeriodOfAStoreWithoutAListener(t *testing.T) {
	server := redistest.Start(t)
	before, _ := graced(t, server.URL(), agent)
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Config{
		GraceFirst: time.Hour, DialTimeout: storetest.Patience, CallTimeout: storetest.Patience,
		SilenceTimeout: storetest.Patience,
	}.Open(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if r, err := storetest.Acquire(t, s, wishOf(rival, 1)); err != nil || !r.Granted {
		t.Fatalf("%+v, %v", r, err)
	}
	server.Do("FLUSHALL")
	var refused *lockagent.GraceError
	if r, err := storetest.Acquire(t, s, wishOf(rival, 2)); !errors.As(err, &refused) ||
		refused.Left < 50*time.Minute {
		t.Errorf("%+v, %v", r, err)
	}
}

// An agent that leaves while it calls the roll leaves after that call, which would put it there again.
func TestLeavingWhileTheRollIsCalled(t *testing.T) {
	server := redistest.Start(t)
	s, _ := graced(t, server.URL(), agent)
	if _, err := storetest.Acquire(t, s, wishOf(agent, 1)); err != nil {
		t.Fatal(err)
	}
	unasked(s)
	s.roll.mu.Lock()
	s.one.calling = true
	s.roll.mu.Unlock()
	s.Left()
	s.roll.mu.Lock()
	waits := len(s.one.waiting)
	s.roll.mu.Unlock()
	if waits != 1 {
		t.Errorf("%d wait for the call", waits)
	}
	s.callRoll(s.one)
	waittest.Until(t, "the agent to leave", func() bool {
		return len(server.Do("ZRANGEBYSCORE", "lockagent_roll", "1", "+inf").([]any)) == 0
	})
}
