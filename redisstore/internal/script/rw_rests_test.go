package script

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
)

// mayRest makes a request one for a tenure that may rest.
func mayRest(req lockagent.AcquireRequest) lockagent.AcquireRequest {
	req.Rests = true
	return req
}

// marked expects the key of a reader to say that it may rest, or not.
func (s *server) marked(req lockagent.AcquireRequest, want bool) {
	s.t.Helper()
	value := "1"
	if want {
		value = "11"
	}
	if got := s.do("GETRANGE", timeoutKey(req), "0", "-1"); got != value {
		s.t.Errorf("the key of %s has %q, want %q", req.Tenure, got, value)
	}
}

// Redisson takes the values of a hash for counts. When Redisson 3.52 renews a reader, its script fails if a field counts more than 1.
func TestAReaderThatMayRestCountsOneHold(t *testing.T) {
	s := start(t)
	one, two := mayRest(reading("x", agentA, 1)), mayRest(reading("x", agentB, 1))
	for _, req := range []lockagent.AcquireRequest{one, two, one} { // the last call is a late one
		if r := s.rwGrant(req); !r.Rests {
			t.Errorf("%+v: may not rest", r)
		}
		s.marked(req, true)
		if count := s.do("HGET", "x", req.Tenure.String()); count != "1" {
			t.Errorf("counts %v holds", count)
		}
	}
	s.rwRenew(one)
	s.marked(one, false) // its agent keeps it for a hold that lasts
	s.marked(two, true)
}

// A reader that has lost the lock is granted it again. Others may have met it while nobody told its agent.
func TestALostReaderDoesNotRest(t *testing.T) {
	s := start(t)
	one := mayRest(reading("x", agentA, 1))
	s.rwGrant(one)
	s.do("DEL", "x")
	s.rwTry(wish("x", agentB, 1)) // which finds the reader again
	if count := s.do("HGET", "x", one.Tenure.String()); count != "2" {
		t.Fatalf("the reader counts %v, want one that has lost the lock", count)
	}
	if r := s.rwGrant(one); r.Rests {
		t.Errorf("%+v: may rest", r)
	}
	s.marked(one, false)
}

// A tenure that is passed the lock counts one hold, as Redisson's do, and may not rest.
func TestAPassedTenureCountsOneHold(t *testing.T) {
	writer, reader := mayRest(wish("x", agentB, 1)), mayRest(reading("x", agentB, 1))
	releases := func(s *server, req lockagent.AcquireRequest) bool { return s.rwEnd(end(req))[0].Reply.Passed }
	becomesReader := func(s *server, req lockagent.AcquireRequest) bool {
		s.room.ReadWriteRenew(&s.call, []lockagent.RenewRequest{{Name: "x", Tenure: req.Tenure, Mode: lockagent.Shared, Lease: time.Minute}})
		s.must(&s.call)
		return true
	}
	for name, c := range map[string]struct {
		passed lockagent.AcquireRequest
		field  string
		passes func(s *server, req lockagent.AcquireRequest) bool
	}{
		"to a writer":                   {writer, writer.Tenure.String() + ":write", releases},
		"to a reader":                   {reader, reader.Tenure.String(), releases},
		"to a reader beside the writer": {reader, reader.Tenure.String(), becomesReader},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			before := mayRest(wish("x", agentA, 1))
			s.rwGrant(before)
			s.listen(AgentChannel(agentB), AgentsChannel("x"), ReadWriteChannel("x"))
			s.rwWaits(c.passed, before.Tenure.String())
			if !c.passes(s, before) {
				t.Fatal("not passed")
			}
			if count := s.do("HGET", "x", c.field); count != "1" {
				t.Errorf("the tenure counts %v holds", count)
			}
			if c.passed.Mode == lockagent.Shared {
				s.marked(c.passed, false)
			}
		})
	}
}

// A writer keeps its mark when its grant is repeated, and loses it by a renewal. It has none when it becomes a reader.
func TestAWriterThatMayRestBecomesAReader(t *testing.T) {
	s := start(t)
	one := mayRest(wish("x", agentA, 1))
	for range 2 {
		if r := s.rwGrant(one); !r.Rests || s.do("HGET", "x", one.Tenure.String()+":write") != "11" {
			t.Errorf("%+v: may not rest", r)
		}
	}
	s.rwRenew(one)
	if s.do("HGET", "x", one.Tenure.String()+":write") != "1" {
		t.Error("the writer may rest, though its agent keeps it for a hold that lasts")
	}
	s.room.ReadWriteRenew(&s.call, []lockagent.RenewRequest{{Name: "x", Tenure: one.Tenure, Mode: lockagent.Shared, Lease: time.Minute}})
	s.must(&s.call)
	if s.do("HGET", "x", one.Tenure.String()) != "1" {
		t.Error("the reader counts more than one hold")
	}
	s.marked(one, false)
}

