package script

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestAReleasedLockLeavesNothing(t *testing.T) {
	s := start(t)
	for _, name := range []lockagent.Name{"orders", "{a}"} {
		waiter := s.listen(Channel(name))
		req := wish(name, agentA, 1)
		granted := s.grant(req)
		r := s.release(end(req))
		if want := (lockagent.ReleaseReply{Released: true, At: r.At, Others: 1}); r != want || r.At <= granted.At {
			t.Errorf("released %+v, want %+v after %d", r, want, granted.At)
		}
		if got := s.hear(waiter); got != "0" {
			t.Errorf("heard %q", got)
		}
		waiter.Close()
		s.Do(
			"DEL", "lockagent_turn:{orders}", "lockagent_notes:{orders}", "lockagent_turn::{a}", "lockagent_notes::{a}",
		)
		s.expectKeys("lockagent_clock")
		if r := s.release(end(req)); r.Released || r.Others != 0 {
			t.Errorf("released once more: %+v", r)
		}
	}
}

// The store itself is not among the others, and where subscribers cannot be counted nobody knows.
func TestOthers(t *testing.T) {
	for _, c := range []struct {
		room                  Room
		subscribers, patterns int
		subscribed            bool
		want                  int
	}{
		{Single, 0, 0, false, 0},
		{Single, 2, 0, false, 2},
		{Single, 2, 0, true, 1},
		{Single, 1, 0, true, 0},
		{Single, 0, 1, false, 1},
		{Unqueued, 2, 0, true, -1},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			s := start(t)
			for range c.subscribers {
				s.listen(Channel("one"), AgentsChannel("one"))
			}
			for range c.patterns {
				if _, err := s.Dial().Do("PSUBSCRIBE", "redisson_lock__channel:{one}"); err != nil {
					t.Fatal(err)
				}
			}
			one, two := wish("one", agentA, 1), wish("two", agentA, 1)
			s.grant(one)
			s.grant(two)
			s.room = c.room
			ends := []ReleaseRequest{end(one), end(two)}
			ends[0].Subscribed = c.subscribed
			none := min(c.want, 0)
			expect(
				t, s.releaseAll(ends...), "released, woke "+strconv.Itoa(c.want), "released, woke "+strconv.Itoa(none),
			)
		})
	}
}

func TestTombstones(t *testing.T) {
	s := start(t)
	s.look(Look{})
	withdraw := func(name lockagent.Name, number uint64) string {
		req := end(wish(name, agentA, number))
		req.Unanswered = true
		return say(s.releaseAll(req)[0])
	}
	// One that never began, and one that had the lock after all.
	if got := withdraw("orders", 1); got != "not released" {
		t.Error(got)
	}
	s.grant(wish("orders", agentA, 2))
	if got := withdraw("orders", 2); got != "released, woke 0" {
		t.Error(got)
	}
	s.lives("lockagent_notes:{orders}", time.Minute)
	s.grant(wish("bills", agentA, 1)) // which is another lock
	for _, past := range []Past{s.past, {}} {
		s.past = past
		expect(
			t, s.acquireAll(wish("orders", agentA, 1), queueing("orders", agentA, 2)),
			lockagent.ErrWithdrawn.Error(), lockagent.ErrWithdrawn.Error(),
		)
		s.grant(wish("orders", agentA, 3))
		s.release(end(wish("orders", agentA, 3)))
	}
	// Withdrawn is what was not answered, and nothing else.
	s.release(end(wish("orders", agentA, 4)))
	s.grant(wish("orders", agentA, 4))
	s.release(end(wish("orders", agentA, 4)))
	s.grant(wish("orders", agentA, 4))

	// Old ones go a few at a time, so the notes do not grow for as long as there are new ones.
	for number := range 10 {
		s.Do("ZADD", "lockagent_notes:{orders}", "1700000000000000", string(agentB)+":"+strconv.Itoa(number))
	}
	for number := range uint64(5) {
		withdraw("orders", 10+number)
	}
	if got := s.Do("ZCARD", "lockagent_notes:{orders}"); got != int64(2+5) {
		t.Errorf("%d notes, want those of the last minute", got)
	}
}

// queue has agents wait for a lock, in this order.
func (s *server) queue(name lockagent.Name, agents ...lockagent.AgentID) {
	s.t.Helper()
	for _, agent := range agents {
		s.waits(agent, name)
		if r := s.acquire(queueing(name, agent, 1)); !r.Queued {
			s.t.Fatalf("%s has no place: %+v", agent, r)
		}
	}
}

