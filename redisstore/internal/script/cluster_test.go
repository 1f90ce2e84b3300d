package script

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

// node is a server of a Cluster. It has sharded messages, unless the servers are older.
func node(t testing.TB, s *redistest.Server) *server {
	t.Helper()
	room := Sharded
	if !redistest.Sharded(t) {
		room = Unqueued
	}
	return &server{Server: s, t: t, conn: s.Dial(), room: room}
}

func TestACluster(t *testing.T) {
	redistest.NeedsSharded(t)
	t.Parallel()
	s := node(t, redistest.StartCluster(t, 1).Nodes[0])
	tag := tags()[hashslot.Of("{orders}1")]
	for _, name := range []lockagent.Name{"{orders}1", "orders"} {
		granted := s.grant(wish(name, agentA, 1))
		clock := "lockagent_clock:{" + tag + "}"
		atToken := []any{"-", strconv.FormatUint(uint64(granted.Token), 10)}
		if got := s.Do("ZRANGE", clock, "0", "-1", "WITHSCORES"); !reflect.DeepEqual(got, atToken) {
			t.Errorf("the clock is %q after %+v", got, granted)
		}
		outsider := s.listen(Channel(name))
		waiter := s.listen(AgentsChannel(name), Channel(name), AgentChannelOf(agentB, name))
		busy := s.acquire(queueing(name, agentB, 7))
		want := lockagent.AcquireReply{
			At: busy.At, Clock: s.Do("CLUSTER", "MYID").(string) + "/0",
			Holder: tenure(agentA, 1).String(), Remaining: busy.Remaining,
			Queued: true, Outsiders: 1,
		}
		if busy != want {
			t.Errorf("busy: %+v, want %+v", busy, want)
		}
		outsider.Close()
		for s.Do("PUBSUB", "SHARDNUMSUB", Channel(name)).([]any)[1] != int64(1) {
		}
		released := s.release(end(wish(name, agentA, 1)))
		got := s.message(waiter)
		if passed := (lockagent.Message{
			Kind: lockagent.MessagePassed, Name: name, Tenure: tenure(agentB, 7),
			Token: got.Token, At: lockagent.StoreTime(got.Token), Clock: busy.Clock,
		}); !released.Passed || got != passed {
			t.Errorf("released %+v and heard %+v, want %+v", released, got, passed)
		}
		r := s.release(ReleaseRequest{ReleaseRequest: end(wish(name, agentB, 7)).ReleaseRequest, Subscribed: true})
		if got := s.hear(waiter); got != "0" || !r.Released || r.Passed || r.Others != 0 {
			t.Errorf("released %+v and heard %q", r, got)
		}
		s.room.Rehearse(&s.call, name, "")
		if got := s.must(&s.call); got != "ok" {
			t.Error(got)
		}
	}
}