// Whoever meets many readers tells some of those that may rest, and no others unless it asks for a place.
func TestAWriterTellsSomeReadersThatMayRest(t *testing.T) {
	const most = 8
	for _, asks := range []bool{false, true} {
		s := start(t)
		var channels []string
		for i := range 20 {
			req := reading("x", lockagent.AgentID(fmt.Sprintf("%s%02d", agentA[:34], i)), 1)
			req.Rests = i%2 == 1
			if r := s.rwGrant(req); r.Rests != req.Rests {
				t.Fatalf("%+v", r)
			}
			channels = append(channels, AgentChannel(req.Tenure.Agent))
		}
		listener := s.listen(append(channels, "the end")...)
		writes := wish("x", agentC, 1)
		writes.Queue = asks
		if r := s.rwTry(writes)[0].Reply; !r.Rests || r.Queued != asks {
			t.Errorf("%+v", r)
		}
		s.do("PUBLISH", "the end", "")
		told, others := 0, 0
		for payload := s.hear(listener); payload != ""; payload = s.hear(listener) {
			m, err := ReadMessage(payload)
			if err != nil {
				t.Fatal(err)
			}
			told++
			if s.do("GETRANGE", timeoutKey(lockagent.AcquireRequest{Name: "x", Tenure: m.Tenure}), "0", "-1") != "11" {
				others++
			}
		}
		if told != most || (others > 0) != asks {
			t.Errorf("told %d readers, %d of which may not rest", told, others)
		}
	}
}

// A value of 11 is a count if another program's writer has it.
func TestAWriterOfRedissonDoesNotRest(t *testing.T) {
	s := start(t)
	s.do("HSET", "x", "mode", "write", java+":write", "11")
	s.do("PEXPIRE", "x", "20000")
	if r := s.rwTry(wish("x", agentA, 1))[0].Reply; r.Rests || r.Granted {
		t.Errorf("%+v", r)
	}
	s.room.ReadWriteInspect(&s.call, "x")
	if seen, err := ReadInspected(s.must(&s.call)); err != nil || seen.HoldCount != 11 {
		t.Errorf("%+v, %v", seen, err)
	}
}

// An outsider that had its turn lately is about to listen again.
func TestAReaderDoesNotRestAfterTheTurnOfAnOutsider(t *testing.T) {
	s := start(t)
	s.do("SET", "lockagent_turn:{x}", "0")
	if r := s.rwGrant(mayRest(reading("x", agentA, 1))); r.Rests {
		t.Errorf("%+v: may rest", r)
	}
}

// While a slot moves, messages and keys may be at the other node.
func TestNobodyRestsWhileASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	for i, mode := range []lockagent.Mode{lockagent.Shared, lockagent.Exclusive} {
		m := migrateIn(t, cluster, lockagent.Name(fmt.Sprintf("orders/%d", i)))
		m.begin()
		req := mayRest(wish(lockagent.Name(fmt.Sprintf("orders/%d", i)), agentA, 1))
		req.Mode = mode
		reply := m.call(func(c *Call) { m.from.room.ReadWriteAcquire(c, []lockagent.AcquireRequest{req}, m.from.past) },
			func(c *Call) { m.from.room.ReadWriteAcquireAlone(c, &req, m.from.past) })
		outcomes := make([]Outcome[lockagent.AcquireReply], 1)
		if err := m.from.room.ReadAcquired(reply, m.from.past, outcomes); err != nil || outcomes[0].Reply.Rests {
			t.Errorf("%+v, %v", outcomes, err)
		}
		m.finish(cluster, req.Name)
	}
}

// The tenures of one agent rest one after the other, and it does not know that somebody polls. The lock is free only for short moments
// between them.
func TestRestsLeaveTheLockToThoseThatPoll(t *testing.T) {
	for _, mode := range []lockagent.Mode{lockagent.Shared, lockagent.Exclusive} {
		s, number := start(t), uint64(0)
		wants := func() (lockagent.AcquireRequest, lockagent.AcquireReply) {
			number++
			req := mayRest(wish("orders", agentA, number))
			req.Mode = mode
			return req, s.rwTry(req)[0].Reply
		}
		s.rwPolled()
		s.busyUntil(3*time.Second, time.Second, 0, "-")
		req, r := wants()
		if !r.Rests {
			t.Fatalf("%+v: may not rest", r)
		}
		ended := s.rwEnd(end(req))[0].Reply
		if _, _, freed, _ := s.turns(ended.At); !freed {
			t.Error("it is not noted that the lock is free")
		}
		s.busyUntil(-time.Millisecond, time.Second, time.Minute, "-") // the pause is short
		if _, r := wants(); r.Granted || r.Holder != "" || r.Remaining <= 0 || r.Remaining > 100*time.Millisecond {
			t.Errorf("in their turn: %+v", r)
		}
		s.rwKept()

		s.do("DEL", "lockagent_notes:{orders}", "lockagent_queue:{orders}")
		s.busyUntil(-time.Millisecond, time.Second, -time.Second, "-") // the pause was long
		if _, r := wants(); !r.Rests {
			t.Errorf("after a pause: %+v", r)
		}
	}
}

// Readers of several agents rest beside each other, so that the lock is never free. They are asked to leave, and those that rest are told.
func TestRestingReadersLeaveForThoseThatPoll(t *testing.T) {
	s, heard := startReaders(t, lockagent.Shared)
	s.rwEnd(end(wish("orders", agentA, 1)))
	s.rwGrant(mayRest(reading("orders", agentA, 2)))
	s.rwPolled()
	s.busyUntil(-time.Millisecond, time.Second, 0, "-")
	s.do("UNLINK", "lockagent_turn:{orders}")
	r := s.rwTry(mayRest(reading("orders", agentB, 1)))[0].Reply
	if r.Granted || !r.Rests || !s.wanted(heard) {
		t.Errorf("%+v: want the reader kept out, and those that rest told", r)
	}
}
