package script

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
)

// A waiter of Redisson's.
const java = "dddddddd-dddd-4ddd-8ddd-dddddddddddd:17"

// fairTry tries a fair lock once.
func (s *server) fairTry(requests ...lockagent.AcquireRequest) []Outcome[lockagent.AcquireReply] {
	s.t.Helper()
	s.room.FairAcquire(&s.call, requests, s.past)
	return s.acquired(len(requests))
}

func (s *server) acquired(n int) []Outcome[lockagent.AcquireReply] {
	s.t.Helper()
	outcomes := make([]Outcome[lockagent.AcquireReply], n)
	if err := s.room.ReadAcquired(s.must(&s.call), s.past, outcomes); err != nil {
		s.t.Fatal(err)
	}
	for _, o := range outcomes {
		s.past.Note(o.Reply.At, o.Reply.Token)
		s.past.In(o.Reply.Incarnation)
	}
	return outcomes
}

func (s *server) fair(req lockagent.AcquireRequest) lockagent.AcquireReply {
	s.t.Helper()
	o := s.fairTry(req)[0]
	if o.Err != nil {
		s.t.Fatal(o.Err)
	}
	return o.Reply
}

// places asks for a place, and expects to get it.
func (s *server) places(req lockagent.AcquireRequest, holder string) lockagent.AcquireReply {
	s.t.Helper()
	req.Queue = true
	r := s.fair(req)
	if r.Granted || !r.Queued || r.Holder != holder || r.AskWithin <= 0 {
		s.t.Fatalf("%s: %+v; want a place behind %q", req.Tenure, r, holder)
	}
	return r
}

func (s *server) fairGrant(req lockagent.AcquireRequest) lockagent.AcquireReply {
	s.t.Helper()
	r := s.fair(req)
	if !r.Granted {
		s.t.Fatalf("%s was not granted: %+v", req.Tenure, r)
	}
	return r
}

func (s *server) fairEnd(req ReleaseRequest) lockagent.ReleaseReply {
	s.t.Helper()
	s.room.FairRelease(&s.call, []ReleaseRequest{req}, s.past)
	o := s.released(1)[0]
	if o.Err != nil {
		s.t.Fatal(o.Err)
	}
	return o.Reply
}

