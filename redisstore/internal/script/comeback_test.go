package script

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
)

// A server that is full lets the agents come back.
func TestAFullServerInAGracePeriod(t *testing.T) {
	s := on(t, redistest.Start(t))
	s.look(Look{Grace: true, Known: "1.feed.1", Roll: []Member{annaOnTheRoll}})
	s.Do("SET", "semaphore", "3")
	s.Do("CONFIG", "SET", "maxmemory", "1")
	for _, kind := range slices.Concat(alike, readWrite) {
		req := wish("of kind "+lockagent.Name(kind), agentA, 1)
		if req.Kind = kind; !s.reassert(req, 100) {
			t.Errorf("%s: not held", kind)
		}
	}
	for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
		if held, _ := s.reassertPermits(kind, "of kind "+lockagent.Name(kind), agentA, 100, 2, 3); !held {
			t.Errorf("%s: not held", kind)
		}
	}
	s.came(agentA, s.past.Incarnation)
	if at := s.Do("ZSCORE", graceKey, string(agentA)); at != "0" {
		t.Errorf("the period waits until %v", at)
	}
}

// reassertPermits puts a tenure of a semaphore back. It reports whether the tenure is held, and how many permits are
// free.
func (s *server) reassertPermits(
	kind lockagent.LockKind, name lockagent.Name, agent lockagent.AgentID, last lockagent.Token, permits, total int,
) (held bool, free string) {
	s.t.Helper()
	s.room.ReassertPermits(&s.call, &lockagent.RenewRequest{
		Name: name, Kind: kind, Tenure: tenure(agent, 1), Lease: 30 * time.Second, Last: last,
		Permits: permits, Total: total,
	}, s.past)
	outcomes := make([]Outcome[lockagent.RenewReply], 1)
	if err := ReadRenewed(s.must(&s.call), s.past, outcomes); err != nil {
		s.t.Fatal(err)
	}
	if outcomes[0].Err != nil {
		s.t.Fatal(outcomes[0].Err)
	}
	return outcomes[0].Reply.Held, fmt.Sprint(s.Do("GET", string(name)))
}

// The number of permits comes back with the tenures: the one with the greatest token knows it.
func TestReassertPermits(t *testing.T) {
	type claim struct {
		agent          lockagent.AgentID
		last           lockagent.Token
		permits, total int
		held           bool
		free           string
	}
	for name, c := range map[string]struct {
		free   string // what the database has; empty if it has forgotten the number
		claims []claim
	}{
		"one tenure": {claims: []claim{{agentA, 100, 2, 5, true, "3"}}},
		"twice":      {claims: []claim{{agentA, 100, 2, 5, true, "3"}, {agentA, 100, 2, 5, true, "3"}}},
		"no holds":   {claims: []claim{{agentA, 0, 2, 5, false, "<nil>"}}},
		"a number that is not known": {claims: []claim{
			{agentA, 100, 2, 0, false, "<nil>"}, {agentB, 90, 1, 5, true, "4"}, {agentA, 100, 2, 0, true, "2"},
		}},
		"the later one knows better": {claims: []claim{
			{agentA, 100, 2, 5, true, "3"}, {agentB, 200, 1, 9, true, "6"}, {agentC, 150, 1, 7, true, "5"},
		}},
		"fewer than are in use": {claims: []claim{{agentA, 100, 4, 5, true, "1"}, {agentB, 200, 3, 5, true, "-2"}}},
		"the number is there":   {free: "7", claims: []claim{{agentA, 100, 2, 5, true, "5"}}},
	} {
		for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				s := graced(t)
				if c.free != "" {
					s.Do("SET", "orders", c.free)
				}
				for i, claim := range c.claims {
					held, free := s.reassertPermits(kind, "orders", claim.agent, claim.last, claim.permits, claim.total)
					if held != claim.held || free != claim.free {
						t.Errorf("claim %d: held is %v, and %s are free", i+1, held, free)
					}
				}
			})
		}
	}
}
