package script

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// restingOnceMore asks again, for a tenure that has a place, to be one that may rest.
func restingOnceMore(name lockagent.Name, agent lockagent.AgentID, number uint64) lockagent.AcquireRequest {
	req := resting(name, agent, number)
	req.Queue = true
	return req
}

// Redisson counts only its own fields, here too.
func TestLayoutOfAFairTenureThatMayRest(t *testing.T) {
	s := start(t)
	one := resting("x", agentA, 1)
	if r := s.fairGrant(one); !r.Rests {
		t.Fatalf("acquired %+v", r)
	}
	if got := s.do("HGET", "x", fairly(one)); got != "13" {
		t.Errorf("the value is %v", got)
	}
	s.fairEnd(end(one))
	s.fairGrant(wish("x", agentB, 1))
	if got := s.do("HGET", "x", fairly(wish("x", agentB, 1))); got != "3" {
		t.Errorf("the value is %v", got)
	}
}

// Nobody in the queue may be kept waiting. Redisson's waiters say nothing to the agent of the holder.
func TestNoFairTenureRestsBeforeOthersInTheQueue(t *testing.T) {
	for how, behind := range map[string]func(*server){
		"nobody":     func(*server) {},
		"an agent":   func(s *server) { s.places(queueing("x", agentB, 1), fairly(resting("x", agentA, 1))) },
		"Redisson's": func(s *server) { s.javaWaits("x", java, time.Hour) },
	} {
		t.Run(how, func(t *testing.T) {
			s := start(t)
			s.listen(AgentChannel(agentA)) // otherwise its places are those of a dead agent
			s.fairGrant(resting("x", agentA, 1))
			first := restingOnceMore("x", agentA, 2)
			s.places(first, fairly(resting("x", agentA, 1)))
			behind(s)
			s.do("DEL", "x") // the lease is over
			if r := s.fairGrant(first); r.Rests != (how == "nobody") {
				t.Errorf("acquired %+v", r)
			}
		})
	}
}

// A tenure that is passed the lock may not rest, and neither may one whose agent is not known to be told.
func TestFairTenuresThatMayNotRest(t *testing.T) {
	s := start(t)
	s.listen(AgentChannel(agentB))
	one, two := resting("x", agentA, 1), restingOnceMore("x", agentB, 1)
	s.fairGrant(one)
	s.places(two, fairly(one))
	if r := s.fairEnd(end(one)); !r.Passed {
		t.Fatalf("released %+v", r)
	}
	if r := s.fairGrant(two); r.Rests {
		t.Errorf("acquired %+v after a pass", r)
	}
	if r := s.fairGrant(resting("y", "somebody", 1)); r.Rests {
		t.Errorf("acquired %+v", r)
	}
	s.do("SET", "redisson_lock_queue:{z}", "no list")
	if r := s.fairGrant(resting("z", agentA, 1)); r.Rests {
		t.Errorf("acquired %+v beside a key that is spoilt", r)
	}
}

// A waiter of Redisson's would be overtaken while the lock rests. So nothing rests for a minute after one was told.
func TestNoFairTenureRestsSoonAfterRedissonsTurn(t *testing.T) {
	s := start(t)
	s.fairGrant(resting("x", agentA, 1))
	s.javaWaits("x", java, time.Hour)
	s.listen("redisson_lock__channel:{x}:" + java)
	s.fairEnd(end(resting("x", agentA, 1)))
	s.do("DEL", "redisson_lock_queue:{x}", "redisson_lock_timeout:{x}") // it has given up
	if ttl := s.do("PTTL", "lockagent_told:{x}").(int64); ttl <= 0 || ttl > time.Minute.Milliseconds() {
		t.Fatalf("the note of its turn lasts for %d ms", ttl)
	}
	if r := s.fairGrant(resting("x", agentA, 2)); r.Rests {
		t.Errorf("acquired %+v", r)
	}
	s.fairEnd(end(resting("x", agentA, 2)))
	s.do("DEL", "lockagent_told:{x}")
	if r := s.fairGrant(resting("x", agentA, 3)); !r.Rests {
		t.Errorf("acquired %+v when that is long ago", r)
	}
}

// Those that poll have no turns at a fair lock.
func TestNoFairTenureRestsWhileSomebodyPolls(t *testing.T) {
	s := start(t)
	s.polled()
	if r := s.fairGrant(resting("x", agentA, 1)); r.Rests {
		t.Errorf("acquired %+v", r)
	}
	s.fairEnd(end(resting("x", agentA, 1)))
	s.do("DEL", "lockagent_polls")
	if r := s.fairGrant(resting("x", agentA, 2)); !r.Rests {
		t.Errorf("acquired %+v when nobody polls any more", r)
	}
}

// The agent of a tenure that may rest is told of each attempt of others, with or without a place.
func TestWhoMeetsAFairTenureThatMayRest(t *testing.T) {
	s := start(t)
	told := s.listen(AgentChannel(agentA))
	one := resting("x", agentA, 1)
	s.fairGrant(one)
	for _, asks := range []bool{false, true, true} {
		two := wish("x", agentB, 1)
		two.Queue = asks
		if r := s.fair(two); r.Granted || !r.Rests || r.Queued != asks || r.Holder != fairly(one) {
			t.Errorf("asks for a place %t: %+v", asks, r)
		}
		if got := s.hear(told); got != "fair wanted "+fairly(one)+" x" {
			t.Errorf("told %q", got)
		}
	}
	for _, asks := range []bool{false, true} {
		again := wish("x", agentA, 2)
		again.Queue = asks
		if r := s.fair(again); r.Granted || r.Rests || r.Queued != asks {
			t.Errorf("another tenure of the agent: %+v", r)
		}
	}
}

// The other program's count says nothing about rests.
func TestAnotherProgramNeverRestsInAFairLock(t *testing.T) {
	s := start(t)
	s.do("HSET", "x", java, "13")
	if r := s.fair(wish("x", agentA, 1)); r.Granted || r.Rests || r.Holder != java {
		t.Errorf("acquired %+v", r)
	}
}

// A batch has tenures of both kinds.
func TestAFairTenureThatMayRestInABatch(t *testing.T) {
	s := start(t)
	for i, o := range s.fairTry(wish("{x}a", agentA, 1), resting("{x}b", agentA, 2), wish("{x}c", agentA, 3)) {
		if o.Err != nil || !o.Reply.Granted || o.Reply.Rests != (i == 1) {
			t.Errorf("%d: %+v", i, o)
		}
	}
}
