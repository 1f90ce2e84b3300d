package script

import (
	"testing"

	"github.com/lockagent/lockagent"
)

// An agent without queues cannot count who listens. It leaves places alone, and takes what is free, whoever waits.
func TestAnUnqueuedAgentBesideAQueue(t *testing.T) {
	for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
		t.Run(string(kind), func(t *testing.T) {
			s := start(t)
			s.do("SET", "orders", "1")
			s.waits(agentB, "orders")
			ask := func(req lockagent.AcquireRequest, granted bool) {
				t.Helper()
				req.Kind, req.Permits = kind, 1
				s.room.AcquirePermits(&s.call, &req, s.past)
				if o := s.acquired(1)[0]; o.Err != nil || o.Reply.Granted != granted {
					t.Errorf("%+v; want it granted: %t", o, granted)
				}
				if places := s.do("ZCARD", "lockagent_queue:{orders}"); req.Tenure.Agent != agentA && places != int64(1) {
					t.Errorf("%v places, want that of agent B", places)
				}
			}
			ask(wish("orders", agentA, 1), true)
			ask(queueing("orders", agentB, 1), false)
			s.room = Unqueued
			ask(wish("orders", agentC, 1), false)
			s.do("INCR", "orders")
			ask(wish("orders", agentC, 1), true)
		})
	}
}

// A failover may bring back the place of a tenure that its agent does not know any more, and permits that such tenures
// had. If the place is the first one, nobody asks the holders. So whoever asks behind it tells the agent of the place.
func TestTheFirstPlaceOfASemaphoreMayBeAGhost(t *testing.T) {
	for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
		t.Run(string(kind), func(t *testing.T) {
			s := start(t)
			s.do("SET", "orders", "1")
			first, second := s.waits(agentB, "orders"), s.waits(agentC, "orders")
			ask := func(req lockagent.AcquireRequest, granted, queued bool) {
				t.Helper()
				req.Kind, req.Permits = kind, 1
				s.room.AcquirePermits(&s.call, &req, s.past)
				if o := s.acquired(1)[0]; o.Err != nil || o.Reply.Granted != granted || o.Reply.Queued != queued {
					t.Fatalf("%+v; want it granted: %t, queued: %t", o, granted, queued)
				}
			}
			ask(wish("orders", agentA, 1), true, false)
			ask(queueing("orders", agentB, 7), false, true)
			ask(queueing("orders", agentC, 1), false, true)
			want := lockagent.Message{
				Kind: lockagent.MessageStandby, Name: "orders", LockKind: kind, Tenure: tenure(agentB, 7),
				AskAfter: lockagent.PassLease,
			}
			if got := s.message(first); got != want {
				t.Errorf("the first one heard %+v, want %+v", got, want)
			}
			s.do("PUBLISH", AgentChannel(agentC), "the end")
			if got := s.hear(second); got != "the end" {
				t.Errorf("the second one heard %q", got)
			}
		})
	}
}
