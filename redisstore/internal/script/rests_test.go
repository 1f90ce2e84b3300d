package script

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// resting is a wish for a tenure that may rest.
func resting(name lockagent.Name, agent lockagent.AgentID, number uint64) lockagent.AcquireRequest {
	req := wish(name, agent, number)
	req.Rests = true
	return req
}

// Redisson counts only its own fields. So the value of ours may say that the tenure may rest.
func TestLayoutOfATenureThatMayRest(t *testing.T) {
	s := start(t)
	if r := s.acquire(resting("orders", agentA, 1)); !r.Granted || !r.Rests {
		t.Fatalf("acquired %+v", r)
	}
	if got := fmt.Sprint(s.Do("HGETALL", "orders")); got != fmt.Sprint(map[any]any{tenure(agentA, 1).String(): "12"}) &&
		got != fmt.Sprintf("[%s 12]", tenure(agentA, 1)) {
		t.Errorf("the lock is %s", got)
	}
	s.renew(lockagent.RenewRequest{Name: "orders", Tenure: tenure(agentA, 1), Lease: time.Minute})
	// Its agent keeps it for a hold that lasts.
	if got := s.Do("HGET", "orders", tenure(agentA, 1).String()); got != "2" {
		t.Errorf("after a renewal the tenure has the value %q", got)
	}
	s.release(end(wish("orders", agentA, 1)))
	s.grant(wish("orders", agentB, 1))
}

// The count of another program says nothing about rests, whatever it is.
func TestAnotherProgramNeverRests(t *testing.T) {
	s := start(t)
	s.Do("HSET", "orders", another, "12")
	if r := s.acquire(wish("orders", agentA, 1)); r.Granted || r.HolderRests || r.Holder != another {
		t.Errorf("acquired %+v", r)
	}
}

// An outsider that waits would be kept waiting.
func TestNoTenureRestsWhileOutsidersWait(t *testing.T) {
	s := start(t)
	s.listen(Channel("orders"))
	if r := s.acquire(resting("orders", agentA, 1)); !r.Granted || r.Rests || r.Outsiders != 1 {
		t.Errorf("acquired %+v", r)
	}
}

// An agent whose identity does not say that it is one of ours is not told, so its tenures do not rest.
func TestOnlyAgentsThatAreKnownRest(t *testing.T) {
	s := start(t)
	if r := s.acquire(resting("orders", "somebody", 1)); !r.Granted || r.Rests {
		t.Errorf("acquired %+v", r)
	}
}

// A batch may have both: a tenure that may rest takes the long way, and the others the short one.
func TestATenureThatMayRestInABatch(t *testing.T) {
	s := start(t)
	replies := s.acquireAll(wish("a", agentA, 1), resting("b", agentA, 2), wish("c", agentA, 3))
	for i, r := range replies {
		if !r.Reply.Granted || r.Reply.Rests != (i == 1) {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

// A server that is full lets a script write new data only after another write. So a renewal takes the mark all the
// same, and renews the neighbours of the tenure.
func TestARenewalOfATenureThatMayRestOnAFullServer(t *testing.T) {
	s := startOwn(t)
	fenced := fencedServer{s}
	plain, token, neighbour := resting("plain", agentA, 1), resting("fenced", agentA, 2), wish("orders", agentA, 3)
	for what, r := range map[string]lockagent.AcquireReply{"plain": s.grant(plain), "fenced": fenced.grant(token)} {
		if !r.Rests {
			t.Errorf("%s: %+v", what, r)
		}
	}
	s.grant(neighbour)
	s.Do("CONFIG", "SET", "maxmemory", "1")
	const lease = time.Hour
	expect(t, s.renewAll(
		lockagent.RenewRequest{Name: plain.Name, Tenure: plain.Tenure, Lease: lease},
		lockagent.RenewRequest{Name: neighbour.Name, Tenure: neighbour.Tenure, Lease: lease},
	), "held: true", "held: true")
	fenced.renew(token.Name, token.Tenure, lease)
	for _, name := range []lockagent.Name{plain.Name, neighbour.Name, token.Name} {
		s.lives(string(name), lease)
	}
	for req, want := range map[lockagent.AcquireRequest]string{plain: "2", token: "4"} {
		if got := s.Do("HGET", string(req.Name), req.Tenure.String()); got != want {
			t.Errorf("%s has the value %v, want %s", req.Name, got, want)
		}
	}
}