// do runs a command.
func (s *server) do(args ...string) any {
	s.t.Helper()
	reply, err := s.conn.Do(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply
}

// wall is the time of the server, in ms.
func (s *server) wall() int64 {
	s.t.Helper()
	now := s.do("TIME").([]any)
	seconds, _ := strconv.ParseInt(now[0].(string), 10, 64)
	micros, _ := strconv.ParseInt(now[1].(string), 10, 64)
	return seconds*1000 + micros/1000
}

// waiting is who waits for a lock.
func (s *server) waiting(name string) (all []string) {
	s.t.Helper()
	for _, place := range s.do("LRANGE", "redisson_lock_queue:{"+name+"}", "0", "-1").([]any) {
		all = append(all, place.(string))
	}
	return all
}

// left is how long a place is good.
func (s *server) left(name, place string) time.Duration {
	s.t.Helper()
	score, ok := s.do("ZSCORE", "redisson_lock_timeout:{"+name+"}", place).(string)
	if !ok {
		s.t.Fatalf("%s has no score", place)
	}
	until, err := strconv.ParseInt(score, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return time.Duration(until-s.wall()) * time.Millisecond
}

func (s *server) about(what string, got, want time.Duration) {
	s.t.Helper()
	if got > want || got < want-5*time.Second {
		s.t.Errorf("%s: %v, want about %v", what, got, want)
	}
}

func (s *server) sees(name string, want ...string) {
	s.t.Helper()
	if got := s.waiting(name); !slices.Equal(got, want) {
		s.t.Fatalf("the queue is %q, want %q", got, want)
	}
}

func fairly(req lockagent.AcquireRequest) string { return req.Tenure.String() }

func TestFairLockGoesToThePlacesInTheirOrder(t *testing.T) {
	s := start(t)
	connA, connB := s.listen(AgentChannel(agentA)), s.listen(AgentChannel(agentB))
	one := wish("x", agentA, 1)
	first := s.fairGrant(one)
	two, three, four := queueing("x", agentB, 1), queueing("x", agentA, 2), queueing("x", agentB, 2)
	for _, req := range []lockagent.AcquireRequest{two, three, four, three, two} {
		s.places(req, fairly(one))
	}
	s.sees("x", fairly(two), fairly(three), fairly(four))
	if m := s.message(connA); m.Kind != lockagent.MessageWanted || m.LockKind != lockagent.FairLock ||
		m.Tenure != one.Tenure {
		t.Errorf("told %+v", m)
	}
	from, last := one, first.Token
	for i, to := range []lockagent.AcquireRequest{two, three, four} {
		if r := s.fairEnd(end(from)); !r.Released || !r.Passed || r.Others != 0 {
			t.Fatalf("release %d: %+v", i, r)
		}
		conn := connB
		if to.Tenure.Agent == agentA {
			conn = connA
		}
		for {
			m := s.message(conn)
			if m.Kind == lockagent.MessageWanted || m.Kind == lockagent.MessageStandby {
				continue
			}
			if m.Kind != lockagent.MessagePassed || m.LockKind != lockagent.FairLock || m.Tenure != to.Tenure ||
				m.Token <= last || m.Name != "x" {
				t.Fatalf("pass %d: %+v", i, m)
			}
			last = m.Token
			break
		}
		if again := s.fairEnd(end(from)); again.Released || again.Passed {
			t.Fatalf("release %d again: %+v", i, again)
		}
		from = to
	}
	s.sees("x")
	if r := s.fairEnd(end(from)); !r.Released || r.Passed {
		t.Fatalf("%+v", r)
	}
	if keys := s.do("KEYS", "*{x}*"); len(keys.([]any)) != 0 {
		t.Errorf("left: %q", keys)
	}
}

func TestFairLockInOneBatch(t *testing.T) {
	s := start(t)
	s.listen(AgentChannel(agentA))
	reqs := []lockagent.AcquireRequest{
		wish("x", agentA, 1), wish("y", agentA, 1), queueing("x", agentA, 2), queueing("z", agentA, 1),
	}
	for i, o := range s.fairTry(reqs...) {
		if o.Err != nil || o.Reply.Granted != (i != 2) || o.Reply.Queued != (i == 2) {
			t.Errorf("%d: %+v", i, o)
		}
	}
	s.sees("x", fairly(reqs[2]))
	s.sees("z")
}

// An attempt that comes upon a free lock passes it on.
func TestFairLockThatIsFreeIsForTheFirst(t *testing.T) {
	s := start(t)
	conn := s.listen(AgentChannel(agentB))
	one, two, three := wish("x", agentA, 1), queueing("x", agentB, 1), queueing("x", agentC, 1)
	s.fairGrant(one)
	s.places(two, fairly(one))
	s.do("DEL", "x")
	r := s.places(three, fairly(two))
	if r.Remaining != lockagent.PassLease {
		t.Errorf("%+v", r)
	}
	if m := s.message(conn); m.Kind != lockagent.MessagePassed || m.Tenure != two.Tenure || m.Clock != r.Clock ||
		m.Incarnation != r.Incarnation || m.At < r.At {
		t.Errorf("told %+v after %+v", m, r)
	}
	// The message may be lost. Then the tenure asks, and has the lock.
	if r := s.fairGrant(two); r.Outsiders != 0 {
		t.Errorf("%+v", r)
	}
	s.sees("x", fairly(three))
	s.do("DEL", "x")
	s.fairGrant(three)
	s.sees("x")
}

func TestFairPlaceThatIsGivenUp(t *testing.T) {
	s := start(t)
	conn := s.listen(AgentChannel(agentB))
	one, two, three := wish("x", agentA, 1), queueing("x", agentB, 1), queueing("x", agentB, 2)
	s.fairGrant(one)
	s.places(two, fairly(one))
	s.places(three, fairly(one))
	for range 2 {
		if r := s.fairEnd(end(two)); r.Released || r.Passed {
			t.Errorf("%+v", r)
		}
		s.sees("x", fairly(three))
	}
	if n := s.do("ZCARD", "redisson_lock_timeout:{x}"); n != int64(1) {
		t.Errorf("%v scores", n)
	}
	// The first one gives up a lock that is free already.
	four := queueing("x", agentB, 3)
	s.places(four, fairly(one))
	s.do("DEL", "x")
	s.fairEnd(end(three))
	if m := s.message(conn); m.Kind != lockagent.MessagePassed || m.Tenure != four.Tenure {
		t.Errorf("told %+v", m)
	}
	// A late attempt meets the tombstone.
	withdrawn := end(three)
	withdrawn.Unanswered = true
	s.fairEnd(withdrawn)
	if o := s.fairTry(three)[0]; !errors.Is(o.Err, lockagent.ErrWithdrawn) {
		t.Errorf("%+v", o)
	}
	s.sees("x")
}

func TestFairPlaceIsRepaired(t *testing.T) {
	for how, spoil := range map[string][]string{
		"not in the list": {"DEL", "redisson_lock_queue:{x}"},
		"without a score": {"DEL", "redisson_lock_timeout:{x}"},
		"not ours":        {"DEL", "lockagent_places:{x}"},
	} {
		t.Run(how, func(t *testing.T) {
			s := start(t)
			conn := s.listen(AgentChannel(agentB))
			one, two := wish("x", agentA, 1), queueing("x", agentB, 1)
			s.fairGrant(one)
			s.places(two, fairly(one))
			s.do(spoil...)
			s.places(two, fairly(one))
			s.sees("x", fairly(two))
			s.about("place", s.left("x", fairly(two)), 6*time.Second)
			s.fairEnd(end(one))
			if m := s.message(conn); m.Kind != lockagent.MessagePassed || m.Tenure != two.Tenure {
				t.Errorf("told %+v", m)
			}
		})
	}
}

// A place is kept while the server is full. There are no new ones.
func TestFairPlaceOnAFullServer(t *testing.T) {
	s := startOwn(t)
	s.listen(AgentChannel(agentB))
	one, two := wish("x", agentA, 1), queueing("x", agentB, 1)
	s.fairGrant(one)
	s.places(two, fairly(one))
	s.do("ZADD", "redisson_lock_timeout:{x}", "1", fairly(two))
	s.do("CONFIG", "SET", "maxmemory", "1")
	s.places(two, fairly(one))
	s.about("the place", s.left("x", fairly(two)), 6*time.Second)
	if r := s.fair(queueing("x", agentB, 2)); r.Granted || r.Queued {
		t.Errorf("%+v", r)
	}
	s.sees("x", fairly(two))
	if r := s.fairEnd(end(one)); !r.Released || !r.Passed {
		t.Errorf("%+v", r)
	}
}

func TestFairLockBesideOtherKeys(t *testing.T) {
	for i, key := range []string{
		"redisson_lock_queue:{x}", "redisson_lock_timeout:{x}", "lockagent_places:{x}", "lockagent_arrivals:{x}",
		"lockagent_lasts:{x}", "lockagent_told:{x}",
	} {
		t.Run(key, func(t *testing.T) {
			s := start(t)
			s.do("SET", key, "nan")
			one := wish("x", agentA, 1)
			s.fairGrant(one)
			two := queueing("x", agentB, 1)
			if r := s.fair(two); i > 2 && !r.Queued {
				t.Errorf("no place: %+v", r)
			}
			if r := s.fairEnd(end(one)); !r.Released {
				t.Errorf("%+v", r)
			}
			for range 3 {
				if s.fair(two).Granted {
					return
				}
			}
			t.Error("the lock is never granted")
		})
	}
	s := start(t)
	s.do("SET", "x", "something else")
	if o := s.fairTry(wish("x", agentA, 1))[0]; o.Err == nil {
		t.Errorf("%+v", o)
	}
}

func TestFairBreak(t *testing.T) {
	s := start(t)
	broken := func(want bool) lockagent.BreakReply {
		t.Helper()
		s.room.FairBreak(&s.call, lockagent.BreakRequest{Name: "x", Operator: "ann b"}, s.past)
		r, err := ReadBroken(s.must(&s.call), s.past)
		if err != nil || r.Broken != want {
			t.Fatalf("%+v, %v", r, err)
		}
		return r
	}
	broken(false)
	a, b, all := s.listen(AgentChannel(agentA)), s.listen(AgentChannel(agentB)), s.listen(Channel("x"))
	one, two := wish("x", agentA, 1), queueing("x", agentB, 1)
	s.fairGrant(one)
	s.places(two, fairly(one))
	s.message(a) // wanted
	r := broken(true)
	if m := s.message(a); m.Kind != lockagent.MessageBroken || m.LockKind != lockagent.FairLock ||
		m.Operator != "ann b" || m.At != r.At {
		t.Errorf("told %+v", m)
	}
	if m := s.message(b); m.Kind != lockagent.MessagePassed || m.At < r.At {
		t.Errorf("told %+v after %+v", m, r)
	}
	broken(true)
	if told := s.hear(all); told != "0" {
		t.Errorf("told %q", told)
	}
	waiter := s.listen("redisson_lock__channel:{x}:" + java)
	s.fairGrant(one)
	s.javaWaits("x", java, time.Hour)
	broken(true)
	if told := s.hear(waiter); told != "0" {
		t.Errorf("told %q", told)
	}
}

// The clock of the server is set back while a fair lock is held: a release cannot find the next token.
func TestFairLockAfterAStepBack(t *testing.T) {
	s := start(t)
	conn := s.listen(AgentChannel(agentB))
	one, two := wish("x", agentA, 1), queueing("x", agentB, 1)
	first := s.fairGrant(one)
	s.places(two, fairly(one))
	ahead := strconv.FormatInt(int64(first.At)+int64(time.Hour/time.Microsecond), 10)
	s.do("ZADD", "lockagent_clock", ahead, s.past.Incarnation)
	if r := s.fairEnd(end(one)); !r.Released || r.Passed {
		t.Errorf("%+v", r)
	}
	if m := s.message(conn); m.Kind != lockagent.MessageStandby || m.Tenure != two.Tenure || m.AskAfter != 0 {
		t.Errorf("told %+v", m)
	}
	if r := s.fairGrant(two); r.Token <= first.Token+lockagent.Token(time.Hour/time.Microsecond) {
		t.Errorf("%+v after %+v", r, first)
	}
}

// Nobody has a place. Others may wait all the same: a program of Redisson that takes the name for that of a plain lock.
func TestAReleaseOfAFairLockTellsAll(t *testing.T) {
	s := start(t)
	one, all := wish("x", agentA, 1), s.listen(Channel("x"))
	s.fairGrant(one)
	s.fairEnd(end(one))
	if told := s.hear(all); told != "0" {
		t.Errorf("told %q", told)
	}
}

func TestFairLockInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1)
	for _, room := range []Room{Sharded, Unqueued} {
		t.Run(room.String(), func(t *testing.T) {
			s := on(t, cluster.Nodes[0])
			s.room = room
			s.do("FLUSHALL")
			one, two := wish("a{b}", agentA, 1), queueing("a{b}", agentB, 1)
			s.fairGrant(one)
			agent := s.listen(AgentChannelOf(agentB, one.Name))
			place := s.listen(PlaceChannel(one.Name, two.Tenure))
			s.places(two, fairly(one))
			r := s.fairEnd(end(one))
			if !r.Released || r.Passed != room.Queues() {
				t.Errorf("%+v", r)
			}
			if room.Queues() {
				if m := s.message(agent); m.Kind != lockagent.MessagePassed || m.Tenure != two.Tenure {
					t.Errorf("told %+v", m)
				}
			} else if told := s.hear(place); told != "0" {
				t.Errorf("told %q", told)
			}
			s.fairGrant(two)
			if r := s.fairEnd(end(two)); !r.Released || r.Passed {
				t.Errorf("%+v", r)
			}
		})
	}
}