// In a Cluster an agent listens at another node than that of the lock, perhaps. All the same those who wait know what
// it is.
func TestWhoWaitsForAnAgentInAClusterDoesNotAsk(t *testing.T) {
	redistest.NeedsSharded(t)
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	s := node(t, cluster.NodeOf("orders"))
	for _, other := range cluster.Nodes {
		if other != s.Server {
			if _, err := other.Dial().Do("SUBSCRIBE", AgentChannel(agentA)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.waits(agentB, "orders")
	first := func(outcomes []Outcome[lockagent.AcquireReply]) lockagent.AcquireReply {
		t.Helper()
		if outcomes[0].Err != nil {
			t.Fatal(outcomes[0].Err)
		}
		return outcomes[0].Reply
	}
	for kind, c := range map[lockagent.LockKind]struct {
		try   func(...lockagent.AcquireRequest) []Outcome[lockagent.AcquireReply]
		field string // what the tenure of a writer ends with
		hash  []string
	}{
		lockagent.PlainLock:     {try: s.acquireAll},
		lockagent.FencedLock:    {try: fencedServer{s}.acquireAll},
		lockagent.FairLock:      {try: s.fairTry},
		lockagent.ReadWriteLock: {try: s.rwTry, field: ":write", hash: []string{"mode", "write"}},
	} {
		fair := kind == lockagent.FairLock
		s.Do("FLUSHALL")
		s.past = Past{Incarnation: "-"}
		if r := first(c.try(wish("orders", agentA, 1))); !r.Granted {
			t.Fatalf("%s: %+v, want it granted", kind, r)
		}
		if r := first(c.try(queueing("orders", agentB, 1))); !r.Queued || r.Outsiders != 0 || (r.AskWithin == 0) == fair {
			t.Errorf("%s: beside an agent: %+v, want a place, and only a fair lock to ask", kind, r)
		}
		// Beside another program it asks. The place at a fair lock has a channel.
		s.Do("DEL", "orders")
		s.Do(append([]string{"HSET", "orders", another + c.field, "1"}, c.hash...)...)
		s.Do("PEXPIRE", "orders", "30000")
		r := first(c.try(queueing("orders", agentB, 1)))
		if !r.Queued || r.AskWithin == 0 || (r.Outsiders > 0) != fair {
			t.Errorf("%s: beside another program: %+v", kind, r)
		}
	}
}

// migration is a slot on its way from one node to another.
type migration struct {
	t        *testing.T
	from, to *server
	slot     string
}

// migrateIn returns the move of the slot of a name, in a Cluster of two nodes. It begins later.
func migrateIn(t *testing.T, cluster *redistest.Cluster, name lockagent.Name) *migration {
	t.Helper()
	m := &migration{t: t, from: node(t, cluster.NodeOf(string(name)))}
	for _, n := range cluster.Nodes {
		if n != m.from.Server {
			m.to = node(t, n)
		}
	}
	m.slot = strconv.FormatUint(uint64(hashslot.Of(string(name))), 10)
	return m
}

// begin has the slot migrate.
func (m *migration) begin() {
	m.t.Helper()
	m.to.Do("CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.from.Do("CLUSTER", "MYID").(string))
	m.from.Do("CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.to.Do("CLUSTER", "MYID").(string))
}

// run runs a call where a client of a Cluster would.
func (m *migration) run(c *Call) (string, error) {
	m.t.Helper()
	reply, err := m.from.run(c)
	if err != nil && strings.HasPrefix(err.Error(), "ASK ") {
		return m.to.run(c, "ASKING")
	}
	return reply, err
}

// refused reports whether the node does not run a call, or not now. Whoever made it may make it again.
func (m *migration) refused(what string, c *Call) bool {
	m.t.Helper()
	reply, err := m.run(c)
	if err == nil && strings.Contains(reply, " e ") {
		return true // of a renewal, about one lock
	}
	if err != nil && lockagent.Definite(Refused(err.Error())) {
		m.t.Errorf("%s: %v", what, err)
	}
	return err != nil
}

func (m *migration) must(c *Call) string {
	m.t.Helper()
	reply, err := m.run(c)
	if err != nil {
		m.t.Fatalf("%q %q: %v", c.Keys, c.Args, err)
	}
	return reply
}

// While a slot moves, its keys are at two nodes. So no script runs that needs a key which may be at the other node. The
// scripts make no keys at either node, for these would be in the way of those that move. Renewals go on as long as they
// find the lock and the clock at one node. Afterwards everything goes on.
func TestASlotThatMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	for kind, scripts := range map[lockagent.LockKind]struct {
		acquire func(Room, *Call, []lockagent.AcquireRequest, Past)
		release func(Room, *Call, []ReleaseRequest, Past)
		renew   func(Room, *Call, []lockagent.RenewRequest)
		breaks  func(Room, *Call, lockagent.BreakRequest, Past)
	}{
		lockagent.PlainLock:     {Room.Acquire, Room.Release, Room.Renew, Room.Break},
		lockagent.SpinLock:      {Room.AcquireSpin, Room.ReleaseSpin, Room.Renew, Room.Break},
		lockagent.FairLock:      {Room.FairAcquire, Room.FairRelease, Room.Renew, Room.FairBreak},
		lockagent.FencedLock:    {Room.AcquireFenced, Room.ReleaseFenced, Room.RenewFenced, Room.Break},
		lockagent.ReadWriteLock: {Room.ReadWriteAcquire, Room.ReadWriteRelease, Room.ReadWriteRenew, Room.ReadWriteBreak},
	} {
		name := lockagent.Name(kind)
		if kind == lockagent.PlainLock {
			name = "plain"
		}
		held, free := "{"+name+"}/held", "{"+name+"}/free"
		m := migrateIn(t, cluster, held)
		acquire := func(s *server, req lockagent.AcquireRequest, past Past) Outcome[lockagent.AcquireReply] {
			req.Kind = kind
			scripts.acquire(s.room, &s.call, []lockagent.AcquireRequest{req}, past)
			return s.acquired(1)[0]
		}
		holder, waiter, another := wish(held, agentA, 1), queueing(held, agentB, 1), wish(free, agentA, 1)
		granted := acquire(m.from, holder, Past{}).Reply
		if !granted.Granted {
			t.Fatalf("%s: %+v", kind, granted)
		}
		m.from.waits(agentB, held)
		acquire(m.from, waiter, Past{})
		// The rarest keys are there, too: then a node may have all keys that a call declares.
		tag := "{" + tags()[hashslot.Of(string(held))] + "}"
		m.from.Do("SET", "lockagent_ahead:"+tag, "1000000")
		m.from.Do("ZADD", "lockagent_notes::"+string(held), strconv.FormatInt(m.from.time(), 10), "yield")
		m.from.Do("ZADD", "lockagent_notes::"+string(free), strconv.FormatInt(m.from.time(), 10), "yield")

		var keys []string
		for _, key := range m.from.Do("CLUSTER", "GETKEYSINSLOT", m.slot, "100").([]any) {
			keys = append(keys, key.(string))
		}
		slices.Sort(keys)
		m.begin()
		parted := false // the keys of a renewal
		for moved := -1; moved < len(keys); moved++ {
			if moved >= 0 {
				m.move(keys[moved])
				parted = parted || slices.ContainsFunc([]string{string(held), "lockagent_clock", "redisson_lock_token"},
					func(needed string) bool { return strings.HasPrefix(keys[moved], needed) })
			}
			before := [2][]string{m.from.keys(), m.to.keys()}
			var c Call
			for what, write := range map[string]func(){
				"wait":    func() { scripts.acquire(m.from.room, &c, []lockagent.AcquireRequest{waiter}, Past{}) },
				"retry":   func() { scripts.acquire(m.from.room, &c, []lockagent.AcquireRequest{holder}, Past{}) },
				"acquire": func() { scripts.acquire(m.from.room, &c, []lockagent.AcquireRequest{another}, Past{}) },
				"release": func() { scripts.release(m.from.room, &c, []ReleaseRequest{end(holder)}, Past{}) },
				"leave":   func() { scripts.release(m.from.room, &c, []ReleaseRequest{end(waiter)}, Past{}) },
				"break":   func() { scripts.breaks(m.from.room, &c, lockagent.BreakRequest{Name: held, Kind: kind}, Past{}) },
			} {
				write()
				if !m.refused(what, &c) {
					t.Errorf("%s: %s went through after %q had moved", kind, what, keys[:moved+1])
				}
			}
			renewal := lockagent.RenewRequest{Name: held, Kind: kind, Tenure: holder.Tenure, Lease: time.Minute}
			scripts.renew(m.from.room, &c, []lockagent.RenewRequest{renewal})
			if m.refused("renew", &c) && !parted {
				t.Errorf("%s: not renewed after %q had moved", kind, keys[:moved+1])
			}
			if after := [2][]string{m.from.keys(), m.to.keys()}; !reflect.DeepEqual(after, before) {
				t.Fatalf("%s: the keys were %q, and are %q", kind, before, after)
			}
		}

		m.finish(cluster, held)
		again := acquire(m.to, holder, Past{}).Reply
		if !again.Granted || again.Token <= granted.Token || again.At.Sub(granted.At) > time.Minute {
			t.Errorf("%s: acquired %+v after %+v", kind, again, granted)
		}
		ending := end(holder)
		ending.Kind = kind
		scripts.release(m.to.room, &m.to.call, []ReleaseRequest{ending}, Past{})
		if r := m.to.released(1)[0]; r.Err != nil || !r.Reply.Released {
			t.Errorf("%s: released %+v", kind, r)
		}
	}
}
