package script

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestFairLockOfTheDead(t *testing.T) {
	s := start(t)
	one := wish("x", agentA, 1)
	s.fairGrant(one)
	const crowd = 20
	dead := s.listen(AgentChannel(agentB))
	for n := range uint64(crowd) {
		s.places(wish("x", agentB, n+1), fairly(one))
		s.javaWaits("x", fmt.Sprintf("%s%d", java, n), -time.Second)
	}
	dead.Close()
	for s.do("PUBSUB", "NUMSUB", AgentChannel(agentB)).([]any)[1] != int64(0) {
	}
	last := queueing("x", agentC, 1)
	s.listen(AgentChannel(agentC))
	s.places(last, fairly(one))
	s.do("DEL", "x")
	for tries := 0; ; tries++ {
		before := len(s.waiting("x"))
		r := s.fair(last)
		if r.Granted {
			break
		}
		if len(s.waiting("x")) != before-looked || r.Remaining > time.Second {
			t.Fatalf("try %d: %+v, the queue is %q", tries, r, s.waiting("x"))
		}
	}
	s.sees("x")
}

const looked = 8

// A script looks at so many places. If all of them are dead, it tells the next one to look further, or everybody.
func TestTheDeadHideNoWaiterOfAFairLock(t *testing.T) {
	for _, crowd := range []uint64{looked, 3*looked + 1} {
		for how, free := range map[string]func(s *server, one lockagent.AcquireRequest){
			"a release": func(s *server, one lockagent.AcquireRequest) { s.fairEnd(end(one)) },
			"a break": func(s *server, one lockagent.AcquireRequest) {
				s.room.FairBreak(&s.call, lockagent.BreakRequest{Name: one.Name}, s.past)
				s.must(&s.call)
			},
			"a try": func(s *server, one lockagent.AcquireRequest) {
				s.do("DEL", string(one.Name))
				s.fair(wish(one.Name, agentA, 2))
			},
		} {
			t.Run(fmt.Sprintf("%d, %s", crowd, how), func(t *testing.T) {
				s := start(t)
				one, last := wish("x", agentA, 1), queueing("x", agentC, 1)
				s.fairGrant(one)
				dead := s.listen(AgentChannel(agentB))
				for n := range crowd {
					s.places(wish("x", agentB, n+1), fairly(one))
				}
				s.listen(AgentChannel(agentC))
				s.places(last, fairly(one))
				dead.Close()
				for s.do("PUBSUB", "NUMSUB", AgentChannel(agentB)).([]any)[1] != int64(0) {
				}
				agent, all := s.listen(AgentChannel(agentC)), s.listen(Channel("x"))
				free(s, one)
				s.do("PUBLISH", AgentChannel(agentC), "nothing")
				s.do("PUBLISH", Channel("x"), "nothing")
				if crowd == looked {
					if m := s.message(agent); m.Kind != lockagent.MessageStandby || m.LockKind != lockagent.FairLock ||
						m.Tenure != last.Tenure || m.AskAfter != 0 {
						t.Errorf("told %+v", m)
					}
				} else if told := s.hear(all); told != "0" {
					t.Errorf("told %q", told)
				}
				for range crowd/looked + 1 {
					if r := s.fair(last); r.Granted {
						return
					}
				}
				t.Errorf("not granted; the queue is %q", s.waiting("x"))
			})
		}
	}
}