// One of four that wait gives up. Those behind it move up, and nothing else changes.
func TestD05FairPlacesMoveUp(t *testing.T) {
	s := start(t)
	s.listen(AgentChannel(agentB))
	one := wish("x", agentA, 1)
	s.fairGrant(one)
	var all []lockagent.AcquireRequest
	for i := range uint64(4) {
		all = append(all, queueing("x", agentB, i+1))
		s.about("remaining", s.places(all[i], fairly(one)).Remaining, one.Lease)
	}
	s.fairEnd(end(all[1]))
	for _, i := range []int{0, 2, 3} {
		s.about("remaining", s.places(all[i], fairly(one)).Remaining, one.Lease)
		s.about("the place", s.left("x", fairly(all[i])), 6*time.Second)
	}
	s.sees("x", fairly(all[0]), fairly(all[2]), fairly(all[3]))
	if r := s.fairEnd(end(one)); !r.Released || !r.Passed {
		t.Errorf("%+v", r)
	}
	s.fairGrant(all[0])
	for _, i := range []int{2, 3} {
		s.about("remaining", s.places(all[i], fairly(all[0])).Remaining, one.Lease)
	}
	s.sees("x", fairly(all[2]), fairly(all[3]))
}

// Those that ask for no place leave the others where they are.
func TestD06TriesMoveNoFairPlace(t *testing.T) {
	s := start(t)
	s.listen(AgentChannel(agentB))
	one, two, three := wish("x", agentA, 1), wish("x", agentC, 1), wish("x", agentC, 2)
	try := func(want bool, req lockagent.AcquireRequest) {
		t.Helper()
		if r := s.fair(req); r.Granted != want || r.Queued {
			t.Errorf("%s: %+v, want granted %t", fairly(req), r, want)
		}
	}
	try(true, one)
	try(false, two)
	try(false, three)
	s.fairEnd(end(one))
	try(true, two)
	try(false, three)
	s.do("DEL", "x") // the end of the lease
	try(true, three)
	s.expectKeys("lockagent_clock", "x")

	waits := queueing("x", agentB, 1)
	s.places(waits, fairly(three))
	s.javaWaits("x", java, time.Hour)
	keys := []string{
		"redisson_lock_queue:{x}", "redisson_lock_timeout:{x}", "lockagent_places:{x}", "lockagent_arrivals:{x}",
	}
	var before []any
	for _, key := range keys {
		before = append(before, s.do("DUMP", key))
	}
	try(false, one)
	try(false, two)
	for i, key := range keys {
		if s.do("DUMP", key) != before[i] {
			t.Errorf("%s was changed", key)
		}
	}
}
