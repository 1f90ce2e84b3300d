package script

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// queued gives tenures places behind a holder, in their order, and notes when they got them.
func (s *server) queued(holder string, requests ...*lockagent.AcquireRequest) (places []string) {
	s.t.Helper()
	for _, req := range requests {
		s.listen(AgentChannel(req.Tenure.Agent))
		req.Arrived = s.places(*req, holder).At
		places = append(places, fairly(*req))
	}
	return places
}

// A store that forgot puts places back in a grace period, in the order in which they were.
func TestFairPlacesComeBackInGrace(t *testing.T) {
	s := start(t)
	one := wish("x", agentA, 1)
	token := s.fairGrant(one).Token
	two, three, four := queueing("x", agentB, 1), queueing("x", agentC, 1), queueing("x", agentB, 2)
	places := s.queued(fairly(one), &two, &three, &four)
	s.do("FLUSHALL")
	s.look(Look{Grace: true, Known: "1.feed.1", Roll: []Member{annaOnTheRoll, bertaOnTheRoll}})
	refused := func(requests ...lockagent.AcquireRequest) {
		t.Helper()
		for _, req := range requests {
			if s.refusedAs(lockagent.FairLock, req) == 0 {
				t.Errorf("%s is not refused", req.Tenure)
			}
		}
	}
	refused(four, two, queueing("x", agentC, 2), wish("x", agentC, 3)) // the last two had no places
	s.sees("x", places[0], places[2])
	one.Kind = lockagent.FairLock
	if !s.reassert(one, token) {
		t.Fatal("the holder has not come back")
	}
	held := one
	held.Arrived, held.Queue = two.Arrived, true // by a call that was on its way while the tenure began
	refused(held, three, four)
	s.sees("x", places...)
	for _, key := range []string{"lockagent_places:{x}", "lockagent_arrivals:{x}", "redisson_lock_timeout:{x}"} {
		if n := s.do("ZCARD", key); n != int64(3) {
			t.Errorf("%s has %v places", key, n)
		}
	}
	s.settle()
	s.came(agentA, s.past.Incarnation)
	s.came(agentB, s.past.Incarnation)
	s.places(three, fairly(one))
	s.sees("x", places...)
	for _, next := range []lockagent.AcquireRequest{two, three, four} {
		if r := s.fairEnd(end(one)); !r.Passed {
			t.Fatalf("%s was released: %+v", one.Tenure, r)
		}
		one = next
	}
	s.sees("x")
}

// A tenure that was withdrawn gets no place.
func TestWhoGaveUpDoesNotComeBackInGrace(t *testing.T) {
	s := graced(t)
	gone := end(queueing("x", agentB, 1))
	gone.Unanswered = true
	s.fairEnd(gone)
	late := queueing("x", agentB, 1)
	late.Arrived = 1
	if s.refusedAs(lockagent.FairLock, late) == 0 {
		t.Error("the late attempt is not refused")
	}
	s.sees("x")
}

// A place that was lost comes back before those of ours that came later.
func TestLostFairPlaces(t *testing.T) {
	s := start(t)
	one := wish("x", agentA, 1)
	s.fairGrant(one)
	const many = 250
	requests := make([]lockagent.AcquireRequest, many)
	places := make([]string, many)
	s.listen(AgentChannel(agentB))
	for i := range requests {
		requests[i] = queueing("x", agentB, uint64(i+1))
		requests[i].Arrived = s.places(requests[i], fairly(one)).At
		places[i] = fairly(requests[i])
	}
	lose := func() {
		s.do("DEL", "redisson_lock_queue:{x}", "redisson_lock_timeout:{x}", "lockagent_places:{x}", "lockagent_arrivals:{x}")
	}
	for name, order := range map[string]func(i int) int{
		"the last one first": func(i int) int { return many - 1 - i },
		"mixed":              func(i int) int { return i * 77 % many },
	} {
		t.Run(name, func(t *testing.T) {
			lose()
			for i := range many {
				s.places(requests[order(i)], fairly(one))
			}
			if got := s.waiting("x"); !slices.Equal(got, places) {
				t.Errorf("the order is %q", got)
			}
		})
	}
	t.Run("beside others", func(t *testing.T) {
		lose()
		s.places(requests[5], fairly(one))
		s.javaWaits("x", java, 0)
		for _, i := range []int{7, 3} {
			s.places(requests[i], fairly(one))
		}
		s.sees("x", places[3], places[5], java, places[7])
		s.about("a place before the program", s.left("x", places[3]), 6*time.Second)
	})
	t.Run("a new one comes last", func(t *testing.T) {
		lose()
		s.places(requests[7], fairly(one))
		s.places(queueing("x", agentB, many+1), fairly(one))
		s.places(requests[5], fairly(one))
		s.sees("x", places[5], places[7], fmt.Sprintf("%s:%d", agentB, many+1))
	})
}