func TestLayoutOfAQueue(t *testing.T) {
	for name, suffix := range map[lockagent.Name]string{"orders 42": ":{orders 42}", "a{b}c": "::a{b}c"} {
		s, key := start(t), "lockagent_queue"+suffix
		s.grant(wish(name, agentA, 1))
		s.waits(agentA, name)
		s.waits(agentB, name)
		r := s.acquire(queueing(name, agentB, 7))
		want := []any{string(agentB) + ":7", strconv.FormatInt(int64(r.At), 10)}
		if got := s.Do("ZRANGE", key, "0", "-1", "WITHSCORES"); !r.Queued || !reflect.DeepEqual(got, want) {
			t.Errorf("the queue is %q, want %q", got, want)
		}
		s.lives(key, 5*time.Minute)
		s.expectKeys(string(name), key, "lockagent_clock")
		again := s.acquire(queueing(name, agentB, 7))
		if !again.Queued || !reflect.DeepEqual(s.Do("ZRANGE", key, "0", "-1", "WITHSCORES"), want) {
			t.Errorf("asked again: %+v", again)
		}
		if r := s.acquire(wish(name, agentC, 1)); r.Queued {
			t.Errorf("who did not ask: %+v", r)
		}
		s.release(end(wish(name, agentA, 1)))
		s.expectKeys(string(name), "lockagent_clock")
		s.lives(string(name), lockagent.PassLease)
	}
}

// A lock is passed to its waiters in the order of their arrival. The next two hear of each pass.
func TestThePassesGoRound(t *testing.T) {
	s := start(t)
	const name lockagent.Name = "a lock with spaces"
	agents := []lockagent.AgentID{agentA, agentB, agentC, lockagent.NewAgentID(), lockagent.NewAgentID()}
	granted := s.grant(wish(name, agentA, 1))
	conns := map[lockagent.AgentID]func() lockagent.Message{}
	for _, agent := range agents[1:] {
		conn := s.waits(agent, name)
		s.acquire(queueing(name, agent, 1))
		conns[agent] = func() lockagent.Message { return s.message(conn) }
	}
	last := granted.Token
	for i, agent := range agents[:len(agents)-1] {
		released := s.release(end(wish(name, agent, 1)))
		if !released.Passed || released.Others != 0 {
			t.Fatalf("released %+v", released)
		}
		got := conns[agents[i+1]]()
		for got.Kind == lockagent.MessageStandby {
			got = conns[agents[i+1]]()
		}
		want := lockagent.Message{
			Kind: lockagent.MessagePassed, Name: name, Tenure: tenure(agents[i+1], 1), Token: got.Token,
			At: lockagent.StoreTime(got.Token), Clock: granted.Clock, Incarnation: granted.Incarnation,
			Contested: i+2 < len(agents),
		}
		if got != want || got.Token <= last || int64(got.At) > s.time() {
			t.Errorf("heard %+v, want %+v after token %d", got, want, last)
		}
		last = got.Token
		for s2, standby := range agents[min(i+2, len(agents)):] {
			if s2 == 2 {
				break
			}
			want := lockagent.Message{
				Kind: lockagent.MessageStandby, Name: name, Tenure: tenure(standby, 1), AskAfter: lockagent.PassLease,
			}
			if got := conns[standby](); got != want {
				t.Errorf("heard %+v, want %+v", got, want)
			}
		}
		// Its next acquire is granted, and the place is gone.
		if r := s.grant(queueing(name, agents[i+1], 1)); r.Token <= last {
			t.Errorf("token %d after %d", r.Token, last)
		} else {
			last = r.Token
		}
	}
	s.expectKeys(string(name), "lockagent_clock")
}

// Who is gone is skipped. No release pays for all who died.
func TestPlacesOfTheDead(t *testing.T) {
	for _, c := range []struct {
		dead   int
		passes bool
		left   int64
	}{{1, true, 0}, {7, true, 0}, {8, false, 1}, {20, false, 13}} {
		s := start(t)
		s.grant(wish("orders", agentA, 1))
		for number := range c.dead {
			s.Do("ZADD", "lockagent_queue:{orders}", strconv.Itoa(number), string(agentB)+":"+strconv.Itoa(number+1))
		}
		s.Do("ZADD", "lockagent_queue:{orders}", "100", tenure(agentC, 1).String())
		listener := s.waits(agentC, "orders")
		r := s.release(end(wish("orders", agentA, 1)))
		if r.Passed != c.passes || s.Do("ZCARD", "lockagent_queue:{orders}") != c.left {
			t.Errorf(
				"%d dead: released %+v, and %d places are left; want passed %v, and %d",
				c.dead, r, s.Do("ZCARD", "lockagent_queue:{orders}"), c.passes, c.left,
			)
		}
		if heard := s.hear(listener); (heard == "0") == c.passes {
			t.Errorf("%d dead: heard %q", c.dead, heard)
		}
	}
}

