package script

import (
	"errors"
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
		if got := s.Do("ZRANGE", clock, "0", "-1", "WITHSCORES"); !reflect.DeepEqual(got, []any{"-", strconv.FormatUint(uint64(granted.Token), 10)}) {
			t.Errorf("the clock is %q after %+v", got, granted)
		}
		outsider := s.listen(Channel(name))
		waiter := s.listen(AgentsChannel(name), Channel(name), AgentChannelOf(agentB, name))
		busy := s.acquire(queueing(name, agentB, 7))
		want := lockagent.AcquireReply{
			At: busy.At, Clock: s.Do("CLUSTER", "MYID").(string) + "/0", Holder: tenure(agentA, 1).String(), Remaining: busy.Remaining,
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
			Kind: lockagent.MessagePassed, Name: name, Tenure: tenure(agentB, 7), Token: got.Token, At: lockagent.StoreTime(got.Token), Clock: busy.Clock,
		}); !released.Passed || got != passed {
			t.Errorf("released %+v and heard %+v, want %+v", released, got, passed)
		}
		r := s.release(ReleaseRequest{ReleaseRequest: end(wish(name, agentB, 7)).ReleaseRequest, Subscribed: true})
		if got := s.hear(waiter); got != "0" || !r.Released || r.Passed || r.Others != 0 {
			t.Errorf("released %+v and heard %q", r, got)
		}
		s.room.Rehearse(&s.call, name)
		if got := s.must(&s.call); got != "ok" {
			t.Error(got)
		}
	}
}

