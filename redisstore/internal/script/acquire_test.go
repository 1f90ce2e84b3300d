package script

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// say puts an outcome into a few words.
func say[R any](o Outcome[R]) string {
	if o.Err != nil {
		for _, known := range []error{
			lockagent.ErrWrongType, lockagent.ErrWithdrawn, lockagent.ErrNotPermitted, lockagent.ErrBadOption,
			lockagent.ErrStoreUnavailable,
		} {
			if errors.Is(o.Err, known) {
				return known.Error()
			}
		}
		return o.Err.Error()
	}
	switch r := any(o.Reply).(type) {
	case lockagent.AcquireReply:
		switch {
		case r.Granted:
			return "granted"
		case r.Queued:
			return "queued behind " + r.Holder
		}
		return "held by " + r.Holder
	case lockagent.ReleaseReply:
		switch {
		case r.Passed:
			return "passed"
		case r.Released:
			return "released, woke " + strconv.Itoa(r.Others)
		}
		return "not released"
	case lockagent.RenewReply:
		return fmt.Sprint("held: ", r.Held)
	}
	return fmt.Sprintf("%+v", o.Reply)
}

func expect[R any](t *testing.T, outcomes []Outcome[R], want ...string) {
	t.Helper()
	var got []string
	for _, o := range outcomes {
		got = append(got, say(o))
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// keys are all keys of a server.
func (s *server) keys() []string {
	s.t.Helper()
	var keys []string
	for _, key := range s.Do("KEYS", "*").([]any) {
		keys = append(keys, key.(string))
	}
	slices.Sort(keys)
	return keys
}

func (s *server) expectKeys(want ...string) {
	s.t.Helper()
	slices.Sort(want)
	if got := s.keys(); !reflect.DeepEqual(got, want) {
		s.t.Errorf("keys %q, want %q", got, want)
	}
}

// lives expects a key to expire within a time.
func (s *server) lives(key string, most time.Duration) {
	s.t.Helper()
	if left := time.Duration(s.Do("PTTL", key).(int64)) * time.Millisecond; left <= 0 || left > most {
		s.t.Errorf("%q lives for %v, want %v", key, left, most)
	}
}

func TestLayoutOfAHeldLock(t *testing.T) {
	s := start(t)
	for _, name := range []lockagent.Name{"orders 42", "a{b}c"} {
		r := s.grant(wish(name, agentA, 7))
		if got, want := s.Do("HGETALL", string(name)), []any{
			string(agentA) + ":7", "2",
		}; !reflect.DeepEqual(got, want) {
			t.Errorf("the lock is %q, want %q", got, want)
		}
		s.lives(string(name), 30*time.Second)
		clock := []any{r.Incarnation, strconv.FormatUint(uint64(r.Token), 10)}
		if got := s.Do("ZRANGE", "lockagent_clock", "0", "-1", "WITHSCORES"); !reflect.DeepEqual(got, clock) {
			t.Errorf("the clock is %q, want %q", got, clock)
		}
		if got := s.Do("PTTL", "lockagent_clock"); got != int64(-1) {
			t.Errorf("the clock lives for %d ms", got)
		}
		if lockagent.Token(r.At) != r.Token || r.Clock != r.Incarnation+"/0" {
			t.Errorf("granted %+v", r)
		}
		s.expectKeys("lockagent_clock", string(name))
		s.Do("DEL", string(name))
	}
}

// Lone calls that meet nothing run few commands, and none that is not needed.
func TestCommandsOfALonePair(t *testing.T) {
	s := start(t)
	req := wish("orders", agentA, 1)
	s.grant(req)
	s.release(end(req))
	s.Do("CONFIG", "RESETSTAT")
	s.grant(req)
	s.release(end(req))
	want := map[string]int{
		"evalsha": 2, "time": 2, "exists": 2, "zadd": 1, "hset": 1, "pexpire": 1, "hdel": 1, "publish": 1,
	}
	for _, command := range []string{
		"evalsha", "time", "exists", "zadd", "hset", "pexpire", "hdel", "publish", "get", "set", "zrange",
		"hscan", "pttl", "pubsub|numsub", "zmscore",
	} {
		if got := s.Calls(command); got != want[command] {
			t.Errorf("%s ran %d times, want %d", command, got, want[command])
		}
	}
}

func TestABusyLockTellsWhoHasIt(t *testing.T) {
	s := start(t)
	hour := wish("orders", agentA, 1)
	hour.Lease = time.Hour
	first := s.grant(hour)
	r := s.acquire(wish("orders", agentB, 1))
	want := lockagent.AcquireReply{
		At: r.At, Clock: first.Clock, Incarnation: first.Incarnation,
		Holder: string(agentA) + ":1", Remaining: r.Remaining,
	}
	if r != want || r.At <= first.At || r.Remaining <= 59*time.Minute || r.Remaining > time.Hour {
		t.Errorf("busy: %+v, want %+v", r, want)
	}
	s.Do("PERSIST", "orders")
	if r := s.acquire(wish("orders", agentB, 1)); r.Remaining >= 0 {
		t.Errorf("%v left of a lease without an end", r.Remaining)
	}
}

func TestARepeatedAcquireIsGrantedAgain(t *testing.T) {
	s := start(t)
	req := wish("orders", agentA, 1)
	first := s.grant(req)
	req.Lease = time.Second // it never ends earlier for that
	second := s.grant(req)
	if second.Token <= first.Token {
		t.Errorf("token %d after %d", second.Token, first.Token)
	}
	s.lives("orders", 30*time.Second)
	req.Lease = time.Minute
	s.grant(req)
	s.lives("orders", time.Minute)
}

func TestOneLockTwiceInABatch(t *testing.T) {
	s := start(t)
	one, two := wish("orders", agentA, 1), wish("orders", agentA, 2)
	s.grant(wish("another", agentA, 1)) // so that the clock is known, and then so that it is not
	for _, past := range []Past{s.past, {}} {
		s.past = past
		outcomes := s.acquireAll(one, wish("between", agentA, 1), two, one)
		expect(t, outcomes, "granted", "granted", "held by "+one.Tenure.String(), "granted")
		if first, again := outcomes[0].Reply.Token, outcomes[3].Reply.Token; again <= first {
			t.Errorf("token %d and, when granted again, %d", first, again)
		}
		if r := s.grant(wish("later", agentA, 1)); r.Token <= outcomes[3].Reply.Token {
			t.Errorf("token %d after %d", r.Token, outcomes[3].Reply.Token)
		}
		s.Do("DEL", "later")
		expect(t, s.releaseAll(end(two), end(one), end(wish("between", agentA, 1)), end(one)),
			"not released", "released, woke 0", "released, woke 0", "not released")
	}
}

// An error of one lock does not affect the locks that travel with it.
func TestNeighboursInABatch(t *testing.T) {
	s := start(t)
	s.Do("SET", "value", "something else")
	s.Do("HSET", "map", "some", "setting")
	s.Do("HSET", "theirs", "another:1", "2")
	s.Do("SET", "lockagent_queue:{spoilt}", "no zset")
	s.Do("SET", "lockagent_notes:{spoilt}", "no zset")
	s.Do("SET", "lockagent_turn:{spoilt}", "no number")
	requests := []lockagent.AcquireRequest{
		wish("first", agentA, 1), queueing("value", agentA, 1), wish("map", agentA, 1), queueing("theirs", agentA, 1),
		queueing("spoilt", agentA, 1), wish("withdrawn", agentA, 7), queueing("last", agentA, 1),
	}
	listener := s.waits(agentB, "spoilt")
	late := end(requests[5])
	late.Unanswered = true
	s.release(late)
	for range 2 { // without a known clock, and with one
		wrong, gone := lockagent.ErrWrongType.Error(), lockagent.ErrWithdrawn.Error()
		expect(
			t, s.acquireAll(requests...), "granted", wrong, wrong, "queued behind another:1", "granted", gone,
			"granted",
		)
		if r := s.acquire(queueing("spoilt", agentB, 1)); r.Granted || r.Queued {
			t.Errorf("a place in a spoilt queue: %+v", r)
		}
		var ends []ReleaseRequest
		for _, req := range requests {
			ends = append(ends, end(req))
		}
		expect(t, s.releaseAll(ends...),
			"released, woke 0", wrong, wrong, "not released", "released, woke 1", "not released", "released, woke 0")
	}
	if got := s.hear(listener); got != "0" {
		t.Errorf("the waiter heard %q", got)
	}
	if got := s.Do("HGETALL", "map"); !reflect.DeepEqual(got, []any{"some", "setting"}) {
		t.Errorf("the map is %q now", got)
	}
}

// What has not the shape of a lock is none.
func TestShapes(t *testing.T) {
	s := start(t)
	owner := "0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5b1:-42"
	for _, c := range []struct {
		fields []string
		holder string
	}{
		{[]string{owner, "3"}, owner},
		{[]string{owner + ":0123456789abcdef0123456789abcdef", "1"}, owner + ":0123456789abcdef0123456789abcdef"},
		{[]string{"host_1-" + owner, "1"}, "host_1-" + owner},
		{[]string{"an owner with spaces:1", "1"}, ""},
		{[]string{"page:home", "12", "page:about", "3"}, ""},
		{[]string{owner, "1", "page:home", "12"}, ""},
		{[]string{owner + ":", "1"}, ""},
		{[]string{owner + "x", "1"}, ""},
		{[]string{owner, "0"}, ""},
		{[]string{owner, "-1"}, ""},
		{[]string{owner, "many"}, ""},
		{[]string{owner, "1", "size", "3"}, ""},
		{[]string{"mode", "dark"}, ""},
		{[]string{"mode", "dark", owner, "1"}, ""},
		{[]string{"mode", "read"}, ""},
		{[]string{"two\nlines:1", "1"}, ""},
	} {
		s.Do("DEL", "orders")
		s.Do(append([]string{"HSET", "orders"}, c.fields...)...)
		before := s.Do("DUMP", "orders")
		outcome := s.acquireAll(wish("orders", agentA, 1))[0]
		s.room.Inspect(&s.call, "orders", lockagent.PlainLock)
		seen, err := s.run(&s.call)
		inspected, _ := ReadInspected(seen)
		if c.holder != "" {
			if outcome.Err != nil || outcome.Reply.Holder != c.holder || err != nil || inspected.Holder != c.holder ||
				!inspected.Held {
				t.Errorf(
					"%q: acquired %+v, inspected %+v, %v; want holder %q", c.fields, outcome, inspected, err, c.holder,
				)
			}
			continue
		}
		s.room.Break(&s.call, lockagent.BreakRequest{Name: "orders"}, s.past)
		_, broken := s.run(&s.call)
		released := s.releaseAll(end(wish("orders", agentA, 1)))[0]
		for what, err := range map[string]error{
			"acquire": outcome.Err, "inspect": Refused(err.Error()), "break": Refused(broken.Error()),
			"release": released.Err,
		} {
			if !errors.Is(err, lockagent.ErrWrongType) {
				t.Errorf("%q: %s: error %v, want ErrWrongType", c.fields, what, err)
			}
		}
		if s.Do("DUMP", "orders") != before {
			t.Errorf("%q was changed", c.fields)
		}
	}
}

// A replica, such as a master that was demoted, refuses whole calls. The store then looks for
// another server.
func TestAReplicaRefuses(t *testing.T) {
	s := startOwn(t)
	s.grant(wish("held", agentA, 1))
	s.Do("REPLICAOF", "127.0.0.1", "1") // nobody is there
	renewal := lockagent.RenewRequest{Name: "held", Tenure: tenure(agentA, 1), Lease: time.Second}
	gone := lockagent.RenewRequest{Name: "gone", Tenure: tenure(agentA, 1), Lease: time.Second}
	for what, write := range map[string]func(){
		"acquire": func() {
			s.room.Acquire(&s.call, []lockagent.AcquireRequest{wish("free", agentB, 1)}, s.past)
		},
		"acquire with place": func() {
			s.room.Acquire(&s.call, []lockagent.AcquireRequest{queueing("held", agentB, 1)}, s.past)
		},
		"release": func() {
			s.room.Release(&s.call, []ReleaseRequest{end(wish("held", agentA, 1))}, s.past)
		},
		"renew":              func() { s.room.Renew(&s.call, []lockagent.RenewRequest{renewal}) },
		"renew what is gone": func() { s.room.Renew(&s.call, []lockagent.RenewRequest{gone}) },
		"break":              func() { s.room.Break(&s.call, lockagent.BreakRequest{Name: "held"}, s.past) },
		"come back":          func() { Reasserted(&s.call, "", agentA, "1.feed.1") },
		"leave":              func() { Leave(&s.call, "", "0", []Member{annaOnTheRoll}) },
	} {
		write()
		// Redis 6.2 puts other words in front.
		if reply, err := s.run(&s.call); err == nil || !strings.Contains(err.Error(), "READONLY") {
			t.Errorf("%s: %q, %v; want READONLY", what, reply, err)
		}
	}
	s.expectKeys("held", "lockagent_clock")
}

// Of a large hash a bounded part is looked at.
func TestALargeMapIsNoLock(t *testing.T) {
	s := start(t)
	for i := range 20 {
		fields := []string{"HSET", "map"}
		for k := range 1000 {
			fields = append(fields, strconv.Itoa(i*1000+k), "1")
		}
		s.Do(fields...)
	}
	expect(t, s.acquireAll(wish("map", agentA, 1)), lockagent.ErrWrongType.Error())
}

// A server that is full refuses a call as a whole, and releases all the same.
func TestAFullServer(t *testing.T) {
	s := startOwn(t)
	held, waits := wish("held", agentA, 1), queueing("held", agentB, 1)
	s.grant(held)
	listener := s.waits(agentB, "held")
	if !s.acquire(waits).Queued {
		t.Fatal("no place")
	}
	unanswered := end(wish("another", agentA, 2))
	unanswered.Unanswered = true
	s.Do("CONFIG", "SET", "maxmemory", "1")
	s.room.Acquire(&s.call, []lockagent.AcquireRequest{wish("one", agentA, 3), held, wish("two", agentA, 3)}, s.past)
	if reply, err := s.run(&s.call); err == nil || !errors.Is(Refused(err.Error()), lockagent.ErrStoreUnavailable) {
		t.Errorf("acquired on a full server: %q, %v", reply, err)
	}
	if r := s.acquire(queueing("held", agentC, 1)); r.Queued || r.Holder != held.Tenure.String() {
		t.Errorf("a place on a full server: %+v", r)
	}
	s.expectKeys("held", "lockagent_clock", "lockagent_queue:{held}")
	last := end(held)
	last.Last = s.past.Given + 1000
	expect(t, s.releaseAll(unanswered, last), "not released", "passed")
	if m := s.message(listener); m.Kind != lockagent.MessagePassed || m.Token <= last.Last {
		t.Errorf("heard %+v, want a pass with a token above %d", m, last.Last)
	}
	s.Do("CONFIG", "SET", "maxmemory", "0")
	expect(t, s.acquireAll(wish("another", agentA, 2)), lockagent.ErrWithdrawn.Error())
}

// A user who may not touch one of the locks is told so for the call, which has no effect.
func TestALockThatIsNotPermitted(t *testing.T) {
	s := startOwn(t)
	s.Do("ACL", "SETUSER", "clerk", "on", ">secret", "+@all", "&*", "~orders*", "~lockagent_*")
	if _, err := s.conn.Do("AUTH", "clerk", "secret"); err != nil {
		t.Fatal(err)
	}
	s.room.Acquire(&s.call, []lockagent.AcquireRequest{wish("orders/1", agentA, 1), wish("bills/1", agentA, 1)}, s.past)
	if _, err := s.run(&s.call); err == nil || !Several(err.Error()) ||
		!errors.Is(Refused(err.Error()), lockagent.ErrNotPermitted) {
		t.Errorf("error %v", err)
	}
	s.expectKeys()
	s.grant(wish("orders/1", agentA, 1))
}