// A new place removes the two before it if their agents are gone.
func TestANewPlaceRemovesDeadOnes(t *testing.T) {
	s := start(t)
	s.grant(wish("orders", agentA, 1))
	for number := range 5 {
		s.Do("ZADD", "lockagent_queue:{orders}", strconv.Itoa(number), string(agentB)+":"+strconv.Itoa(number+1))
	}
	s.Do("ZADD", "lockagent_queue:{orders}", "5", "what is no tenure")
	another := lockagent.NewAgentID()
	for _, step := range []struct {
		agent lockagent.AgentID
		left  int64
	}{{agentC, 5}, {agentC, 5}, {another, 5}} { // the second asks again, for the place that it has
		s.waits(step.agent, "orders")
		s.acquire(queueing("orders", step.agent, 1))
		if got := s.Do("ZCARD", "lockagent_queue:{orders}"); got != step.left {
			t.Errorf("%d places, want %d", got, step.left)
		}
	}
}

// While a program that tells nobody has the lock, the first waiter asks again and again for all. A waiter behind places
// whose agents are gone is the first.
func TestDeadPlacesDoNotAskForOthers(t *testing.T) {
	s := start(t)
	s.holds(java, "1")
	for number := range 5 {
		s.Do("ZADD", "lockagent_queue:{orders}", strconv.Itoa(number), string(agentB)+":"+strconv.Itoa(number+1))
	}
	s.waits(agentA, "orders")
	s.waits(agentC, "orders")
	first, second := queueing("orders", agentA, 1), queueing("orders", agentC, 1)
	for _, step := range []struct {
		req  lockagent.AcquireRequest
		asks bool
	}{{first, true}, {second, false}, {first, true}} {
		if r := s.acquire(step.req); !r.Queued || (r.AskWithin > 0) != step.asks {
			t.Errorf("%s: %+v; want a place, and that it asks: %v", step.req.Tenure, r, step.asks)
		}
	}
}

// The former lives of a program that crashes again and again leave one place, also behind others
// who wait.
func TestPlacesOfACrashLoop(t *testing.T) {
	s := start(t)
	s.grant(wish("orders", agentA, 1))
	third := lockagent.NewAgentID()
	s.queue("orders", agentB, agentC, third)
	for range 10 {
		s.acquire(queueing("orders", lockagent.NewAgentID(), 1))
	}
	got := s.Do("ZRANGE", "lockagent_queue:{orders}", "0", "-1").([]any)
	want := []any{tenure(agentB, 1).String(), tenure(agentC, 1).String(), tenure(third, 1).String()}
	if len(got) != len(want)+1 || !reflect.DeepEqual(got[:len(want)], want) {
		t.Errorf("places %q, want one behind %q", got, want)
	}
}

// The first place is not taken away from an agent that will listen in a moment.
func TestAFirstPlaceIsKept(t *testing.T) {
	s := start(t)
	s.grant(wish("orders", agentA, 1))
	if r := s.acquire(queueing("orders", agentB, 1)); !r.Queued ||
		s.Do("ZCARD", "lockagent_queue:{orders}") != int64(1) {
		t.Errorf("queued %+v, and there are %d places", r, s.Do("ZCARD", "lockagent_queue:{orders}"))
	}
}

// The holder's agent gets a message each time that another agent asks for the lock.
func TestWanted(t *testing.T) {
	s := start(t)
	holder := s.listen(AgentChannel(agentA))
	s.grant(wish("orders", agentA, 7))
	s.acquire(queueing("orders", agentA, 8)) // which knows it
	s.queue("orders", agentB)
	s.acquire(queueing("orders", agentB, 1))
	s.queue("orders", agentC)
	s.acquire(wish("orders", agentC, 1)) // which asks for no place
	s.Do("PUBLISH", AgentChannel(agentA), "the end")
	for range 3 {
		want := lockagent.Message{Kind: lockagent.MessageWanted, Name: "orders", Tenure: tenure(agentA, 7)}
		if got := s.message(holder); got != want {
			t.Errorf("heard %+v, want %+v", got, want)
		}
	}
	if got := s.hear(holder); got != "the end" {
		t.Errorf("heard %q as well", got)
	}
}

