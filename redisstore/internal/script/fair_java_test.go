package script

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
)

// javaWaits gives a waiter of Redisson's the last place, for a time from now. If that is 0, the place has no
// score.
func (s *server) javaWaits(name, waiter string, left time.Duration) {
	s.t.Helper()
	s.do("RPUSH", "redisson_lock_queue:{"+name+"}", waiter)
	if left != 0 {
		s.do("ZADD", "redisson_lock_timeout:{"+name+"}", strconv.FormatInt(s.wall()+left.Milliseconds(), 10), waiter)
	}
}

func TestP09FairLockIsLeftToRedisson(t *testing.T) {
	for how, left := range map[string]time.Duration{"soon": 3 * time.Second, "late": time.Hour, "without a score": 0} {
		t.Run(how, func(t *testing.T) {
			s := start(t)
			waiter := s.listen("redisson_lock__channel:{x}:" + java)
			one := wish("x", agentA, 1)
			s.fairGrant(one)
			s.javaWaits("x", java, left)
			two := queueing("x", agentB, 1)
			if r := s.places(two, fairly(one)); r.Outsiders == 0 {
				t.Errorf("%+v", r)
			}
			if r := s.fairEnd(end(one)); !r.Released || r.Passed || r.Others != 0 {
				t.Errorf("%+v", r)
			}
			if told := s.hear(waiter); told != "0" {
				t.Errorf("told %q", told)
			}
			most := 6 * time.Second
			score := most
			if left > 0 {
				score = left // Redisson reckons the times of other places from it
			}
			s.about("its place", s.left("x", java), score)
			// Meanwhile the places of ours ask only to keep themselves, and nobody has them ask sooner.
			agents := s.listen(AgentChannel(agentB), Channel("x"))
			for range 2 {
				r := s.places(two, "")
				s.about("remaining", r.Remaining, min(most, score))
				if r.AskWithin != 2*time.Second {
					t.Errorf("%+v, want it to ask within 2 s", r)
				}
			}
			s.do("PUBLISH", AgentChannel(agentB), "nothing")
			if told := s.hear(agents); told != "nothing" {
				t.Errorf("told the agents %q", told)
			}
			s.sees("x", java, fairly(two))
			// When its time is over, it is the next one's turn.
			if how == "late" {
				s.toldLater("x", -most)
			} else {
				s.do("ZADD", "redisson_lock_timeout:{x}", strconv.FormatInt(s.wall()-1, 10), java)
			}
			s.fairGrant(two)
			s.sees("x")
		})
	}
}

