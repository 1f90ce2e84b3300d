package script

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/waittest"
)

// While an outsider waits, as many passes as there are places come between its turns. Then the lock
// is kept for it for a moment.
func TestOutsidersTakeTurnsWithPlaces(t *testing.T) {
	s := start(t)
	outsider := s.listen(Channel("orders"))
	agents := []lockagent.AgentID{agentA, agentB, agentC}
	number := map[lockagent.AgentID]uint64{agentA: 1, agentB: 1, agentC: 1}
	r := s.grant(queueing("orders", agentA, 1))
	if r.Outsiders != 1 {
		t.Errorf("granted %+v, want one outsider", r)
	}
	s.waits(agentA, "orders")
	s.queue("orders", agentB, agentC)
	holder, passes := agentA, 0
	var turns []int // how many passes came before each
	for len(turns) < 4 {
		released := s.release(end(wish("orders", holder, number[holder])))
		number[holder]++
		if released.Passed {
			passes++
			field := s.Do("HKEYS", "orders").([]any)[0].(string)
			for _, agent := range agents {
				if field == tenure(agent, number[agent]).String() {
					s.acquire(queueing("orders", holder, number[holder]))
					holder = agent
					break
				}
			}
			continue
		}
		if got := s.hear(outsider); got != "0" || released.Others != 4 {
			t.Errorf("released %+v, and the outsider heard %q", released, got)
		}
		// 5 ms for each agent, and 5 ms more.
		kept := strconv.FormatInt(int64(released.At)+20_000, 10)
		if until := s.Do("ZSCORE", "lockagent_notes:{orders}", "yield"); until != kept {
			t.Errorf("released at %d, and kept until %v", released.At, until)
		}
		const turn = "lockagent_turn:{orders}"
		if left := s.Do("PTTL", turn).(int64); left == -1 || left > 250 { // and -2 if this is so slow
			t.Errorf("%q lives for %d ms, want 250", turn, left)
		}
		if s.Do("PERSIST", turn) == int64(0) {
			s.Do("SET", turn, "0")
		}
		turns = append(turns, passes)
		passes = 0
		s.expectKept(agentC)
		s.Do("DEL", "lockagent_notes:{orders}") // its time is over
		s.grant(wish("orders", holder, number[holder]))
	}
	s.Do("DEL", "lockagent_turn:{orders}") // it comes without passes, too
	if r := s.release(end(wish("orders", holder, number[holder]))); r.Passed {
		t.Errorf("released %+v", r)
	}
	if want := []int{0, 2, 2, 2}; !reflect.DeepEqual(turns, want) {
		t.Errorf("%d passes before the turns, want %d", turns, want)
	}
}

// expectKept expects a lock that is free to be kept from an agent, for 50 ms at most.
func (s *server) expectKept(agent lockagent.AgentID) {
	s.t.Helper()
	for _, req := range []lockagent.AcquireRequest{wish("orders", agent, 99), queueing("orders", agent, 99)} {
		waittest.Until(s.t, "an attempt that is fast enough", func() bool { // on a slow machine it may be over
			began := s.time()
			s.Do("ZADD", notesKey, "XX", strconv.FormatInt(began+49_000, 10), "yield")
			r := s.acquire(req)
			if r.Granted {
				s.Do("DEL", "orders")
			} else {
				s.release(end(req))
			}
			if s.time()-began >= 49_000 {
				return false
			}
			if r.Granted || r.Holder != "" || r.Remaining <= 0 || r.Remaining > 50*time.Millisecond || r.Queued != req.Queue {
				s.t.Errorf("acquired %+v, want the lock kept", r)
			}
			return true
		})
	}
}

// time is that of the server.
func (s *server) time() int64 {
	s.t.Helper()
	reply, err := s.conn.Do("TIME")
	if err != nil {
		s.t.Fatal(err)
	}
	seconds, err := strconv.ParseInt(reply.([]any)[0].(string), 10, 64)
	micros, err2 := strconv.ParseInt(reply.([]any)[1].(string), 10, 64)
	if err != nil || err2 != nil {
		s.t.Fatal(err, err2)
	}
	return seconds*1e6 + micros
}

// The lock is kept for outsiders only while there are some, and only for a moment.
func TestALockIsKeptForOutsidersOnly(t *testing.T) {
	s := start(t)
	outsider := s.listen(Channel("orders"))
	s.waits(agentB, "orders")
	s.grant(wish("orders", agentA, 1))
	if r := s.release(end(wish("orders", agentA, 1))); r.Passed || r.Others != 2 {
		t.Errorf("released %+v", r)
	}
	s.Do("PERSIST", "lockagent_notes:{orders}")
	s.expectKept(agentB)
	yield := func(in time.Duration) {
		s.Do("ZADD", "lockagent_notes:{orders}", strconv.FormatInt(s.time()+in.Microseconds(), 10), "yield")
	}
	yield(time.Hour) // then the clock was set back
	s.grant(wish("orders", agentB, 2))
	s.release(end(wish("orders", agentB, 2)))
	yield(-time.Microsecond)
	s.grant(wish("orders", agentB, 3))
	s.Do("DEL", "orders")
	outsider.Close()
	for s.Do("PUBSUB", "NUMSUB", Channel("orders")).([]any)[1] != int64(1) {
	}
	yield(9 * time.Millisecond)
	if r := s.acquire(queueing("orders", agentB, 4)); !r.Granted || r.Outsiders != 1 {
		t.Errorf("one outsider was there a moment ago, but %+v", r)
	}
}