// A failover may bring a tenure back that nobody has, behind one that waits already, and its agent may
// not be subscribed yet.
func TestAGhostIsWanted(t *testing.T) {
	s := start(t)
	s.grant(wish("orders", agentC, 1))
	s.queue("orders", agentB)
	s.Do("DEL", "orders")
	s.Do("HSET", "orders", tenure(agentA, 7).String(), "1")
	s.acquire(queueing("orders", agentB, 1)) // nobody hears that
	holder := s.listen(AgentChannel(agentA))
	s.acquire(queueing("orders", agentB, 1))
	s.Do("PUBLISH", AgentChannel(agentA), "the end")
	want := "wanted " + tenure(agentA, 7).String() + " orders"
	if got := s.hear(holder); got != want {
		t.Errorf("heard %q, want %q", got, want)
	}
}

// A release takes the tenure out of the queue, whether it had the lock or not.
func TestAReleaseGivesUpThePlace(t *testing.T) {
	s := start(t)
	s.grant(wish("orders", agentA, 1))
	s.queue("orders", agentB, agentC)
	if r := s.release(end(wish("orders", agentB, 1))); r.Released {
		t.Errorf("released %+v", r)
	}
	s.Do("ZADD", "lockagent_queue:{orders}", "1", tenure(agentA, 1).String())
	s.release(end(wish("orders", agentA, 1)))
	if got, want := s.Do("HKEYS", "orders"), []any{tenure(agentC, 1).String()}; !reflect.DeepEqual(got, want) {
		t.Errorf("the lock was passed to %q, want %q", got, want)
	}
	// In one batch, in whichever order: what is released is not passed on to itself.
	s.queue("orders", agentB)
	s.acquire(queueing("orders", agentC, 2))
	expect(t, s.releaseAll(end(wish("orders", agentC, 1)), end(wish("orders", agentC, 2))), "passed", "not released")
	if got, want := s.Do("HKEYS", "orders"), []any{tenure(agentB, 1).String()}; !reflect.DeepEqual(got, want) {
		t.Errorf("the lock was passed to %q, want %q", got, want)
	}
}

// One script passes many locks, each with a token of its own. An error of one lock does not affect the
// others.
func TestPassesOfABatch(t *testing.T) {
	s := start(t)
	const locks = 200
	var requests []lockagent.AcquireRequest
	var waits []lockagent.AcquireRequest
	var ends []ReleaseRequest
	for i := range locks {
		req := wish(lockagent.Name("orders/"+strconv.Itoa(i)), agentA, 1)
		requests, ends = append(requests, req), append(ends, end(req))
		waits = append(waits, queueing(req.Name, agentB, uint64(i+1)))
	}
	s.acquireAll(requests...)
	listener := s.listen(AgentChannel(agentB))
	s.acquireAll(waits...)
	s.Do("SET", "lockagent_queue:{orders/1}", "no zset")
	s.Do("HSET", "orders/2", "mode", "read") // what Redisson's read/write lock does with a lock that is held
	tokens := map[lockagent.Token]bool{}
	for i, o := range s.releaseAll(ends...) {
		if o.Err != nil || !o.Reply.Released || o.Reply.Passed != (i != 1 && i != 2) {
			t.Errorf("lock %d: %+v", i, o)
		}
		if o.Reply.Passed {
			m := s.message(listener)
			if m.Name != ends[i].Name || tokens[m.Token] {
				t.Errorf("lock %d: heard %+v", i, m)
			}
			tokens[m.Token] = true
		}
	}
	if got := s.Do("HKEYS", "orders/2"); !reflect.DeepEqual(got, []any{"mode"}) {
		t.Errorf("a tenure was put among %q", got)
	}
}