// In a Cluster an agent listens at another node than that of the lock, perhaps. All the same those who wait know what it is.
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
		// Beside another program it asks, unless that program always tells of its release. The place at a fair lock has a channel.
		s.Do("DEL", "orders")
		s.Do(append([]string{"HSET", "orders", another + c.field, "1"}, c.hash...)...)
		s.Do("PEXPIRE", "orders", "30000")
		r := first(c.try(queueing("orders", agentB, 1)))
		if asks := kind != lockagent.ReadWriteLock; !r.Queued || (r.AskWithin > 0) != asks || (r.Outsiders > 0) != fair {
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

// migrate returns a Cluster, and the move of the slot of a name, which begins later.
func migrate(t *testing.T, name lockagent.Name) (*redistest.Cluster, *migration) {
	t.Helper()
	cluster := redistest.StartCluster(t, 2)
	return cluster, migrateIn(t, cluster, name)
}

// migrateIn is migrate in a Cluster of two nodes.
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

// apart expects that a call does not go through, because of its keys.
func (m *migration) apart(c *Call) {
	m.t.Helper()
	if reply, err := m.run(c); err == nil || !Apart(err.Error()) {
		m.t.Errorf("%q: %q, %v; want TRYAGAIN", c.Keys, reply, err)
	}
}

func (m *migration) must(c *Call) string {
	m.t.Helper()
	reply, err := m.run(c)
	if err != nil {
		m.t.Fatalf("%q %q: %v", c.Keys, c.Args, err)
	}
	return reply
}

// acquire makes a call, which does not go through, and makes it alone.
func (m *migration) acquire(req lockagent.AcquireRequest) lockagent.AcquireReply {
	m.t.Helper()
	var c Call
	m.from.room.Acquire(&c, []lockagent.AcquireRequest{req}, m.from.past)
	m.apart(&c)
	m.from.room.AcquireAlone(&c, &req, m.from.past)
	outcomes := make([]Outcome[lockagent.AcquireReply], 1)
	if err := m.from.room.ReadAcquired(m.must(&c), m.from.past, outcomes); err != nil || outcomes[0].Err != nil {
		m.t.Fatal(err, outcomes[0].Err)
	}
	return outcomes[0].Reply
}

func (m *migration) release(req lockagent.AcquireRequest) lockagent.ReleaseReply {
	m.t.Helper()
	var c Call
	release := end(req)
	release.Unanswered = true
	m.from.room.Release(&c, []ReleaseRequest{release}, m.from.past)
	m.apart(&c)
	m.from.room.ReleaseAlone(&c, &release)
	outcomes := make([]Outcome[lockagent.ReleaseReply], 1)
	if err := m.from.room.ReadReleased(m.must(&c), m.from.past, outcomes); err != nil || outcomes[0].Err != nil {
		m.t.Fatal(err, outcomes[0].Err)
	}
	return outcomes[0].Reply
}

func (m *migration) renew(req lockagent.AcquireRequest) lockagent.RenewReply {
	m.t.Helper()
	var c Call
	renewal := lockagent.RenewRequest{Name: req.Name, Tenure: req.Tenure, Lease: time.Minute}
	m.from.room.Renew(&c, []lockagent.RenewRequest{renewal})
	if _, err := m.run(&c); err != nil && !Apart(err.Error()) { // or both keys are still where they were
		m.t.Error(err)
	}
	m.from.room.RenewAlone(&c, &renewal)
	outcomes := make([]Outcome[lockagent.RenewReply], 1)
	if err := ReadRenewed(m.must(&c), m.from.past, outcomes); err != nil || outcomes[0].Err != nil {
		m.t.Fatal(err, outcomes[0].Err)
	}
	return outcomes[0].Reply
}

// Locks in a slot that moves can be acquired and released, wherever their keys are. No key of our own
// gets in the way of those that move.
func TestASlotThatMoves(t *testing.T) {
	t.Parallel()
	const held, free lockagent.Name = "{orders}/held", "{orders}/free"
	cluster, m := migrate(t, held)
	first := wish(held, agentA, 1)
	granted := m.from.grant(first)
	m.from.waits(agentC, held)
	m.from.acquire(queueing(held, agentC, 1))
	m.begin()

	last := granted.Token
	for number := range uint64(2) {
		// The held lock is still at the old node. The free lock is at the new node.
		if r := m.acquire(queueing(held, agentB, number+1)); r.Granted || r.Queued || r.Holder != first.Tenure.String() {
			t.Errorf("busy: %+v", r)
		}
		if r := m.renew(first); !r.Held {
			t.Error("not held any more")
		}
		other := wish(free, agentB, number+1)
		other.Floor = last
		r := m.acquire(other)
		if !r.Granted || r.Token <= last {
			t.Errorf("acquired %+v, after token %d", r, last)
		}
		last = r.Token
		if again := m.acquire(queueing(free, agentA, number+2)); again.Granted || again.Queued || again.Holder != other.Tenure.String() {
			t.Errorf("busy: %+v", again)
		}
		if r := m.renew(other); !r.Held {
			t.Error("not held any more")
		}
		if r := m.release(other); !r.Released || r.Passed {
			t.Errorf("released %+v", r)
		}
		if r := m.release(other); r.Released {
			t.Errorf("released once more: %+v", r)
		}
	}
	if keys := m.to.keys(); len(keys) != 0 {
		t.Errorf("the other node has %q", keys)
	}
	if r := m.release(first); !r.Released || r.Passed {
		t.Errorf("released %+v", r)
	}
	first = wish(held, agentA, 2)
	first.Floor = last
	if r := m.acquire(first); !r.Granted || r.Token <= last {
		t.Errorf("acquired %+v", r)
	} else {
		last = r.Token
	}
	for _, name := range []lockagent.Name{held, free} {
		var c Call
		for _, write := range []func(){
			func() { m.from.room.Break(&c, lockagent.BreakRequest{Name: name}) },
			func() { m.from.room.Inspect(&c, name, lockagent.PlainLock) },
		} {
			write()
			if _, err := m.run(&c); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	if r := m.acquire(first); !r.Granted || r.Token <= last {
		t.Errorf("acquired %+v", r)
	} else {
		last = r.Token
	}

	// Our own keys come after them, without a collision.
	left := m.from.Do("CLUSTER", "GETKEYSINSLOT", m.slot, "100").([]any)
	for _, key := range left {
		if got := m.from.Do("MIGRATE", "127.0.0.1", strconv.Itoa(m.to.Port()), key.(string), "0", "5000"); got != "OK" {
			t.Errorf("MIGRATE %q: %v", key, got)
		}
	}
	cluster.MoveSlot(string(held), m.to.Server)
	if keys := m.to.keys(); !slices.Contains(keys, "lockagent_clock:{"+tags()[hashslot.Of(string(held))]+"}") {
		t.Errorf("the clock has not moved with %q", left)
	}
	m.to.past.Seen = lockagent.StoreTime(last)
	if r := m.to.release(end(first)); !r.Released {
		t.Errorf("released %+v", r)
	}
	if r := m.to.grant(wish(free, agentA, 3)); r.Token <= last {
		t.Errorf("token %d after %d", r.Token, last)
	}
}

// The node that imports a slot cannot reach the clock. What the agent knows may be ahead of the node.
func TestTokensWhileASlotMoves(t *testing.T) {
	t.Parallel()
	const lock lockagent.Name = "orders"
	_, m := migrate(t, lock)
	m.begin()
	for number, ahead := range []time.Duration{20 * time.Millisecond, time.Hour, 48 * time.Hour} {
		m.from.past = Past{Seen: lockagent.StoreTime(time.Now().Add(ahead).UnixMicro())}
		known := lockagent.Token(m.from.past.Seen)
		most := known + lockagent.Token(time.Minute.Microseconds())
		for try := range uint64(5) {
			req := wish(lock, agentA, uint64(number)*5+try+1)
			r := m.acquire(req)
			for ahead < time.Second && !r.Granted {
				if r.Holder != "" || r.Remaining <= 0 || r.Remaining > ahead+time.Millisecond {
					t.Fatalf("%v ahead: %+v", ahead, r)
				}
				r = m.acquire(req)
			}
			if !r.Granted || r.Token <= known || r.Token > most && ahead > time.Second {
				t.Fatalf("%v ahead: %+v after token %d", ahead, r, known)
			}
			known = r.Token
			m.from.past.Note(lockagent.StoreTime(r.Token), 0)
			m.release(req)
		}
		if number == 0 {
			m.from.past = Past{}
			if r := m.acquire(wish(lock, agentB, 1)); !r.Granted || r.Token <= known {
				t.Errorf("another agent has %+v after token %d", r, known)
			}
			m.release(wish(lock, agentB, 1))
		}
	}
	// A floor of the caller may be wrong.
	far := wish(lock, agentA, 100)
	far.Floor = lockagent.Token(time.Now().Add(25 * time.Hour).UnixMicro())
	var c Call
	m.from.room.AcquireAlone(&c, &far, Past{})
	if reply, err := m.run(&c); err == nil || !errors.Is(Refused(err.Error()), lockagent.ErrBadOption) {
		t.Errorf("a floor a day ahead: %q, %v", reply, err)
	}
}

// The key that says how far the clock is ahead of the server's is not among the keys of a call. While the slot migrates, the node that has
// all keys of a call may not have that one. It must not take the clock for one that is not ahead, and must not write the key: the key
// that moves would not find room.
func TestTheClockIsAtAnotherNodeWhileASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	for i, wholeCall := range []bool{false, true} {
		name := lockagent.Name("orders/" + strconv.Itoa(i))
		tag := "{" + tags()[hashslot.Of(string(name))] + "}"
		ahead, notes := "lockagent_ahead:"+tag, "lockagent_notes:{"+string(name)+"}"
		m := migrateIn(t, cluster, name)
		m.from.Do("SET", ahead, strconv.FormatInt(time.Hour.Microseconds(), 10))
		held := wish(name, agentA, 1)
		granted := m.from.grant(held)
		m.from.Do("ZADD", notes, strconv.FormatInt(m.from.time(), 10), "yield")
		m.begin()
		if wholeCall {
			m.move(string(name), notes, "lockagent_clock:"+tag)
		} else {
			m.move(ahead)
		}
		before := [2][]string{m.from.keys(), m.to.keys()}
		m.from.past = Past{} // of an agent that knows of no token
		for _, req := range []lockagent.AcquireRequest{held, queueing(name, agentB, 1)} {
			var c Call
			m.from.room.Acquire(&c, []lockagent.AcquireRequest{req}, Past{})
			if reply, err := m.run(&c); err == nil || !Apart(err.Error()) || !strings.Contains(err.Error(), "the clock is at another node") {
				t.Errorf("the keys of the call moved: %t: acquired %q, %v", wholeCall, reply, err)
			}
		}
		if r := m.acquire(queueing(name, agentB, 2)); r.Granted || r.Holder != held.Tenure.String() {
			t.Errorf("the keys of the call moved: %t: acquired alone %+v", wholeCall, r)
		}
		if after := [2][]string{m.from.keys(), m.to.keys()}; !reflect.DeepEqual(after, before) {
			t.Errorf("the keys were %q, and are %q", before, after)
		}
		m.finish(cluster, name)
		if r := m.to.acquire(held); !r.Granted || r.Token <= granted.Token || r.At.Sub(granted.At) > time.Minute {
			t.Errorf("acquired %+v after %+v", r, granted)
		}
	}
}