// toldLater moves the time at which the first waiter of Redisson's was told to take a free lock.
func (s *server) toldLater(name string, by time.Duration) {
	s.t.Helper()
	since, what, _ := strings.Cut(s.do("GET", "lockagent_told:{"+name+"}").(string), " ")
	ms, err := strconv.ParseInt(since, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	s.do("SET", "lockagent_told:{"+name+"}", strconv.FormatInt(ms+by.Milliseconds(), 10)+" "+what)
}

// A waiter of Redisson's that comes again has as much time as before.
func TestFairLockIsLeftToRedissonOnceMore(t *testing.T) {
	s := start(t)
	one, two := wish("x", agentA, 1), queueing("x", agentB, 1)
	s.fairGrant(one)
	s.javaWaits("x", java, time.Hour)
	s.fairEnd(end(one))
	s.toldLater("x", -time.Minute)
	s.do("ZINCRBY", "redisson_lock_timeout:{x}", "1", java)
	s.about("remaining", s.places(two, "").Remaining, 6*time.Second)
	s.toldLater("x", time.Hour) // the clock of the server was set back
	s.about("remaining", s.places(two, "").Remaining, 6*time.Second)
	s.toldLater("x", -7*time.Second)
	s.fairGrant(two)
}

// javaComes does what Redisson does first whenever a program asks for a fair lock or releases it: it removes the first
// places that are over by the clock of the program.
func (s *server) javaComes(name string, ahead time.Duration) {
	s.t.Helper()
	for {
		front, _ := s.do("LINDEX", "redisson_lock_queue:{"+name+"}", "0").(string)
		if front == "" || s.left(name, front) > ahead {
			return
		}
		s.do("ZREM", "redisson_lock_timeout:{"+name+"}", front)
		s.do("LPOP", "redisson_lock_queue:{"+name+"}")
	}
}

// later lets time pass for the places of agents at a lock.
func (s *server) later(name string, by time.Duration, places ...lockagent.AcquireRequest) {
	s.t.Helper()
	for _, place := range places {
		for _, key := range []string{"redisson_lock_timeout", "lockagent_places"} {
			s.do("ZINCRBY", key+":{"+name+"}", strconv.FormatInt(-by.Milliseconds(), 10), fairly(place))
		}
	}
}

// The clocks of two programs are 2 s ahead of the server's, and 2 s behind it. The places ask again as late as they
// may.
func TestP08FairPlacesBesideOtherClocks(t *testing.T) {
	s := start(t)
	one, two, three := wish("x", agentA, 1), queueing("x", agentB, 1), queueing("x", agentB, 2)
	const ahead, behind = java + "1", java + "2"
	s.fairGrant(one)
	s.listen(AgentChannel(agentB))
	s.places(two, fairly(one))
	s.javaWaits("x", ahead, 302*time.Second)
	s.places(three, fairly(one))
	s.javaWaits("x", behind, 298*time.Second)
	for range 3 {
		s.later("x", s.places(two, fairly(one)).AskWithin, two)
		s.later("x", s.places(three, fairly(one)).AskWithin, three)
		s.javaComes("x", 2*time.Second)
		s.javaComes("x", -2*time.Second)
		s.sees("x", fairly(two), ahead, fairly(three), behind)
	}
	// The places of Redisson have their time, too, whatever clock it is of.
	s.fairEnd(end(one))
	s.fairEnd(end(two))
	s.about("the place", s.left("x", ahead), 302*time.Second)
	s.sees("x", ahead, fairly(three), behind)
}

// The clock of a program is much further ahead: it removes places that are not over. They come back to where they were,
// and then last longer.
func TestFairPlacesThatAreRemovedTooEarly(t *testing.T) {
	s := start(t)
	one := wish("x", agentA, 1)
	two, three, four := queueing("x", agentB, 1), queueing("x", agentC, 1), queueing("x", agentB, 2)
	const ahead = 100 * time.Second
	s.fairGrant(one)
	s.listen(AgentChannel(agentB), AgentChannel(agentC))
	s.places(two, fairly(one))
	s.places(three, fairly(one))
	s.javaComes("x", ahead)
	s.javaWaits("x", java, time.Hour)
	s.sees("x", java)
	s.places(four, fairly(one))
	s.places(three, fairly(one))
	s.sees("x", fairly(three), java, fairly(four))
	s.places(two, fairly(one))
	s.sees("x", fairly(two), fairly(three), java, fairly(four))
	s.about("the place", s.left("x", fairly(two)), 300*time.Second)
	s.javaComes("x", ahead) // one more time
	s.places(three, fairly(one))
	s.sees("x", fairly(two), fairly(three), java, fairly(four))
	for range 3 {
		s.javaComes("x", ahead)
		s.later("x", s.places(two, fairly(one)).AskWithin, two)
		s.later("x", s.places(three, fairly(one)).AskWithin, three)
	}
	s.sees("x", fairly(two), fairly(three), java, fairly(four))
	// Nothing is left of a place that is given up.
	for _, req := range []lockagent.AcquireRequest{two, three, four} {
		s.fairEnd(end(req))
	}
	s.fairEnd(end(one))
	s.do("DEL", "redisson_lock_queue:{x}", "redisson_lock_timeout:{x}")
	s.expectKeys("lockagent_clock", "lockagent_lasts:{x}", "lockagent_told:{x}")
}

// Redisson takes the waiting time of its place off the others when the place is granted the lock. If it has waited for
// long, a place that came later is over then.
func TestFairPlaceBehindOneThatWaitedLong(t *testing.T) {
	s := start(t)
	one, two := wish("x", agentA, 1), queueing("x", agentB, 1)
	const waits = 300 * time.Second
	s.fairGrant(one)
	s.listen(AgentChannel(agentB))
	s.javaWaits("x", java, waits-100*time.Second)
	s.places(two, fairly(one))
	s.fairEnd(end(one))
	s.do("LPOP", "redisson_lock_queue:{x}")
	s.do("ZREM", "redisson_lock_timeout:{x}", java)
	s.do("ZINCRBY", "redisson_lock_timeout:{x}", strconv.FormatInt(-waits.Milliseconds(), 10), fairly(two))
	s.do("HSET", "x", java, "1")
	s.javaComes("x", 0)
	s.javaWaits("x", java+"1", waits)
	s.sees("x", java+"1")
	s.places(two, java)
	s.sees("x", fairly(two), java+"1")
}

// Redisson takes the waiting time of a place of its own off all others when that place is granted the lock.
func TestFairPlacesInRedissonsArithmetic(t *testing.T) {
	s := start(t)
	s.listen(AgentChannel(agentB))
	one := wish("x", agentA, 1)
	s.fairGrant(one)
	head := queueing("x", agentB, 1)
	s.places(head, fairly(one))
	s.about("head", s.left("x", fairly(head)), 6*time.Second)
	second := queueing("x", agentB, 2)
	s.places(second, fairly(one))
	s.about("second", s.left("x", fairly(second)), 6*time.Second)
	s.javaWaits("x", java, 306*time.Second)
	third := queueing("x", agentB, 3)
	s.places(third, fairly(one))
	s.about("behind Java", s.left("x", fairly(third)), 312*time.Second)

	// A minute later all of them ask again.
	for _, place := range []string{fairly(head), fairly(second), fairly(third), java} {
		s.do("ZINCRBY", "redisson_lock_timeout:{x}", "-60000", place)
		if place != java {
			s.do("ZINCRBY", "lockagent_places:{x}", "-60000", place)
		}
	}
	for _, req := range []lockagent.AcquireRequest{head, second, third} {
		s.places(req, fairly(one))
	}
	s.about("head", s.left("x", fairly(head)), 6*time.Second)
	s.about("second", s.left("x", fairly(second)), 6*time.Second)
	s.about("behind Java", s.left("x", fairly(third)), 312*time.Second)
}

// An attempt that asks for no place tells the first one in the way that messages travel.
func TestFairLockIsLeftToRedissonInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1)
	for _, room := range []Room{Sharded, Unqueued} {
		t.Run(room.String(), func(t *testing.T) {
			s := on(t, cluster.Nodes[0])
			s.room = room
			s.do("FLUSHALL")
			waiter := s.listen("redisson_lock__channel:{x}:" + java)
			s.javaWaits("x", java, time.Hour)
			if r := s.fair(wish("x", agentA, 1)); r.Granted || r.Holder != "" {
				t.Errorf("%+v", r)
			}
			if told := s.hear(waiter); told != "0" {
				t.Errorf("told %q", told)
			}
		})
	}
}