// What other programs put under the keys of the agents is not in the way of the locks of a batch.
func TestSpoiltKeysOfABatch(t *testing.T) {
	for _, spoilt := range [][]string{
		{"SET", "lockagent_turn:{a}", "0.5"},
		{"SET", "lockagent_turn:{a}", "nan"},
		{"SET", "lockagent_turn:{a}", "-9223372036854775808000"},
		{"HSET", "lockagent_turn:{a}", "no", "number"},
		{"SET", "lockagent_notes:{a}", "no zset"},
		{"SET", "lockagent_queue:{a}", "no zset"},
		{"SET", "lockagent_clock", "no zset"},
		{"SET", "lockagent_ahead", "inf"},
		{"SET", "lockagent_ahead", "nan"},
		{"SET", "lockagent_ahead", "9007199254740991"},
		{"HSET", "lockagent_ahead", "no", "number"},
	} {
		t.Run(strings.Join(spoilt, " "), func(t *testing.T) {
			s := start(t)
			a, b := wish("a", agentA, 1), wish("b", agentA, 1)
			s.acquireAll(a, b)
			s.listen(Channel("a")) // an outsider
			waiter := s.listen(Channel("b"))
			s.queue("a", agentB)
			s.Do("DEL", spoilt[1])
			s.Do(spoilt...)
			ends := []ReleaseRequest{end(a), end(b)}
			ends[0].Unanswered = true
			for i, o := range s.releaseAll(ends...) {
				if o.Err != nil || !o.Reply.Released {
					t.Errorf("lock %d: %+v", i, o)
				}
			}
			if got := s.hear(waiter); got != "0" {
				t.Errorf("the waiter heard %q", got)
			}
			clock, err := s.conn.Do("ZRANGE", "lockagent_clock", "-1", "-1", "WITHSCORES")
			if entry, ok := clock.([]any); err == nil && ok &&
				!strings.HasPrefix(entry[1].(string), strconv.FormatInt(s.time(), 10)[:4]) {
				t.Errorf("the clock is %q", entry)
			}
		})
	}
}

// A pass tells later times and tokens than all before. After the clock was set back the lock is free,
// and the next acquire sets the clock right. Who waits keeps its place.
func TestPassesWhenTheClockIsSetBack(t *testing.T) {
	s := start(t)
	s.grant(wish("orders", agentA, 1))
	s.queue("orders", agentB)
	s.setBack(20 * time.Microsecond)
	if r := s.release(end(wish("orders", agentA, 1))); !r.Passed {
		t.Errorf("released %+v", r)
	}
	s.queue("orders", agentC)
	guard := s.setBack(time.Hour)
	if r := s.release(end(wish("orders", agentB, 1))); r.Passed || !r.Released {
		t.Errorf("released %+v", r)
	}
	if r := s.grant(wish("orders", agentB, 2)); r.Token <= guard {
		t.Errorf("token %d after %d", r.Token, guard)
	}
	s.Do("HSET", "orders", "another:1", "1") // beside the tenure
	if r := s.release(end(wish("orders", agentB, 2))); r.Passed || !r.Released {
		t.Errorf("released %+v", r)
	}
	s.Do("DEL", "orders")
	s.grant(wish("orders", agentB, 3))
	if r := s.release(end(wish("orders", agentB, 3))); !r.Passed {
		t.Errorf("released %+v", r)
	}
}

// Where subscribers cannot be counted there is no queue.
func TestUnqueued(t *testing.T) {
	s := start(t)
	s.room = Unqueued
	s.grant(wish("orders", agentA, 1))
	s.waits(agentB, "orders")
	if r := s.acquire(queueing("orders", agentB, 1)); r.Queued {
		t.Errorf("busy: %+v", r)
	}
	for _, key := range s.keys() {
		if strings.HasPrefix(key, "lockagent_queue") {
			t.Errorf("there is %q", key)
		}
	}
}

func TestRenewals(t *testing.T) {
	s := startOwn(t)
	s.Do("SET", "value", "something else")
	s.Do("HSET", "theirs", tenure(agentB, 1).String(), "1")
	s.acquireAll(wish("one", agentA, 1), wish("two", agentA, 1), wish("three", agentA, 1))
	renewal := func(name lockagent.Name, lease time.Duration) lockagent.RenewRequest {
		return lockagent.RenewRequest{Name: name, Tenure: tenure(agentA, 1), Lease: lease}
	}
	expect(t, s.renewAll(
		renewal("one", time.Hour), renewal("value", time.Hour), renewal("theirs", time.Hour),
		renewal("free", time.Hour), renewal("two", time.Second), renewal("three", time.Hour),
	), "held: true", "held: false", "held: false", "held: false", "held: true", "held: true")
	s.lives("one", time.Hour)
	s.lives("two", 30*time.Second) // never shortened
	s.lives("three", time.Hour)
	if got := s.Do("PTTL", "theirs"); got != int64(-1) {
		t.Errorf("their lock lives for %d ms", got)
	}
	s.Do("CONFIG", "SET", "maxmemory", "1")
	expect(t, s.renewAll(renewal("two", time.Second)), "held: true")
	expect(t, s.renewAll(renewal("two", 2*time.Hour)), "held: true")
	s.lives("two", 2*time.Hour)
}
